// Rounds as bars over one time axis, one row for each replica: who trained, waited, averaged, voted and applied when.
import type { Agent, Contribution, Round } from './api';
import { duration, millis, words } from './format';
import { agentName } from './status';

interface Piece {
  from: number; // ms
  to: number;
  kind: 'train' | 'wait' | 'reduce' | 'vote' | 'apply' | 'lost' | 'moved';
}

// Phases of one contribution on the clock of the coordinator. The outer step comes after the commit, so it
// reaches into the next round.
export function pieces(round: Round, one: Contribution, nowMs: number): Piece[] {
  const opened = millis(round.opened_at);
  if (opened === null) return [];
  const frozen = millis(round.frozen_at), committed = millis(round.committed_at);
  const { train_s, wait_s, reduce_s, vote_s, apply_s } = one.phases;
  const out: Piece[] = [];
  let at = opened;
  const add = (kind: Piece['kind'], to: number) => {
    if (to > at) out.push({ from: at, to, kind });
    at = Math.max(at, to);
  };
  if (one.state === 'lost' || one.state === 'moved') {
    add(one.state, committed ?? nowMs);
    return out;
  }
  if (one.state === 'late') {
    add('train', committed ?? nowMs);
    return out;
  }
  if (frozen === null) {
    if (train_s === null) add('train', Math.max(opened, nowMs));
    else {
      add('train', opened + train_s * 1000);
      add('wait', Math.max(at, nowMs));
    }
    return out;
  }
  if (train_s !== null) add('train', Math.min(frozen, frozen - (wait_s ?? 0) * 1000));
  add('wait', frozen);
  add('reduce', reduce_s === null ? (committed ?? nowMs) : Math.min(committed ?? Infinity, frozen + reduce_s * 1000));
  if (committed !== null) {
    add('wait', committed - (vote_s ?? 0) * 1000);
    add('vote', committed);
    if (apply_s !== null) add('apply', committed + apply_s * 1000);
  }
  return out;
}

const kLegend: [Piece['kind'], string][] = [
  ['train', 'trains'], ['wait', 'waits'], ['reduce', 'averages'], ['vote', 'votes'], ['apply', 'outer step'], ['lost', 'lost'],
  ['moved', 'moved to another stage'],
];

interface GanttProps {
  rounds: Round[];
  agents: Agent[];
  chosen?: number;
  choose?: (round: number) => void;
  spanMs?: number; // at least so wide: two of them can have one scale
}

// From the opening of the first round to the end of the last piece, in ms.
export function extent(rounds: Round[], nowMs: number): [number, number] {
  const from = Math.min(...rounds.map((round) => millis(round.opened_at) ?? nowMs));
  const ends = rounds.flatMap((round) => round.contributions.flatMap((one) => pieces(round, one, nowMs).map((piece) => piece.to)));
  return [from, Math.max(from + 1, ...ends)];
}

const kRowPx = 26, kBarPx = 18, kLeastWidth = 0.6;

interface Bar extends Piece {
  row: number;
}

function barsOf(round: Round, rowOf: Map<string, number>, nowMs: number): Bar[] {
  return round.contributions.flatMap((one) => pieces(round, one, nowMs).map((piece) => ({ ...piece, row: rowOf.get(one.replica) ?? 0 })));
}

// One path for each kind: a job of many replicas has thousands of bars.
function outlines(bars: Bar[], x: (ms: number) => number): [Piece['kind'], string][] {
  const paths = new Map<Piece['kind'], string>();
  for (const bar of bars) {
    const left = x(bar.from), width = Math.max(kLeastWidth, x(bar.to) - left);
    const box = `M${left.toFixed(2)} ${bar.row * kRowPx + 4}h${width.toFixed(2)}v${kBarPx}h${(-width).toFixed(2)}z`;
    paths.set(bar.kind, (paths.get(bar.kind) ?? '') + box);
  }
  return [...paths];
}

const wording = (kind: Piece['kind']) => kLegend.find(([one]) => one === kind)?.[1];

function Legend({ spanMs }: { spanMs: number }) {
  return (
    <p class="under legend">
      {kLegend.map(([kind, text]) => (
        <span key={kind}>
          <svg width="12" height="12" aria-hidden="true">
            <rect class={`piece ${kind}`} width="12" height="12" />
          </svg>{' '}
          {text}
        </span>
      ))}
      <span class="muted">{duration(spanMs / 1000)} in all</span>
    </p>
  );
}

export function Gantt({ rounds, agents, chosen, choose, spanMs = 0 }: GanttProps) {
  const nowMs = Date.now();
  const [from, end] = extent(rounds, nowMs);
  const to = Math.max(end, from + spanMs);
  const rows = [...new Set(rounds.flatMap((round) => round.contributions.map((one) => one.replica)))].sort(
    (a, b) => Number(a.slice(4)) - Number(b.slice(4)),
  );
  const x = (ms: number) => ((ms - from) / (to - from)) * 1000;
  const height = rows.length * kRowPx + 22;
  const rowOf = new Map(rows.map((replica, i) => [replica, i]));
  const owner = new Map(rounds.flatMap((round) => round.contributions.map((one) => [one.replica, one.agent])));
  const name = (replica: string) => `${agentName(owner.get(replica) ?? null, agents)} · ${replica}`;
  const bars = new Map(rounds.map((round) => [round, barsOf(round, rowOf, nowMs)]));
  // What lies under the pointer is said by the one title of its round.
  const point = (event: PointerEvent, round: Round) => {
    const box = (event.currentTarget as SVGGElement).ownerSVGElement!.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / kRowPx);
    const ms = from + ((event.clientX - box.left) / box.width) * (to - from);
    const bar = bars.get(round)!.find((one) => one.row === row && one.from <= ms && ms <= one.to);
    const said = bar && `${name(rows[row]!)}, round ${round.round}: ${wording(bar.kind)} ${duration((bar.to - bar.from) / 1000)}`;
    (event.currentTarget as SVGGElement).querySelector('title')!.textContent = said ?? titleOf(round);
  };
  return (
    <>
      <div class="gantt">
        <ul class="plain gantt-names" aria-hidden="true">
          {rows.map((replica) => (
            <li key={replica}>{name(replica)}</li>
          ))}
        </ul>
        <svg viewBox={`0 0 1000 ${height}`} preserveAspectRatio="none" height={height} role="img"
          aria-label={`Rounds ${rounds[rounds.length - 1]?.round} to ${rounds[0]?.round}, one row for each replica; the table has the numbers`}>
          {rounds.map((round) => {
            const start = x(millis(round.opened_at) ?? from);
            const width = Math.max(1, x(millis(round.committed_at) ?? to) - start);
            return (
              <g key={round.round} class={round.round === chosen ? 'round chosen' : 'round'}
                onClick={() => choose?.(round.round)} onPointerMove={(event) => point(event, round)}>
                <title>{titleOf(round)}</title>
                <rect class="back" x={start} y={0} width={width} height={height} />
                <line x1={start} x2={start} y1={0} y2={height} />
                {outlines(bars.get(round)!, x).map(([kind, path]) => (
                  <path key={kind} class={`piece ${kind}`} d={path} />
                ))}
              </g>
            );
          })}
        </svg>
      </div>
      <Legend spanMs={to - from} />
    </>
  );
}

const titleOf = (round: Round) => `round ${round.round}: ${words(round.state)}, ${duration(round.seconds.total)}`;
