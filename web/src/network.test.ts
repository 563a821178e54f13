import { describe, expect, it } from 'vitest';
import type { Topology } from './api';
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
    expect(pairsOf([one])).toEqual([{ from: 'agt_1', to: 'agt_2', round_trip_s: 0.1, bytes_per_second: 15 }]);
    expect(pairsOf([{ ...one, links: [{ ...links[0]!, round_trip_s: null, bytes_per_second: null }] }])).toEqual([{ from: 'agt_1', to: 'agt_2', round_trip_s: null, bytes_per_second: 0 }]);
  });
});
