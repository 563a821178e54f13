// A job specification as text: written as TOML, compared with another key by key, and the line of a text that a
// refusal of the server is about. The rules of a specification are the server's alone.
import type { FieldProblem, JobSpec, SpecValue } from './api';

export type Entry = [pointer: string, value: string]; // the value as TOML writes it

function quoted(text: string): string {
  const escaped = text.replace(/[\\"\u0000-\u001f\u007f]/g, (sign) =>
    sign === '"' || sign === '\\' ? `\\${sign}` : `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return `"${escaped}"`;
}

function written(value: SpecValue): string {
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) return `[${value.map(written).join(', ')}]`;
  return String(value);
}

const isTable = (value: SpecValue): value is { [key: string]: SpecValue } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

// Every field by its JSON pointer, in the order of the server; nulls are fields without a value.
export function entries(table: { [key: string]: SpecValue }, above = ''): Entry[] {
  return Object.entries(table).flatMap(([key, value]): Entry[] => {
    if (value === null) return [];
    return isTable(value) ? entries(value, `${above}/${key}`) : [[`${above}/${key}`, written(value)]];
  });
}

// Own keys of a table come before the tables inside it: what follows a header belongs to it.
export function toToml(spec: JobSpec): string {
  const tables = new Map<string, string[]>();
  for (const [pointer, value] of entries(spec)) {
    const parts = pointer.slice(1).split('/');
    const table = parts.slice(0, -1).join('.');
    if (!tables.has(table)) tables.set(table, []);
    tables.get(table)!.push(`${parts.at(-1)} = ${value}`);
  }
  return [...tables].map(([table, lines]) => (table === '' ? '' : `[${table}]\n`) + lines.join('\n') + '\n').join('\n');
}

// The text with another name for its job; null: it names the job in no line of its own, as TOML does above all tables.
export function renamed(toml: string, name: string): string | null {
  const tables = toml.search(/^\s*\[/m);
  const head = tables < 0 ? toml : toml.slice(0, tables);
  const at = /^[ \t]*name[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*')/m.exec(head);
  return at === null ? null : `${toml.slice(0, at.index)}name = ${quoted(name)}${toml.slice(at.index + at[0].length)}`;
}

// The text with the path of its data where it really lies; null: the text has no line of its own for it.
export function relocated(toml: string, path: string): string | null {
  const at = lineOfField(toml, '/data/train');
  if (at === null) return null;
  const lines = toml.split('\n');
  const found = /^([ \t]*(?:data\.)?train[ \t]*=[ \t]*)("[^"\n]*"|'[^'\n]*')/.exec(lines[at]!);
  if (found === null) return null;
  lines[at] = found[1] + quoted(path) + lines[at]!.slice(found[0].length);
  return lines.join('\n');
}

export interface Difference {
  pointer: string;
  values: (string | null)[]; // one of each specification; null: it has no such field
  same: boolean;
}

export function compareSpecs(specs: JobSpec[]): Difference[] {
  const maps = specs.map((spec) => new Map(entries(spec)));
  const pointers = new Set(maps.flatMap((map) => [...map.keys()]));
  return [...pointers].map((pointer) => {
    const values = maps.map((map) => map.get(pointer) ?? null);
    return { pointer, values, same: values.every((value) => value === values[0]) };
  });
}

// The line, from 0, of a field in a text that may not even be TOML: its key, else its table's header, else null.
export function lineOfField(toml: string, pointer: string): number | null {
  const parts = pointer.split('/').filter((part) => part !== '');
  if (parts.length === 0) return null;
  let table = '', header: number | null = null;
  const lines = toml.split('\n');
  for (let i = 0; i < lines.length; ++i) {
    const opened = /^\s*\[\s*([^\]]+?)\s*\]/.exec(lines[i]!);
    if (opened) table = opened[1]!.replace(/\s*\.\s*/g, '.');
    const key = opened ? '' : (/^\s*([\w.-]+)\s*=/.exec(lines[i]!)?.[1] ?? '');
    const full = [table, key].filter((part) => part !== '').join('.');
    if (key !== '' && full === parts.join('.')) return i;
    if (opened && table !== '' && `${parts.join('.')}.`.startsWith(`${table}.`)) header = i;
  }
  return header;
}

export interface LineProblem {
  line: number | null; // from 0
  pointer: string;
  text: string;
}

// Where to show what the server refused. It names the line itself when the field is in the text.
export function placeProblems(toml: string, fields: FieldProblem[], sentence: string): LineProblem[] {
  const said = (text: string) => {
    const line = /\bline (\d+)/.exec(text)?.[1];
    return line === undefined ? null : Number(line) - 1;
  };
  if (fields.length === 0) return [{ line: said(sentence), pointer: '', text: sentence }];
  return fields.map(({ pointer, detail }) => ({
    line: said(detail) ?? lineOfField(toml, pointer),
    pointer,
    text: detail.replace(/ \(line \d+, column \d+\)$/, ''),
  }));
}
