// Which replicas hold which stage, and how the microbatches flow: stages as columns, replicas as cells, links as wide as
// their traffic; the same as tables. A cell keeps its identity by agent and device, so that a replica that took
// another stage is seen to move there. Below: why the job is placed so.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Agent, Placement, StageView, Topology, TopologyLink, TopologyReplica } from '../api';
import { bytes, duration, kNone, lineRate, number, percent, plural, short, words } from '../format';
import { GroupList } from '../group_list';
import { inGroups } from '../groups';
import { JobTitle } from '../job_title';
import { Bar, Card, Glyph, JobLinks, Missing, Sentence, State, Time, memo, orStale, useNames, useWatch } from '../parts';
import { Reasons } from '../plan';
import { agentLines, anewText, balanceOf, moveText, speedsText, whyUnwell, type AgentLine } from '../reasons';
import { agentName, agentTone, holdsNothing, replicaTone, worst, type Tone } from '../status';
import * as sources from '../sources';
import { Table, type Column } from '../table';
import { agentState } from './agents';
import { kHeadHeight, layOut, neighbor, type Cell, type Layout } from '../topology';

const nameOf = (one: TopologyReplica, agents: Agent[]) => one.agent_name ?? agentName(one.agent, agents);
const rate = lineRate;
const perSecond = (value: number | null) => (value === null ? kNone : `${number(value, value < 10 ? 1 : 0)}/s`);

// The worse of what the replica says and what is known of its agent.
export function cellTone(one: TopologyReplica): Tone {
  if (one.health === 'red') return 'bad';
  const own = replicaTone(one);
  return one.health === 'yellow' && own === 'good' ? 'warn' : own;
}

function cellText(one: TopologyReplica): string {
  if (one.health === 'red') return 'not heard from';
  return one.state !== 'serving' || one.busy === null ? words(one.state) : `busy ${percent(one.busy)}`;
}

function stageText(stage: StageView): string {
  const parts: string[] = [];
  if (stage.layers !== null) parts.push(plural(stage.layers, 'layer'));
  if (stage.parameters !== null) parts.push(`${short(stage.parameters)} parameters`);
  if (stage.memory_bytes !== null) parts.push(bytes(stage.memory_bytes));
  return parts.join(' · ');
}

function Heads({ layout, topology, needed }: { layout: Layout; topology: Topology; needed: number | null }) {
  return (
    <>
      {layout.heads.map((head, i) => {
        const here = topology.replicas.filter((one) => one.stage === head.stage && (one.state === 'serving' || one.state === 'averaging')).length;
        return (
          <div key={head.stage} class="stage-head" style={{ transform: `translateX(${head.x}px)`, width: `${head.width}px`, height: `${kHeadHeight - 8}px` }}>
            <b>Stage {head.stage}</b>{' '}
            {needed !== null && <State tone={here >= needed ? 'good' : 'bad'} text={`${here}, at least ${needed} needed`} />}
            <span class="muted">{stageText(topology.stages[i]!)}</span>
          </div>
        );
      })}
    </>
  );
}

// All links, and over them those of the replica that is looked at: pointing redraws a few, not all.
const Wires = memo(function Wires({ layout }: { layout: Layout }) {
  return (
    <svg class="wires" width={layout.width} height={layout.height} aria-hidden="true">
      {layout.wires.map(({ link, path, px }) => (
        <path key={`${link.from}-${link.to}`} d={path} stroke-width={px} />
      ))}
    </svg>
  );
});

const NearWires = memo(function NearWires({ layout, chosen }: { layout: Layout; chosen: string | null }) {
  return (
    <svg class="wires near" width={layout.width} height={layout.height} aria-hidden="true">
      {layout.wires.map(({ link, path, px }) =>
        link.from === chosen || link.to === chosen ? <path key={`${link.from}-${link.to}`} d={path} stroke-width={px} /> : null,
      )}
    </svg>
  );
});

const kInGroups = ['moshpit', 'gossip']; // of sync.topology

interface CellProps {
  cell: Cell;
  px: number;
  name: string;
  first: boolean;
  chosen: boolean;
  choose: (id: string) => void;
}

