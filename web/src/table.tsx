// Tables: every list of the dashboard, with a file of its values. Long ones hold only the rows in sight, and make
// only so many at a time as a frame has time for.
import { Component, type ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { number } from './format';
import { saveCsv } from './parts';

export interface Column<T> {
  name: string;
  show: (row: T) => ComponentChildren;
  value?: (row: T) => string | number | null; // for the file; without it the column is not in it
  numeric?: boolean;
  text?: boolean; // sentences, which may take several lines
}

interface TableProps<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string | number;
  empty?: string;
  file?: string;
  tall?: boolean; // rows of several lines: all are kept, and the table scrolls
}

const cellClass = <T,>(column: Column<T>) => (column.numeric ? 'num' : column.text ? 'text' : '');

interface RowProps<T> {
  row: T;
  columns: Column<T>[];
}

// Rendered again only for another record or other columns: a table is scrolled and refreshed often.
class Cells<T> extends Component<RowProps<T>> {
  override shouldComponentUpdate(next: RowProps<T>) {
    return next.row !== this.props.row || next.columns !== this.props.columns;
  }
  render({ row, columns }: RowProps<T>) {
    return (
      <>
        {columns.map((column) => (
          <td key={column.name} class={cellClass(column)}>
            {column.show(row)}
          </td>
        ))}
      </>
    );
  }
}

