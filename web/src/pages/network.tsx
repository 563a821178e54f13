// The lines between agents as trainers measured them, and what the replicas of running pipelines send over them: a
// matrix from whom to whom, and the same as a table.
import { useMemo, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Agent, NetworkLink, Topology } from '../api';
import { byName, duration, lineRate, number, plural } from '../format';
import { Card, Missing, useWatch } from '../parts';
import { agentName } from '../status';
import * as sources from '../sources';
import { Table, type Column } from '../table';

export type Way = NonNullable<NetworkLink['way']>;

export interface Pair {
  from: string; // agents
  to: string;
  round_trip_s: number | null; // the least: what the line can do
  line_per_second: number | null; // what it carries alone, in bytes
  way: Way; // in which from reaches to, as from says
  age_s: number | null; // of the measurement
  bytes_per_second: number | null; // what pipelines send over it now; null: none do
}

type Shade = 'line_per_second' | 'round_trip_s' | 'bytes_per_second';
const kShades: Record<Shade, string> = { line_per_second: 'bandwidth', round_trip_s: 'round trip', bytes_per_second: 'pipeline traffic' };

const least = (one: number | null | undefined, other: number | null | undefined) => {
  const known = [one, other].filter((value): value is number => typeof value === 'number' && value > 0);
  return known.length === 0 ? null : Math.min(...known);
};

export function pairsOf(lines: NetworkLink[], topologies: Topology[]): Pair[] {
  const found = new Map<string, Pair>();
  for (const { from, to, reached, way, round_trip_s, bytes_per_second, age_s } of lines) {
    if (from === to) continue;
    found.set(`${from} ${to}`, { from, to, way: way ?? (reached ? 'unknown' : 'unreachable'), round_trip_s, line_per_second: bytes_per_second, age_s, bytes_per_second: null });
  }
  for (const topology of topologies) {
    const agent = new Map(topology.replicas.map((one) => [one.id, one.agent]));
    for (const link of topology.links) {
      const from = agent.get(link.from), to = agent.get(link.to);
      if (from == null || to == null || from === to) continue; // two replicas of one agent use no line
      const key = `${from} ${to}`, known = found.get(key);
      found.set(key, {
        from, to,
        round_trip_s: least(known?.round_trip_s, link.round_trip_s),
        line_per_second: known?.line_per_second ?? null,
        way: known?.way ?? 'unknown',
        age_s: known?.age_s ?? null,
        bytes_per_second: (known?.bytes_per_second ?? 0) + (link.bytes_per_second ?? 0),
      });
    }
  }
  return [...found.values()];
}

// By the names that people see; ids are given in the order in which agents joined.
export function inOrder(pairs: Pair[], agents: Agent[]): Pair[] {
  const named = (id: string) => ({ name: agentName(id, agents) });
  return [...pairs].sort((a, b) => byName(named(a.from), named(b.from)) || byName(named(a.to), named(b.to)));
}

const over = (way: Way) => (way === 'relayed' ? ', over a relay' : way === 'reverse' ? ', over a connection of the other end' : '');

const kMostAgents = 80, kNamedColumns = 12;

// Six steps of one color, the strongest is the most. The number is in the title and in the table.
const step = (value: number, most: number) => Math.min(5, Math.floor((6 * Math.log1p((value / most) * 20)) / Math.log(21)));

