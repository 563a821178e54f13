// Where the parts of a topology are drawn: a column for each stage, a cell for each replica, a curve for each
// link. Pure: sizes in, positions out.
import type { Job, Replica, Topology, TopologyLink, TopologyReplica } from './api';
import { isCurrent, stagesOf } from './status';

export interface Cell {
  replica: TopologyReplica;
  x: number;
  y: number;
}

export interface Wire {
  link: TopologyLink;
  path: string;
  px: number; // width, by traffic
}

export interface Layout {
  width: number;
  height: number;
  cellPx: number;
  heads: { stage: number; x: number; width: number }[];
  cells: Cell[];
  wires: Wire[];
}

export const kCellHeight = 50;
export const kHeadHeight = 62;
const kRowGap = 10;
const kCellMin = 112, kCellMax = 320, kGapMin = 36, kGapMax = 170;

const clamp = (low: number, value: number, high: number) => Math.min(high, Math.max(low, value));

// One stage fills the width with several cells a row; more stages have one column each.
export function layOut(topology: Topology, available: number): Layout {
  const count = Math.max(1, topology.stages.length);
  const most = Math.max(1, ...topology.stages.map(({ stage }) => topology.replicas.filter((one) => one.stage === stage).length));
  const perRow = count > 1 ? 1 : clamp(1, Math.floor((available + kRowGap) / (kCellMin + 40 + kRowGap)), most);
  const gap = count > 1 ? clamp(kGapMin, (available / count) * 0.28, kGapMax) : 0;
  const cellPx = clamp(kCellMin, (available - gap * (count - 1) - kRowGap * (perRow - 1)) / (count * perRow), kCellMax);
  const columnPx = perRow * cellPx + (perRow - 1) * kRowGap;
  const cells: Cell[] = [], heads: Layout['heads'] = [];
  topology.stages.forEach(({ stage }, column) => {
    const x = column * (columnPx + gap);
    heads.push({ stage, x, width: columnPx });
    topology.replicas
      .filter((one) => one.stage === stage)
      .forEach((replica, i) => {
        cells.push({ replica, x: x + (i % perRow) * (cellPx + kRowGap), y: kHeadHeight + Math.floor(i / perRow) * (kCellHeight + kRowGap) });
      });
  });
  const rows = Math.ceil(most / perRow);
  return {
    width: count * columnPx + (count - 1) * gap,
    height: kHeadHeight + rows * (kCellHeight + kRowGap),
    cellPx,
    heads,
    cells,
    wires: wires(topology.links, cells, cellPx),
  };
}

function wires(links: TopologyLink[], cells: Cell[], cellPx: number): Wire[] {
  const at = new Map(cells.map((cell) => [cell.replica.id, cell]));
  const most = Math.max(1, ...links.map((link) => link.bytes_per_second ?? 0));
  return links.flatMap((link) => {
    const from = at.get(link.from), to = at.get(link.to);
    // Routers tell each other their steps; that is in the table.
    if (from === undefined || to === undefined || from.replica.stage === to.replica.stage) return [];
    const x1 = from.x + cellPx, y1 = from.y + kCellHeight / 2, x2 = to.x, y2 = to.y + kCellHeight / 2;
    const bend = (x2 - x1) / 2;
    const px = 0.6 + 5.4 * Math.sqrt((link.bytes_per_second ?? 0) / most);
    return [{ link, px, path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }];
  });
}

// The cell that an arrow key leads to: the nearest one in that direction, or the same.
export function neighbor(cells: Cell[], id: string | null, key: string): string | null {
  const here = cells.find((cell) => cell.replica.id === id) ?? cells[0];
  if (here === undefined) return null;
  const dx = key === 'ArrowLeft' ? -1 : key === 'ArrowRight' ? 1 : 0;
  const dy = key === 'ArrowUp' ? -1 : key === 'ArrowDown' ? 1 : 0;
  const ahead = cells
    .map((cell) => ({ cell, x: cell.x - here.x, y: cell.y - here.y }))
    .filter(({ x, y }) => (dx !== 0 ? x * dx > 0 : dy !== 0 && y * dy > 0 && x === 0))
    .sort((a, b) => (dx !== 0 ? Math.abs(a.x) - Math.abs(b.x) || Math.abs(a.y) - Math.abs(b.y) : Math.abs(a.y) - Math.abs(b.y)));
  return (ahead[0]?.cell ?? here).replica.id;
}

const unknownStage = (stage: number): Topology['stages'][number] => ({ stage, units: null, layers: null, parameters: null, memory_bytes: null });

// Before the model is cut there are no stages, but replicas of an earlier cut may still be there.
export function withStages(topology: Topology): Topology {
  if (topology.stages.length > 0) return topology;
  const count = Math.max(0, ...topology.replicas.map((one) => one.stage + 1));
  return { ...topology, stages: Array.from({ length: count }, (_, stage) => unknownStage(stage)) };
}

// For an older coordinator, which has no route for topologies: the replicas of each stage, without traffic.
export function fromReplicas(job: Job, replicas: Replica[]): Topology {
  const live = replicas.filter(isCurrent).sort((a, b) => Number(a.id.slice(4)) - Number(b.id.slice(4)));
  const count = Math.max(1, stagesOf(job), ...live.map((one) => one.stage + 1));
  return {
    stages: Array.from({ length: count }, (_, stage) => unknownStage(stage)),
    replicas: live.map((one) => ({
      id: one.id, agent: one.agent, agent_name: null, device: one.device, stage: one.stage, state: one.state, health: null, gflops: null, queued: null,
      in_flight: null, service_s: null, microbatches: null, microbatches_per_second: null, recomputed: null, added_again: null, dropped: null, busy: null,
    })),
    links: [],
  };
}
