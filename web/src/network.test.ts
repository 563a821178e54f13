import { describe, expect, it } from 'vitest';
import type { Agent, NetworkLink, Topology } from './api';
import { inOrder, pairsOf } from './pages/network';

describe('pairsOf', () => {
  it('adds the traffic of replicas of the same agents and keeps the least round trip that was measured', () => {
    const replicas = [{ id: 'rep_1', agent: 'agt_1' }, { id: 'rep_2', agent: 'agt_2' }, { id: 'rep_3', agent: 'agt_2' }, { id: 'rep_4', agent: null }];
    const links = [
      { from: 'rep_1', to: 'rep_2', bytes_per_second: 10, round_trip_s: 0.2 },
      { from: 'rep_1', to: 'rep_3', bytes_per_second: 5, round_trip_s: 0.1 },
      { from: 'rep_1', to: 'rep_4', bytes_per_second: 5, round_trip_s: 0.1 },
    ];
    const one = { stages: [], replicas, links } as unknown as Topology;
    const unmeasured = { from: 'agt_1', to: 'agt_2', line_per_second: null, way: 'unknown', age_s: null };
    expect(pairsOf([], [one])).toEqual([{ ...unmeasured, round_trip_s: 0.1, bytes_per_second: 15 }]);
    expect(pairsOf([], [{ ...one, links: [{ ...links[0]!, round_trip_s: null, bytes_per_second: null }] }])).toEqual([{ ...unmeasured, round_trip_s: null, bytes_per_second: 0 }]);
    const within = { from: 'rep_2', to: 'rep_3', bytes_per_second: 7, round_trip_s: 0.1 };
    expect(pairsOf([], [{ ...one, links: [within] } as unknown as Topology])).toEqual([]); // both of agt_2
    const line: NetworkLink = { from: 'agt_1', to: 'agt_2', reached: true, way: 'relayed', round_trip_s: 0.05, bytes_per_second: 25e6, measured_at: '2026-01-01T00:00:00Z', age_s: 9 };
    expect(pairsOf([line], [])[0]!.bytes_per_second).toBe(null); // nobody sends over it, as far as is known
    expect(pairsOf([line], [one])).toEqual([{ from: 'agt_1', to: 'agt_2', line_per_second: 25e6, way: 'relayed', age_s: 9, round_trip_s: 0.05, bytes_per_second: 15 }]);
  });
});

describe('inOrder', () => {
  it('follows the names of the agents, not the order in which they joined', () => {
    const agents = [{ id: 'agt_1', name: 'agent-10' }, { id: 'agt_2', name: 'agent-2' }, { id: 'agt_3', name: 'agent-1' }] as unknown as Agent[];
    const link = (from: string, to: string) => ({ from, to, reached: true, round_trip_s: 0.1, bytes_per_second: null, measured_at: '2026-01-01T00:00:00Z', age_s: 1 });
    const pairs = pairsOf([link('agt_1', 'agt_2'), link('agt_2', 'agt_1'), link('agt_3', 'agt_1'), link('agt_3', 'agt_2')], []);
    expect(inOrder(pairs, agents).map((pair) => `${pair.from} ${pair.to}`)).toEqual(['agt_3 agt_2', 'agt_3 agt_1', 'agt_2 agt_1', 'agt_1 agt_2']);
  });
});
