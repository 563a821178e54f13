import { describe, expect, it } from 'vitest';
import type { Topology, TopologyReplica } from './api';
import { kCellHeight, kHeadHeight, layOut, neighbor, withStages } from './topology';

function topology(stages: number, perStage: number): Topology {
  const replicas = Array.from({ length: stages * perStage }, (_, i) => ({ id: `rep_${i + 1}`, agent: null, stage: i % stages }) as TopologyReplica);
  const links = replicas.flatMap((from) =>
    replicas.filter((to) => to.stage === from.stage + 1).map((to) => ({ from: from.id, to: to.id, bytes_per_second: Number(to.id.slice(4)), round_trip_s: null })));
  return { stages: Array.from({ length: stages }, (_, stage) => ({ stage, units: null, layers: 1, parameters: 1, memory_bytes: 1 })), replicas, links };
}

describe('layOut', () => {
  it('gives each stage a column and fits eight of them into a laptop', () => {
    const drawn = layOut(topology(8, 8), 1500);
    expect(new Set(drawn.cells.map((cell) => cell.x)).size).toBe(8);
    expect(drawn.width).toBeLessThanOrEqual(1500);
    expect(drawn.wires).toHaveLength(7 * 64);
    expect(drawn.cells).toHaveLength(64);
  });
  it('lets one stage fill the width', () => {
    const drawn = layOut(topology(1, 10), 800);
    expect(new Set(drawn.cells.map((cell) => cell.x)).size).toBeGreaterThan(3);
    expect(drawn.width).toBeLessThanOrEqual(800);
  });
  it('is wider than a telephone rather than unreadable', () => {
    const drawn = layOut(topology(4, 2), 330);
    expect(drawn.cellPx).toBeGreaterThan(100);
    expect(drawn.width).toBeGreaterThan(330);
  });
  it('draws the busiest link widest, and none to a replica that is not there', () => {
    const one = topology(2, 2);
    one.links.push({ from: 'rep_1', to: 'rep_99', bytes_per_second: 1e9, round_trip_s: null });
    const drawn = layOut(one, 900);
    expect(drawn.wires).toHaveLength(4);
    const px = (to: string) => drawn.wires.find((wire) => wire.link.to === to)!.px;
    expect(px('rep_4')).toBeGreaterThan(px('rep_2'));
  });
  it('survives a job without replicas', () => {
    expect(layOut(topology(3, 0), 900)).toMatchObject({ cells: [], wires: [], height: kHeadHeight + kCellHeight + 10 });
  });
});

describe('neighbor', () => {
  const { cells } = layOut(topology(2, 2), 900); // rep_1 and rep_3 in stage 0, rep_2 and rep_4 in stage 1
  it('follows the arrows and stays at the edge', () => {
    expect(neighbor(cells, 'rep_1', 'ArrowDown')).toBe('rep_3');
    expect(neighbor(cells, 'rep_3', 'ArrowRight')).toBe('rep_4');
    expect(neighbor(cells, 'rep_4', 'ArrowRight')).toBe('rep_4');
    expect(neighbor(cells, 'rep_1', 'ArrowUp')).toBe('rep_1');
    expect(neighbor([], null, 'ArrowUp')).toBeNull();
  });
});

describe('withStages', () => {
  it('gives replicas columns although the model is not cut', () => {
    const uncut = { ...topology(3, 1), stages: [] };
    expect(withStages(uncut).stages.map((one) => one.stage)).toEqual([0, 1, 2]);
    expect(withStages({ stages: [], replicas: [], links: [] }).stages).toEqual([]);
  });
});
