// A line chart over uPlot: one cursor for all charts of a page, marks for events, and behind each chart the
// same numbers as a table and as a file. Colors come from the style sheet, so that it follows the theme.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clock, moment, number, short } from './format';
import { saveCsv } from './parts';
import { align, smooth, thinLine } from './sample';

export interface Line {
  name: string;
  x: (number | null)[];
  y: (number | null)[];
  color: 1 | 2 | 3 | 4;
  points?: boolean; // few values, far apart: joined and marked
}

export interface Mark {
  x: number;
  text: string;
  tone: 'good' | 'warn' | 'bad';
}

interface Props {
  title: string;
  file: string;
  xName: string;
  lines: Line[];
  marks?: Mark[];
  height?: number;
  unit?: (value: number | null | undefined) => string;
  axisUnit?: (value: number | null | undefined) => string;
  log?: boolean; // of y
  logX?: boolean;
  smoothing?: number;
  fromZero?: boolean;
  time?: boolean; // x is a time, in seconds since 1970, and a gap of a line stays one
  empty?: string; // instead of the chart, while there is no point
  sync: string;
}

const kDrawnMost = 3000; // points of a line: more than a screen has pixels

const kPaleMarks = 24; // more of them would hide the line

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function drawMarks(plot: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.globalAlpha = marks.length > kPaleMarks ? 0.35 : 1;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.x, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = css(`--${mark.tone}`);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

const fewPoints = (line: Line) => line.x.length <= 60;

function series(line: Line, { smoothing = 0, time }: Props, unit: (value: number | null | undefined) => string): uPlot.Series {
  const color = css(`--line-${line.color}`);
  return {
    label: line.name,
    stroke: color,
    width: smoothing > 0 && !line.points ? 2 : 1.6,
    spanGaps: time !== true,
    points: line.points && fewPoints(line) ? { show: true, size: 5, fill: color } : { show: false },
    value: (_, value) => unit(value),
  };
}

function options(props: Props, width: number, marks: { current: Mark[] }): uPlot.Options {
  const unit = props.unit ?? ((value) => number(value, 3));
  const grid = { stroke: css('--grid'), width: 1 };
  const axis = { stroke: css('--muted'), grid, ticks: grid, font: '11px system-ui, sans-serif' };
  return {
    width,
    height: props.height ?? 260,
    cursor: { sync: { key: props.sync, setSeries: false }, drag: { x: true, y: false } },
    legend: { live: true },
    scales: {
      x: { time: props.time === true, distr: props.logX ? 3 : 1 },
      y: {
        distr: props.log ? 3 : 1,
        range: props.log
          ? undefined
          : (_, low, high) => {
              if (low == null || high == null) return [0, 1];
              const room = (high - (props.fromZero ? 0 : low) || Math.abs(high) || 1) * 0.06;
              return [props.fromZero ? 0 : low - room, high + room];
            },
      },
    },
    axes: [
      { ...axis, space: 70, values: (_, ticks) => ticks.map((tick) => (tick == null ? '' : (props.time ? clock : short)(tick))) },
      { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => (tick == null ? '' : (props.axisUnit ?? unit)(tick))) },
    ],
    series: [
      { label: props.xName, value: (_, value) => (value == null ? '–' : (props.time ? moment : short)(value)) },
      ...props.lines.map((line) => series(line, props, unit)),
    ],
    hooks: { draw: [(plot) => drawMarks(plot, marks.current)] },
  };
}

function useTheme(): number {
  const [turn, next] = useState(0);
  useEffect(() => {
    const media = matchMedia('(prefers-color-scheme: dark)');
    const change = () => next((value) => value + 1);
    media.addEventListener('change', change);
    const observer = new MutationObserver(change);
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    return () => {
      media.removeEventListener('change', change);
      observer.disconnect();
    };
  }, []);
  return turn;
}

export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marks = useRef<Mark[]>([]);
  const [table, showTable] = useState(false);
  const theme = useTheme();
  marks.current = props.marks ?? [];
  const raw = useMemo(() => align(props.lines.map((line) => thinLine(line, kDrawnMost))), [props.lines]);
  const drawn = useMemo(() => {
    const [xs, ...ys] = raw;
    const columns = ys.map((y, i) => {
      const kept = props.lines[i]?.points ? y : smooth(y, props.smoothing ?? 0);
      return props.log ? kept.map((value) => (value !== null && value > 0 ? value : null)) : kept;
    });
    if (!props.logX) return [xs, ...columns] as uPlot.AlignedData;
    const from = xs.findIndex((x) => x > 0);
    return (from < 0 ? [[], ...columns.map(() => [])] : [xs, ...columns].map((one) => one.slice(from))) as uPlot.AlignedData;
  }, [raw, props.smoothing, props.log, props.logX]);
  const empty = raw[0].length === 0;
  const shape = `${props.lines.map((line) => `${line.name}${fewPoints(line)}`).join()}|${props.log}|${props.logX}|${(props.smoothing ?? 0) > 0}|${theme}`;

  useEffect(() => {
    const node = place.current;
    if (node === null || empty || table) return;
    const made = new uPlot(options(props, Math.max(200, node.clientWidth), marks), drawn, node);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      made.setSize({ width: Math.max(200, node.clientWidth), height: props.height ?? 260 });
    });
    observer.observe(node);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, empty, table]);
  useEffect(() => {
    const frame = requestAnimationFrame(() => plot.current?.setData(drawn));
    return () => cancelAnimationFrame(frame);
  }, [drawn, props.marks]);

  const header = [props.xName, ...props.lines.map((line) => line.name)];
  const rows = () => {
    const [xs, ...columns] = align(props.lines);
    return xs.map((x, i) => [x, ...columns.map((column) => column[i] ?? null)]);
  };
  return (
    <figure class="chart">
      <figcaption>
        <span>{props.title}</span>
        <span class="tools">
          <button type="button" class="link" aria-pressed={table} onClick={() => showTable(!table)}>
            {table ? 'Chart' : 'Table'}
            <span class="unseen"> of {props.title}</span>
          </button>
          <button type="button" class="link" onClick={() => saveCsv(props.file, header, rows().map(([x, ...ys]) => [props.time ? new Date(1000 * x!).toISOString() : x!, ...ys]))}>
            CSV<span class="unseen"> of {props.title}</span>
          </button>
        </span>
      </figcaption>
      {empty && <p class="empty">{props.empty ?? 'Nothing yet: the first point comes with the first committed round.'}</p>}
      {!empty && !table && <div class="plot" ref={place} role="img" aria-label={`${props.title}; the table has the numbers`} />}
      {!empty && table && <NumberTable title={props.title} header={header} rows={rows()} unit={props.unit} xUnit={props.time ? moment : number} />}
    </figure>
  );
}

function NumberTable(props: {
  title: string;
  header: string[];
  rows: (number | null)[][];
  unit?: (value: number | null | undefined) => string;
  xUnit: (value: number | null) => string;
}) {
  const shown = props.rows.slice(-500).reverse();
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label={props.title}>
      <table>
        <thead>
          <tr>
            {props.header.map((name) => (
              <th key={name} scope="col" class="num">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={String(row[0])}>
              {row.map((value, i) => (
                <td key={props.header[i]} class="num">
                  {i === 0 ? props.xUnit(value) : (props.unit ?? ((one) => number(one, 4)))(value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