function Matrix({ pairs, agents, by }: { pairs: Pair[]; agents: Agent[]; by: Shade }) {
  const ids = [...new Set(inOrder(pairs.flatMap((pair) => [pair, { ...pair, from: pair.to }]), agents).map((pair) => pair.from))].slice(0, kMostAgents);
  const at = new Map(ids.map((id, i) => [id, i]));
  const most = Math.max(1e-9, ...pairs.map((pair) => pair[by] ?? 0));
  const cell = ids.length <= kNamedColumns ? 60 : Math.min(22, Math.max(11, Math.floor(1000 / ids.length)));
  const left = 130, top = ids.length <= kNamedColumns ? 18 : 0, size = ids.length * cell;
  const high = top > 0 ? 30 : cell;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Matrix of links">
      <svg class="matrix" width={left + size + 4} height={top + ids.length * high + 4} role="img" aria-label={`${pairs.length} links between ${ids.length} agents; the table has the numbers`}>
        {ids.map((id, i) => (
          <text key={id} x={left - 6} y={top + i * high + high / 2 + 3} text-anchor="end">{agentName(id, agents).slice(0, 16)}</text>
        ))}
        {top > 0 && ids.map((id, i) => (
          <text key={id} x={left + (i + 0.5) * cell - 1} y={12} text-anchor="middle">{agentName(id, agents).slice(0, 9)}</text>
        ))}
        {pairs.map((pair) => {
          const x = at.get(pair.to), y = at.get(pair.from), value = pair[by];
          if (x === undefined || y === undefined) return null;
          const text = pair.way === 'unreachable' ? 'unreachable' : value === null ? 'not measured' : by === 'round_trip_s' ? duration(value) : lineRate(value);
          return (
            <rect key={`${pair.from} ${pair.to}`} class={value === null ? 'unknown' : `heat heat-${step(value, most)}`} x={left + x * cell} y={top + y * high} width={cell - 2} height={high - 2}>
              <title>{`${agentName(pair.from, agents)} to ${agentName(pair.to, agents)}: ${text}${over(pair.way)}`}</title>
            </rect>
          );
        })}
      </svg>
    </div>
  );
}

function columns(agents: Agent[]): Column<Pair>[] {
  const link = (id: string) => <Link href={`/agents/${id}`}>{agentName(id, agents)}</Link>;
  return [
    { name: 'From', show: (one) => link(one.from), value: (one) => agentName(one.from, agents) },
    { name: 'To', show: (one) => link(one.to), value: (one) => agentName(one.to, agents) },
    { name: 'Way', show: (one) => (one.way === 'unknown' ? '–' : one.way), value: (one) => one.way },
    { name: 'Round trip', numeric: true, show: (one) => duration(one.round_trip_s), value: (one) => one.round_trip_s },
    { name: 'Bandwidth', numeric: true, show: (one) => lineRate(one.line_per_second), value: (one) => one.line_per_second },
    { name: 'Measured', numeric: true, show: (one) => (one.age_s === null ? '–' : `${duration(one.age_s)} ago`), value: (one) => one.age_s },
    { name: 'Pipeline traffic', numeric: true, show: (one) => lineRate(one.bytes_per_second), value: (one) => one.bytes_per_second },
  ];
}

export function NetworkPage() {
  const lines = useWatch(sources.network(), []);
  const found = useWatch(sources.topologies(), []);
  const agents = useWatch(sources.agents(true), []);
  const [by, setBy] = useState<Shade>('line_per_second');
  const pairs = useMemo(
    () => inOrder(pairsOf(lines.value ?? [], found.value ?? []), agents.value ?? []),
    [lines.value, found.value, agents.value],
  );
  const ends = useMemo(() => new Set(pairs.flatMap((pair) => [pair.from, pair.to])).size, [pairs]);
  const many = ends > kNamedColumns;
  return (
    <>
      <h1>Network</h1>
      {lines.value === undefined ? (
        <Missing of={lines} what="links" />
      ) : pairs.length === 0 ? (
        <p class="empty">No line has been measured yet: trainers measure lines in the first rounds of a job.</p>
      ) : (
        <>
          <Card title={plural(pairs.length, 'link')}
            tools={
              <label>
                color{' '}
                <select value={by} onChange={(event) => setBy(event.currentTarget.value as typeof by)}>
                  {Object.entries(kShades).map(([value, name]) => (
                    <option key={value} value={value}>{name}</option>
                  ))}
                </select>
              </label>
            }>
            <p class="under muted">
              From the agent of the row to that of the column{many && ', in the order of the rows'}; the stronger the color, the more {kShades[by]}.
              {ends > kMostAgents && ` The first ${number(kMostAgents)} agents are drawn; the table has all.`}
            </p>
            <Matrix pairs={pairs} agents={agents.value ?? []} by={by} />
          </Card>
          <Card title="Links">
            <Table caption="Links between agents" columns={columns(agents.value ?? [])} rows={pairs} rowKey={(one) => `${one.from} ${one.to}`} file="network" />
          </Card>
        </>
      )}
    </>
  );
}
