import { describe, expect, it } from 'vitest';
import { ago, byName, bytes, duration, lineRate, loss, number, percent, plural, short } from './format';
import { align, csv, interpolate, smooth, thin } from './sample';

describe('rates of lines and names', () => {
  it('are in bits', () => {
    expect(lineRate(25e6)).toBe('200 Mbit/s');
    expect(lineRate(1.25e9)).toBe('10 Gbit/s');
    expect(lineRate(null)).toBe('–');
  });
  it('are ordered by their numbers', () =>
    expect([{ name: 'agent-10' }, { name: 'agent-2' }, { name: 'agent-1' }].sort(byName).map((one) => one.name)).toEqual(['agent-1', 'agent-2', 'agent-10']));
});

describe('format', () => {
  it('shows what is missing or not finite as such', () => {
    expect([number(null), number(NaN), number(Infinity), short(undefined), bytes(null), percent(null), duration(null)]).toEqual(
      ['–', 'NaN', '∞', '–', '–', '–', '–']);
    expect(loss(NaN)).toBe('NaN');
    expect(loss(-Infinity)).toBe('−∞');
  });
  it('shortens', () => {
    expect([short(999), short(1234567), short(12_400), bytes(4_680_000), bytes(12), bytes(274.634)]).toEqual(['999', '1.23 M', '12.4 k', '4.68 MB', '12 B', '275 B']);
    expect([percent(0.123, 1), plural(1, 'replica'), plural(1200, 'round')]).toEqual(['12.3 %', '1 replica', '1,200 rounds']);
  });
  it('tells durations in two units', () => {
    expect([0, 0.00008, 0.0006, 0.045, 3.21, 59, 61, 3725, 90000, -1].map(duration)).toEqual(['0 ms', '80 µs', '1 ms', '45 ms', '3.2 s', '59 s', '1 min 1 s', '1 h 2 min', '1 d 1 h', '0 s']);
  });
  it('bears clocks that disagree', () => {
    const now = Date.parse('2026-01-01T00:00:00Z');
    expect(ago('2026-01-01T00:00:02Z', now)).toBe('now');
    expect(ago('2026-01-01T00:01:00Z', now)).toBe('in 1 min');
    expect(ago('2025-12-31T23:59:56Z', now)).toBe('4 s ago');
    expect(ago('garbage', now)).toBe('–');
  });
});

describe('samples', () => {
  it('smooths without a bias at the start and keeps gaps', () => {
    expect(smooth([2, null, 2, NaN], 0.9).map((value) => value && Math.round(value * 1e6) / 1e6)).toEqual([2, null, 2, null]);
    expect(smooth([1, 5], 0)).toEqual([1, 5]);
  });
  it('thins to a bound and keeps the peaks', () => {
    const xs = Array.from({ length: 10_000 }, (_, i) => i);
    const ys = xs.map((x) => (x === 777 ? 99 : x === 5003 ? -99 : 0));
    const [outX, outY] = thin(xs, ys, 100);
    expect(outX.length).toBeLessThanOrEqual(101);
    expect(outY).toContain(99);
    expect(outY).toContain(-99);
    expect(outX).toEqual([...outX].sort((a, b) => a - b));
    expect(thin([1, 2], [3, 4], 100)).toEqual([[1, 2], [3, 4]]);
  });
  it('joins lines over one axis', () => {
    expect(align([{ x: [1, 3], y: [10, 30] }, { x: [2, 3, null], y: [20, NaN, 5] }])).toEqual([[1, 2, 3], [10, null, 30], [null, 20, null]]);
  });
  it('maps one axis to another', () => {
    expect(interpolate([0, 10], [0, 100], 5)).toBe(50);
    expect(interpolate([0, 10], [0, 100], 50)).toBe(100);
    expect(interpolate([], [], 1)).toBeNull();
  });
  it('writes files that no spreadsheet takes for formulas', () => {
    expect(csv(['a', 'b'], [['x,"y"', 1], ['=cmd()', null]])).toBe('a,b\n"x,""y""",1\n\'=cmd(),\n');
  });
});