const CellButton = memo(function CellButton(props: CellProps) {
  const { replica, x, y } = props.cell;
  const tone = orStale(cellTone(replica));
  return (
    <button type="button" class={`cell ${tone}`} id={`cell-${replica.id}`} aria-pressed={props.chosen} tabIndex={props.chosen || props.first ? 0 : -1}
      style={{ transform: `translate(${x}px, ${y}px)`, width: `${props.px}px` }}
      onMouseEnter={() => props.choose(replica.id)} onFocus={() => props.choose(replica.id)}>
      <span class="who"><Glyph tone={tone} /> {props.name}</span>
      <span class="what">{cellText(replica)}</span>
      {replica.busy !== null && <Bar share={replica.busy} tone={tone} label={`busy ${percent(replica.busy)}`} />}
    </button>
  );
});

interface GraphProps {
  topology: Topology;
  agents: Agent[];
  needed: number | null; // replicas of each stage; null: the job holds none
  chosen: string | null;
  choose: (id: string) => void;
}

function Graph(props: GraphProps) {
  const { topology, chosen, choose } = props;
  const place = useRef<HTMLDivElement>(null);
  const [available, measure] = useState(1000);
  useEffect(() => {
    const observer = new ResizeObserver(() => measure(place.current?.clientWidth ?? 1000));
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  const layout = useMemo(() => layOut(topology, available - 4), [topology, available]);
  const onKey = (event: KeyboardEvent) => {
    if (!event.key.startsWith('Arrow')) return;
    event.preventDefault();
    const next = neighbor(layout.cells, chosen, event.key);
    if (next !== null) document.getElementById(`cell-${next}`)?.focus();
  };
  return (
    <div class="scroll topology" ref={place} role="group" aria-label="Stages and replicas; arrow keys lead from one to the next" onKeyDown={onKey}>
      <div class={chosen === null ? 'graph' : 'graph focused'} style={{ width: `${layout.width}px`, height: `${layout.height}px` }}>
        <Wires layout={layout} />
        <NearWires layout={layout} chosen={chosen} />
        <Heads layout={layout} topology={topology} needed={props.needed} />
        {layout.cells.map((cell, i) => (
          <CellButton key={`${cell.replica.agent}/${cell.replica.device}`} cell={cell} px={layout.cellPx} name={nameOf(cell.replica, props.agents)}
            first={chosen === null && i === 0} chosen={cell.replica.id === chosen} choose={choose} />
        ))}
      </div>
    </div>
  );
}

function Detail({ one, topology, agents }: { one: TopologyReplica | undefined; topology: Topology; agents: Agent[] }) {
  if (one === undefined) return <p class="empty">Point at a replica, or select one with the keyboard, to see its queue, service time and links.</p>;
  const onward = topology.links.filter((link) => link.from === one.id);
  const sent = onward.every((link) => link.bytes_per_second === null) ? null : onward.reduce((sum, link) => sum + (link.bytes_per_second ?? 0), 0);
  const facts: [string, string][] = [
    ['Queue', one.queued === null ? kNone : plural(one.queued, 'pass', 'passes')],
    ['Service time', duration(one.service_s)],
    ['In flight below', number(one.in_flight)],
    ['Microbatches', perSecond(one.microbatches_per_second)],
    ['Busy', percent(one.busy)],
    ['Computed again', number(one.recomputed)],
    ['Added again', number(one.added_again)],
    ['Measured speed', one.gflops === null ? kNone : `${short(one.gflops * 1e9)}FLOP/s`],
    ['Sends', rate(sent)],
  ];
  return (
    <>
      <p>
        {one.agent === null ? 'unknown agent' : <Link href={`/agents/${one.agent}`} class="name">{nameOf(one, agents)}</Link>}{' '}
        <span class="muted">{one.id}, stage {one.stage}, device {one.device}</span> <State tone={cellTone(one)} text={one.health === 'red' ? 'not heard from' : one.state} />
      </p>
      <dl class="facts row">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

// A job that averages in groups has no links to draw, but who was with whom changes with each round.
function Groups({ id, agents }: { id: string; agents: Agent[] }) {
  const rounds = useWatch(sources.rounds(id, 8), [id]);
  const newest = rounds.value?.find(inGroups);
  if (newest === undefined) return null;
  return (
    <Card title={`Groups of round ${number(newest.round)}`} tools={<Link href={`/jobs/${encodeURIComponent(id)}/rounds?round=${newest.round}`}>The round</Link>}>
      <GroupList round={newest} agents={agents} />
    </Card>
  );
}

function replicaColumns(agents: Agent[]): Column<TopologyReplica>[] {
  const name = (one: TopologyReplica) => nameOf(one, agents);
  return [
    { name: 'Stage', numeric: true, show: (one) => number(one.stage), value: (one) => one.stage },
    { name: 'Replica', show: (one) => one.id, value: (one) => one.id },
    { name: 'Agent', show: (one) => (one.agent === null ? name(one) : <Link href={`/agents/${one.agent}`}>{name(one)}</Link>), value: name },
    { name: 'State', show: (one) => <State tone={cellTone(one)} text={one.health === 'red' ? 'not heard from' : one.state} />, value: (one) => one.state },
    { name: 'Queue', numeric: true, show: (one) => number(one.queued), value: (one) => one.queued },
    { name: 'In flight', numeric: true, show: (one) => number(one.in_flight), value: (one) => one.in_flight },
    { name: 'Service time', numeric: true, show: (one) => duration(one.service_s), value: (one) => one.service_s },
    { name: 'Microbatches', numeric: true, show: (one) => perSecond(one.microbatches_per_second), value: (one) => one.microbatches_per_second },
    { name: 'Busy', numeric: true, show: (one) => percent(one.busy), value: (one) => one.busy },
  ];
}

const kLinkColumns: Column<TopologyLink>[] = [
  { name: 'From', show: (one) => one.from, value: (one) => one.from },
  { name: 'To', show: (one) => one.to, value: (one) => one.to },
  { name: 'Traffic', numeric: true, show: (one) => rate(one.bytes_per_second), value: (one) => one.bytes_per_second },
  { name: 'Round trip', numeric: true, show: (one) => duration(one.round_trip_s), value: (one) => one.round_trip_s },
];

// What is pointed at is known here only: the tables below need not be redrawn for it.
function Explored({ topology, agents, needed }: { topology: Topology; agents: Agent[]; needed: number | null }) {
  const [chosen, choose] = useState<string | null>(null);
  return (
    <>
      <Graph topology={topology} agents={agents} needed={needed} chosen={chosen} choose={choose} />
      <div class="detail" aria-live="polite">
        <Detail one={topology.replicas.find((one) => one.id === chosen)} topology={topology} agents={agents} />
      </div>
    </>
  );
}

const Tables = memo(function Tables({ topology, agents }: { topology: Topology; agents: Agent[] }) {
  const columns = useMemo(() => replicaColumns(agents), [agents]);
  const byStage = useMemo(() => [...topology.replicas].sort((a, b) => a.stage - b.stage), [topology]);
  return (
    <div class="columns first-wide">
      <Card title="Replicas">
        <Table caption="Replicas by stage" columns={columns} rows={byStage} rowKey={(one) => one.id} file="topology-replicas" />
      </Card>
      <Card title="Links">
        <Table caption="Links" columns={kLinkColumns} rows={topology.links} rowKey={(one) => `${one.from}-${one.to}`} file="topology-links"
          empty={topology.stages.length > 1 ? 'No traffic has been reported yet.' : 'A job of one stage has no links: its replicas exchange data only to average.'} />
      </Card>
    </div>
  );
});

interface StageAgent {
  one: TopologyReplica;
  agent: Agent | undefined;
  line: AgentLine | null; // null: not known yet
  limits: boolean; // its line is what limits the job
}

const why = ({ agent }: StageAgent) => (agent === undefined ? 'nothing is known of this agent' : whyUnwell(agent)) || kNone;

function Health({ agent }: StageAgent) {
  if (agent === undefined) return <State tone="off" text="unknown" />;
  return <State tone={worst([agentTone(agent), whyUnwell(agent) === '' ? 'good' : 'warn'])} text={agentState(agent)} />;
}

const kAgentColumns: Column<StageAgent>[] = [
  { name: 'Stage', numeric: true, show: ({ one }) => number(one.stage), value: ({ one }) => one.stage },
  { name: 'Agent', show: ({ agent }) => (agent === undefined ? kNone : <Link href={`/agents/${agent.id}`}>{agent.name}</Link>), value: ({ one, agent }) => agent?.name ?? one.agent },
  { name: 'Device', numeric: true, show: ({ one }) => number(one.device), value: ({ one }) => one.device },
  { name: 'Health', text: true, show: Health, value: ({ agent }) => agent?.health ?? null },
  { name: 'Why', text: true, show: why, value: why },
  { name: 'Line', numeric: true, show: ({ line }) => lineRate(line?.bytes_per_second), value: ({ line }) => line?.bytes_per_second ?? null },
  { name: 'Known', show: ({ line, limits }) => (limits ? <State tone="warn" text={`${line?.known}, limits the job`} /> : line?.known ?? kNone), value: ({ line }) => line?.known ?? null },
  { name: 'Measured', numeric: true, show: ({ line }) => (line?.age_s == null ? kNone : `${duration(line.age_s)} ago`), value: ({ line }) => line?.age_s ?? null },
];

// Sentences of the coordinator's newest look at the placement.
function Looks({ placement }: { placement: Placement }) {
  const { balance, move, plan } = placement;
  const said = [balance === null ? null : balanceOf(balance), plan === null ? null : anewText(plan)].filter((one) => one !== null);
  return (
    <>
      <p>As it is placed: {short(placement.forecast.tokens_per_second)} tokens/s, {speedsText(placement.forecast)}. <span class="muted">Looked at <Time at={placement.at} />.</span></p>
      <Reasons of={placement} />
      {said.map((one) => <Sentence key={one.text} tone={one.tone}>{one.text}</Sentence>)}
      {move !== null && <Sentence tone={move.verdict === 'moves' ? 'good' : 'off'}>{moveText(move)} <span class="muted">Considered <Time at={move.at} />.</span></Sentence>}
    </>
  );
}

function Placed({ id, topology, agents, over }: { id: string; topology: Topology; agents: Agent[] | undefined; over: boolean }) {
  const placement = useWatch(sources.placement(id), [id]);
  const links = useWatch(sources.network(), []);
  const limiting = placement.value?.forecast.line?.agents;
  const rows = useMemo(() => {
    const line = links.value === undefined ? () => null : agentLines(links.value);
    const byId = new Map((agents ?? []).map((agent) => [agent.id, agent]));
    return [...topology.replicas].sort((a, b) => a.stage - b.stage).map((one): StageAgent => {
      const agent = byId.get(one.agent ?? '');
      return { one, agent, line: line(one.agent ?? ''), limits: agent !== undefined && limiting?.includes(agent.name) === true };
    });
  }, [topology, agents, links.value, limiting]);
  const shown = placement.value;
  return (
    <Card title="Why it is placed so">
      {shown === undefined ? <Missing of={placement} what="the placement" />
        : shown === null ? <p class="empty">This coordinator does not say why.</p>
        : over ? <p class="empty">It holds no device.</p>
        : shown.at === null ? <p class="empty">It was not looked at yet: the coordinator looks while a job trains.</p>
        : <Looks placement={shown} />}
      {agents !== undefined && <Table caption="Health and lines of the stages' agents" columns={kAgentColumns} rows={rows} rowKey={({ one }) => one.id} empty="No replica at this moment." file="topology-agents" />}
    </Card>
  );
}

export function TopologyPage({ id }: { id: string }) {
  const job = useWatch(sources.job(id), [id]);
  const found = useWatch(sources.topology(id), [id]);
  const agents = useWatch(sources.agents(true), []);
  const topology = found.value, shown = job.value;
  const over = shown !== undefined && holdsNothing(shown.status.phase);
  const named = useNames(agents.value);
  return (
    <>
      <JobTitle id={id} what="topology" />
      <JobLinks job={id} at="/topology" />
      {topology === undefined || shown === undefined ? (
        <Missing of={job.error !== null ? job : found} what="the topology" />
      ) : (
        <>
          <Card title={`${plural(topology.stages.length, 'stage')}, ${plural(topology.replicas.length, 'replica')}`}>
            {topology.replicas.length === 0 && <p class="empty">{over ? `The job is ${words(shown.status.phase)}: its replicas are released.` : 'No replica at this moment.'}</p>}
            <Explored topology={topology} agents={named} needed={over ? null : shown.spec.swarm.min_replicas} />
          </Card>
          <Placed id={id} topology={topology} agents={agents.value} over={over} />
          {kInGroups.includes(String(shown.spec.sync.topology)) && <Groups id={id} agents={named} />}
          <Tables topology={topology} agents={named} />
        </>
      )}
    </>
  );
}
