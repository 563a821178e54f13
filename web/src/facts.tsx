// An answer of the server whose fields may grow, shown field by field: names say the unit ("_bytes", "_s"),
// lists of records become tables. Nothing that the server says is left out because this page is older.
import type { SpecValue } from './api';
import { bytes, duration, kNone, number, short, words } from './format';
import { Table, type Column } from './parts';

type Fields = { [key: string]: SpecValue };

const isFields = (value: SpecValue | undefined): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value);
const isRecords = (value: SpecValue | undefined): value is Fields[] => Array.isArray(value) && value.length > 0 && value.every(isFields);

export function fact(key: string, value: SpecValue | undefined): string {
  if (value === null || value === undefined) return kNone;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map((one) => fact(key, one)).join(', ') || 'none';
  if (isFields(value)) return Object.entries(value).map(([name, one]) => `${label(name)} ${fact(name, one)}`).join(', ');
  if (typeof value === 'string') return value;
  if (key.endsWith('bytes') || key.endsWith('bytes_per_second')) return bytes(value) + (key.endsWith('second') ? '/s' : '');
  if (key.endsWith('_s') || key.endsWith('seconds')) return duration(value);
  if (Math.abs(value) >= 10_000) return short(value);
  return number(value, Number.isInteger(value) ? 0 : 3);
}

export const label = (key: string): string => words(key.replace(/_(s|bytes|seconds)$/, ''));

function columnsOf(rows: Fields[]): Column<Fields>[] {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return keys.map((key) => ({
    name: label(key),
    numeric: rows.every((row) => typeof row[key] !== 'string' && typeof row[key] !== 'object'),
    show: (row) => fact(key, row[key]),
    value: (row) => fact(key, row[key]),
  }));
}

export function Facts({ value, name = '' }: { value: SpecValue; name?: string }) {
  if (isRecords(value)) return <Table caption={name || 'Records'} columns={columnsOf(value)} rows={value} rowKey={(row) => value.indexOf(row)} />;
  if (!isFields(value)) return <p>{fact(name, value)}</p>;
  const inner = Object.entries(value).filter(([, one]) => isFields(one) || isRecords(one));
  const plain = Object.entries(value).filter(([, one]) => !isFields(one) && !isRecords(one));
  return (
    <>
      {plain.length > 0 && (
        <dl class="facts">
          {plain.map(([key, one]) => [<dt key={key}>{label(key)}</dt>, <dd key={`${key}=`}>{fact(key, one)}</dd>])}
        </dl>
      )}
      {inner.map(([key, one]) => (
        <div key={key}>
          <h3>{label(key)}</h3>
          <Facts value={one} name={label(key)} />
        </div>
      ))}
    </>
  );
}
