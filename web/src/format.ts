// Numbers, times and sizes as people read them. A value that is missing or not finite is never shown as a
// number: it is a dash, or named.

export const kNone = '–';

export function finite(value: number | null | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

const formats = new Map<number, Intl.NumberFormat>(); // one is dear to make and cheap to use
function format(digits: number): Intl.NumberFormat {
  let found = formats.get(digits);
  if (found === undefined) {
    found = new Intl.NumberFormat('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
    formats.set(digits, found);
  }
  return found;
}

export function number(value: number | null | undefined, digits = 0): string {
  if (value === null || value === undefined) return kNone;
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  return format(digits).format(value);
}

export function loss(value: number | null | undefined): string {
  return number(value, finite(value) && Math.abs(value) >= 100 ? 1 : 4);
}

// 1234567 -> "1.23 M".
export function short(value: number | null | undefined): string {
  if (!finite(value)) return number(value);
  const magnitude = Math.abs(value);
  for (const [unit, letter] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']] as const)
    if (magnitude >= unit) return `${significant(value / unit)} ${letter}`;
  return significant(value);
}

function significant(value: number): string {
  const magnitude = Math.abs(value);
  const digits = magnitude >= 100 || Number.isInteger(value) ? 0 : magnitude >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

export function bytes(value: number | null | undefined): string {
  if (!finite(value)) return kNone;
  for (const [unit, letter] of [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']] as const)
    if (value >= unit) return `${significant(value / unit)} ${letter}`;
  return `${significant(value)} B`;
}

// The rate of a line, from bytes per second: 25e6 -> "200 Mbit/s". The command line writes it the same way.
export function lineRate(bytesPerSecond: number | null | undefined): string {
  if (!finite(bytesPerSecond)) return kNone;
  const bits = 8 * bytesPerSecond;
  for (const [unit, letter] of [[1e9, 'Gbit/s'], [1e6, 'Mbit/s'], [1e3, 'kbit/s']] as const)
    if (bits >= unit) return `${significant(bits / unit)} ${letter}`;
  return `${significant(bits)} bit/s`;
}

// "agent-2" before "agent-10".
const kByNumber = new Intl.Collator('en', { numeric: true });
export const byName = (one: { name: string }, other: { name: string }): number => kByNumber.compare(one.name, other.name);

export function percent(fraction: number | null | undefined, digits = 0): string {
  return finite(fraction) ? `${(fraction * 100).toFixed(digits)} %` : kNone;
}

// 3725 -> "1 h 2 min"; two units at most. 0.00008 -> "80 µs".
export function duration(seconds: number | null | undefined): string {
  if (!finite(seconds)) return kNone;
  if (seconds < 0) return '0 s';
  if (seconds > 0 && seconds < 0.0005) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const parts: [number, string][] = [
    [86400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  let rest = Math.round(seconds);
  const words: string[] = [];
  for (const [unit, name] of parts) {
    const count = Math.floor(rest / unit);
    rest -= count * unit;
    if (count > 0 || words.length > 0) words.push(`${count} ${name}`);
    if (words.length === 2) break;
  }
  return words.filter((word) => !word.startsWith('0 ')).join(' ');
}

export function millis(at: string | null | undefined): number | null {
  if (!at) return null;
  const value = Date.parse(at);
  return Number.isNaN(value) ? null : value;
}

// Clocks of a browser and a coordinator disagree: what lies a little ahead is "now".
export function ago(at: string | null | undefined, nowMs: number): string {
  const then = millis(at);
  if (then === null) return kNone;
  const seconds = (nowMs - then) / 1000;
  if (seconds < -5) return `in ${duration(-seconds)}`;
  if (seconds < 1) return 'now';
  return `${duration(Math.floor(seconds))} ago`;
}

const kLocal = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'medium' });

export function absolute(at: string | null | undefined): string {
  const then = millis(at);
  if (then === null) return '';
  return `${kLocal.format(then)} (${new Date(then).toISOString()})`;
}

const kClock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });

// Seconds since 1970, as the axis of a chart has them: the time of day, and with the day.
export const clock = (seconds: number): string => kClock.format(1000 * seconds);
export const moment = (seconds: number | null | undefined): string => (finite(seconds) ? kLocal.format(1000 * seconds) : kNone);

export function words(identifier: string): string {
  return identifier.replaceAll('_', ' ');
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}
