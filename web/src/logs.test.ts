import { describe, expect, it } from 'vitest';
import type { LogLine, LogPage } from './api_types';
import { grow } from './logs';

const line = (at: string, text: string): LogLine => ({ id: `${at}${text}`, at, level: 'info', agent: 'agt_1', agent_name: 'a', source: 'agent', replica: null, text });
const page = (cursor: string, ...items: LogLine[]): LogPage => ({ items, next_cursor: cursor, missing: [] });
const texts = (lines: LogLine[]) => lines.map((one) => one.text).join('');

describe('a log grows', () => {
  it('by what came since', () => {
    const log = grow(grow(undefined, page('1', line('1', 'a'), line('2', 'b'))), page('2', line('3', 'c')));
    expect(texts(log.lines)).toBe('abc');
    expect(log.cursor).toBe('2');
  });
  it('in order, when a host was late', () => {
    const log = grow(grow(undefined, page('1', line('1', 'a'), line('3', 'c'))), page('2', line('2', 'b')));
    expect(texts(log.lines)).toBe('abc');
  });
  it('and forgets the oldest, counted', () => {
    const log = grow(grow(undefined, page('1', line('1', 'a'), line('2', 'b')), 3), page('2', line('3', 'c'), line('4', 'd')), 3);
    expect(texts(log.lines)).toBe('bcd');
    expect(log.dropped).toBe(1);
  });
  it('keeps its lines when there is nothing new, and says who is missing', () => {
    const known = grow(undefined, page('1', line('1', 'a')));
    const log = grow(known, { ...page('2'), missing: [{ agent: 'agt_2', agent_name: 'b', problem: 'not connected' }] });
    expect(log.lines).toBe(known.lines);
    expect(log.missing).toHaveLength(1);
  });
});