function Head<T>({ columns }: { columns: Column<T>[] }) {
  return (
    <thead>
      <tr>
        {columns.map((column) => (
          <th key={column.name} scope="col" class={column.numeric ? 'num' : ''}>
            {column.name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

export function Table<T>(props: TableProps<T>) {
  const { columns, rows } = props;
  if (rows.length === 0) return <p class="empty">{props.empty ?? 'Nothing yet.'}</p>;
  if (rows.length > kAllRows && !props.tall) return <LongTable {...props} />;
  return (
    <>
      <div class={props.tall ? 'scroll tall' : 'scroll'} tabIndex={0} role="region" aria-label={props.caption}>
        <table>
          <caption class="unseen">{props.caption}</caption>
          <Head columns={columns} />
          <tbody>
            {rows.map((row) => (
              <tr key={props.rowKey(row)}>
                <Cells row={row} columns={columns} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {props.file && <Download file={props.file} columns={columns} rows={rows} />}
    </>
  );
}

const kAllRows = 40; // longer tables hold only the rows that are seen
const kRowPx = 34; // of .scroll.long tr
const kBeyond = 3; // rows kept above and below
const kStepPx = 4 * kRowPx; // scrolled before other rows are made
const kCellsPerFrame = 64; // made at a time: a frame that makes more comes late

const kLooked = 200; // rows, evenly spread, among which the widest are sought

interface Widest<T> {
  rows: (T | undefined)[]; // the row with the longest text of each column
  key: string; // the greatest lengths so far: as long as they stay, so do the columns
}

// Lengths only grow, so that a search does not move the columns.
function useWidest<T>(columns: Column<T>[], rows: T[]): Widest<T> {
  const ever = useRef<{ names: string; lengths: number[] }>({ names: '', lengths: [] });
  return useMemo(() => {
    const names = columns.map((column) => column.name).join();
    const before = ever.current.names === names ? ever.current.lengths : [];
    const lengths = columns.map(() => -1);
    const found = columns.map((column, c) => {
      let widest: T | undefined = rows[0];
      for (let i = 0; i < rows.length; i += Math.ceil(rows.length / kLooked)) {
        const length = cellText(column, rows[i]!).length;
        if (length > lengths[c]!) [widest, lengths[c]] = [rows[i], length];
      }
      return widest;
    });
    ever.current = { names, lengths: lengths.map((length, i) => Math.max(length, before[i] ?? 0)) };
    return { rows: found, key: `${names} ${ever.current.lengths.join()}` };
  }, [columns, rows]);
}

// What a cell says, as far as that is known without drawing it.
function cellText<T>(column: Column<T>, row: T): string {
  const shown = column.show(row);
  return typeof shown === 'string' || typeof shown === 'number' ? String(shown) : String(column.value?.(row) ?? '');
}

// How wide the columns of a table are. Measured once with the widest row laid out (null until then) and again when
// the texts or the place change: with known widths the browser need not look at each cell while it is scrolled.
function useWidths(table: { current: HTMLTableElement | null }, key: string): number[] | null {
  const [known, know] = useState<{ key: string; px: number[] } | null>(null);
  const px = known !== null && known.key === key ? known.px : null;
  useLayoutEffect(() => {
    if (px !== null || table.current === null) return;
    know({ key, px: [...table.current.querySelectorAll('th')].map((cell) => cell.getBoundingClientRect().width) });
  });
  return px;
}

function useSize(box: { current: HTMLElement | null }): [number, number] {
  const [size, setSize] = useState<[number, number]>([0, 700]);
  useLayoutEffect(() => {
    const look = () => setSize([box.current?.clientWidth ?? 0, box.current?.clientHeight ?? 700]);
    const observer = new ResizeObserver(look);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return size;
}

function WidestRow<T>({ columns, widest }: { columns: Column<T>[]; widest: Widest<T> }) {
  return (
    <tr class="widest" aria-hidden="true">
      {columns.map((column, i) => (
        <td key={column.name} class={cellClass(column)}>
          {widest.rows[i] !== undefined && column.show(widest.rows[i])}
        </td>
      ))}
    </tr>
  );
}

interface Span {
  first: number;
  last: number; // the one behind it
}

// Rows [first, last) a step nearer to the wanted ones: without those that are not wanted, or with at most `most` rows
// more. Never both: then nodes that stay would be moved. After a jump it starts over with those in sight.
export function toward(shown: Span, wanted: Span, most: number): Span {
  const kept = { first: Math.max(shown.first, wanted.first), last: Math.min(shown.last, wanted.last) };
  if (kept.first >= kept.last) {
    const first = Math.max(wanted.first, Math.min(wanted.first + kBeyond, wanted.last - most));
    return { first, last: Math.min(wanted.last, first + most) };
  }
  if (kept.first !== shown.first || kept.last !== shown.last) return kept;
  const last = Math.min(wanted.last, shown.last + most);
  return { first: Math.max(wanted.first, shown.first - (most - (last - shown.last))), last };
}

// The rows to hold now: all that are wanted at first, then frame by frame as many as a frame has time for.
function useSpan(wanted: Span, most: number, rows: number): Span {
  const [shown, show] = useState(wanted);
  const fits = shown.last > rows || shown.first > shown.last ? wanted : shown;
  const there = fits.first === wanted.first && fits.last === wanted.last;
  useLayoutEffect(() => {
    if (there) return;
    const frame = requestAnimationFrame(() => show(toward(fits, wanted, most)));
    return () => cancelAnimationFrame(frame);
  });
  return fits;
}

function LongTable<T>(props: TableProps<T>) {
  const { columns, rows } = props;
  const [top, setTop] = useState(0);
  const box = useRef<HTMLDivElement>(null), table = useRef<HTMLTableElement>(null);
  const [width, height] = useSize(box);
  const widest = useWidest(columns, rows);
  const widths = useWidths(table, `${width} ${widest.key}`);
  const slots = Math.ceil((height + kStepPx) / kRowPx) + 2 * kBeyond;
  const start = Math.max(0, Math.min(Math.floor(top / kRowPx) - kBeyond, rows.length - slots));
  const wanted = { first: start, last: Math.min(rows.length, start + slots) };
  const { first, last } = useSpan(wanted, Math.max(2, Math.floor(kCellsPerFrame / columns.length)), rows.length);
  const spacer = (place: string, count: number) => <tr key={place} aria-hidden="true" style={{ height: `${count * kRowPx}px` }} />;
  return (
    <>
      <div class="scroll long" ref={box} tabIndex={0} role="region" aria-label={props.caption}
        onScroll={(event) => setTop(Math.floor(event.currentTarget.scrollTop / kStepPx) * kStepPx)}>
        <table ref={table} class={widths === null ? '' : 'measured'} aria-rowcount={rows.length + 1}>
          <caption class="unseen">{props.caption}</caption>
          {widths !== null && <colgroup>{widths.map((px, i) => <col key={i} style={{ width: `${px}px` }} />)}</colgroup>}
          <Head columns={columns} />
          <tbody>
            {widths === null && <WidestRow columns={columns} widest={widest} />}
            {spacer('above', first)}
            {rows.slice(first, last).map((row, i) => (
              <tr key={props.rowKey(row)} aria-rowindex={first + i + 2}>
                <Cells row={row} columns={columns} />
              </tr>
            ))}
            {spacer('below', rows.length - last)}
          </tbody>
        </table>
      </div>
      <p class="under muted">{number(rows.length)} rows</p>
      {props.file && <Download file={props.file} columns={columns} rows={rows} />}
    </>
  );
}

function Download<T>({ file, columns, rows }: { file: string; columns: Column<T>[]; rows: T[] }) {
  const save = () => {
    const kept = columns.filter((column) => column.value);
    saveCsv(file, kept.map((column) => column.name), rows.map((row) => kept.map((column) => column.value!(row))));
  };
  return (
    <p class="under">
      <button type="button" class="link" onClick={save}>
        CSV<span class="unseen"> of {file}</span>
      </button>
    </p>
  );
}
