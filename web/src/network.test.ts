import { describe, expect, it } from 'vitest';
import type { NetworkLink, Topology } from './api';
import { pairsOf } from './pages/network';

describe('pairsOf', () => {
  it('adds the traffic of replicas of the same agents and keeps the least round trip that was measured', () => {
    const replicas = [{ id: 'rep_1', agent: 'agt_1' }, { id: 'rep_2', agent: 'agt_2' }, { id: 'rep_3', agent: 'agt_2' }, { id: 'rep_4', agent: null }];
    const links = [
      { from: 'rep_1', to: 'rep_2', bytes_per_second: 10, round_trip_s: 0.2 },
      { from: 'rep_1', to: 'rep_3', bytes_per_second: 5, round_trip_s: 0.1 },
      { from: 'rep_1', to: 'rep_4', bytes_per_second: 5, round_trip_s: 0.1 },
    ];
    const one = { stages: [], replicas, links } as unknown as Topology;
    const unmeasured = { from: 'agt_1', to: 'agt_2', line_per_second: null, reached: true, age_s: null };
    expect(pairsOf([], [one])).toEqual([{ ...unmeasured, round_trip_s: 0.1, bytes_per_second: 15 }]);
    expect(pairsOf([], [{ ...one, links: [{ ...links[0]!, round_trip_s: null, bytes_per_second: null }] }])).toEqual([{ ...unmeasured, round_trip_s: null, bytes_per_second: 0 }]);
    const within = { from: 'rep_2', to: 'rep_3', bytes_per_second: 7, round_trip_s: 0.1 };
    expect(pairsOf([], [{ ...one, links: [within] } as unknown as Topology])).toEqual([]); // both of agt_2
    const line: NetworkLink = { from: 'agt_1', to: 'agt_2', reached: true, round_trip_s: 0.05, bytes_per_second: 25e6, measured_at: '2026-01-01T00:00:00Z', age_s: 9 };
    expect(pairsOf([line], [])[0]!.bytes_per_second).toBe(null); // nobody sends over it, as far as is known
    expect(pairsOf([line], [one])).toEqual([{ from: 'agt_1', to: 'agt_2', line_per_second: 25e6, reached: true, age_s: 9, round_trip_s: 0.05, bytes_per_second: 15 }]);
  });
});
