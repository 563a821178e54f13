import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { kStreamEvents } from './stream_events';

it('the stream is followed for every kind of event that the coordinator has', () => {
  const header = readFileSync(new URL('../../coordinator/core/records/event_kinds.h', import.meta.url), 'utf8');
  const kinds = [...header.matchAll(/= "(\w+)";/g)].map((match) => match[1]);
  expect(kinds.length).toBeGreaterThan(20);
  expect([...kStreamEvents].sort()).toEqual([...kinds, 'reset'].sort());
});
