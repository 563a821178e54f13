// One agent: whether it is heard from, its devices, what it works on, what happened to it, and the ways to take
// it out of service.
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { ApiError, command, type Agent, type Replica } from '../api';
import { Confirmed } from '../confirm';
import { bytes, kNone, number, percent, plural, short, words } from '../format';
import { Card, Denied, Glyph, Missing, State, Tile, Time, useWatch } from '../parts';
import { session, whyNot } from '../session';
import { agentTone, isCurrent, isUnheard, replicaText, replicaTone } from '../status';
import * as sources from '../sources';
import { CurvesCard, DevicesCard } from './agent_devices';
import { agentState, contact } from './agents';
import { EventList } from './events';
import { Table, type Column } from '../table';

const kReplicas: Column<Replica>[] = [
  { name: 'Replica', show: (one) => one.id, value: (one) => one.id },
  { name: 'Job', show: (one) => <Link href={`/jobs/${one.job}`}>{one.job}</Link>, value: (one) => one.job },
  { name: 'Stage', numeric: true, show: (one) => number(one.stage), value: (one) => one.stage },
  { name: 'Device', numeric: true, show: (one) => number(one.device), value: (one) => one.device },
  { name: 'State', show: (one) => <State tone={replicaTone(one)} text={replicaText(one)} />, value: (one) => one.state },
  { name: 'Holds round', numeric: true, show: (one) => number(one.held_round), value: (one) => one.held_round },
  { name: 'Tokens/s', numeric: true, show: (one) => short(one.live?.tokens_per_second), value: (one) => one.live?.tokens_per_second ?? null },
  { name: 'Since', show: (one) => <Time at={one.created_at} />, value: (one) => one.created_at },
];

// Which programs of jobs it runs; an older coordinator does not say.
function programsOf(agent: Agent): string {
  const kinds = (agent.code_from ?? []).map((owner) => (owner === '*' ? 'code of anybody' : `code of ${owner}`));
  if (agent.runs_programs === true) kinds.unshift('programs of its host');
  const bounded = { none: '', cgroup: ', bounded by cgroups', watched: ', bounded by the agent' };
  return kinds.length === 0 ? '' : kinds.join(', ') + bounded[agent.program_limits ?? 'none'];
}

const kConfirmable = 40; // longer names are not typed; the id is

function Actions({ agent, working }: { agent: Agent; working: number }) {
  const [refused, refuse] = useState('');
  const act = (verb: string) => command<Agent>(`/agents/${agent.id}/${verb}`);
  const word = agent.name.length > kConfirmable ? agent.id : agent.name;
  const uncordon = () => act('uncordon').then(() => refuse(''), (error: ApiError) => refuse(error.message));
  if (agent.cordoned === undefined) return <p class="empty">This coordinator cannot take agents out of service.</p>;
  if (agent.state === 'gone') return <p class="empty">The agent is gone.</p>;
  const barred = whyNot(session.value, 'control_agent');
  if (barred !== '') return <p><Denied why={barred} /></p>;
  return (
    <div class="actions">
      {agent.quarantine && (
        <p>
          <Glyph tone="warn" /> It is quarantined, which ends <Time at={agent.quarantine.until} />: its contributions were
          rejected ({words(agent.quarantine.reason)}), {plural(agent.quarantine.count, 'time')} so far.
        </p>
      )}
      {agent.cordoned || agent.quarantine || (agent.cordoned_devices ?? []).length > 0 ? (
        <>
          {agent.cordoned && <p>
            <Glyph tone="warn" /> {agent.drained === true ? 'It is drained: it has no replica and gets none.' : agent.state === 'draining' ? 'It is being drained: it leaves its work after the next commit and gets none.' : 'It is cordoned: it keeps its work and gets no more.'}
          </p>}
          <button type="button" class="button main" onClick={() => void uncordon()}>
            Put it back into service
          </button>
        </>
      ) : (
        <Confirmed label="Cordon" word={word} act={() => act('cordon')} what="The agent keeps its replicas and gets no new ones until it is put back into service." />
      )}
      {agent.state !== 'draining' && (
        <Confirmed label="Drain" word={word} act={() => act('drain')}
          what={`It gets no new replicas, and ${working === 0 ? 'has none now' : `leaves its ${plural(working, 'replica')} after the next commit of their job`}, unless a stage would fall below its minimum; then it stays until another has taken its place.`} />
      )}
      {refused !== '' && <p class="problem" role="alert"><Glyph tone="bad" /> {refused}</p>}
    </div>
  );
}

export function AgentPage({ id }: { id: string }) {
  const agent = useWatch(sources.agent(id), [id]);
  const replicas = useWatch(sources.replicasOfAgent(id), [id]);
  const events = useWatch(sources.events({ agent: id }, 40), [id]);
  const shown = agent.value;
  if (shown === undefined) return <><h1>{id}</h1><Missing of={agent} what="the agent" /></>;
  const speed = shown.devices.reduce((sum, one) => sum + (one.gflops ?? 0), 0);
  const working = (replicas.value ?? []).filter(isCurrent);
  return (
    <>
      <h1 class="breaks">{shown.name}</h1>
      <p class="muted">
        <Link href="/agents">Agents</Link> · {whyNot(session.value, 'read_agent_logs') === '' && <><Link href={`/agents/${shown.id}/logs`}>Logs</Link> · </>}{shown.id} · {shown.host} · shoal {shown.version} · {plural(shown.incarnation, 'start')}
        {programsOf(shown) !== '' && ` · runs ${programsOf(shown)}`}
        {Object.entries(shown.labels).map(([key, value]) => ` · ${key}=${value}`)}
      </p>
      <div class="tiles">
        <Tile label="State" value={<State tone={agentTone(shown)} text={agentState(shown)} />} note={<>joined <Time at={shown.joined_at} /></>} />
        <Tile label="Last heard" value={<Time at={shown.last_seen_at} />} note={(shown.health_reason ?? '') !== '' ? shown.health_reason : contact(shown)} tone={shown.health === 'green' ? undefined : isUnheard(shown) ? 'bad' : 'warn'} />
        <Tile label="Devices" value={number(shown.devices.length)} note={speed > 0 ? `${short(speed * 1e9)}FLOP/s measured` : 'not measured yet'} />
        {typeof shown.availability === 'number' && (
          <Tile label="Availability" value={percent(shown.availability)} note={`from its history; lost ${plural(shown.losses ?? 0, 'time')}`} />
        )}
        <Tile label="Replicas" value={replicas.value === undefined ? kNone : number(working.length)} note={`memory in use ${bytes(shown.resident_bytes)}`} />
      </div>
      <DevicesCard agent={shown} />
      <CurvesCard agent={shown.id} />
      <div class="columns first-wide">
        <div class="stack">
          <Card title="Replicas of unfinished jobs">
            {replicas.value === undefined ? <Missing of={replicas} what="replicas" /> : (
              <Table caption="Replicas" columns={kReplicas} rows={replicas.value} rowKey={(one) => one.id} empty={shown.state === 'gone' ? 'None: it is gone.' : 'None: it is free.'} file="agent-replicas" />
            )}
          </Card>
          <Card title="Take it out of service">
            <Actions agent={shown} working={working.length} />
          </Card>
        </div>
        <Card title="Events" tools={<Link href={`/events?agent=${shown.id}`}>All</Link>}>
          {events.value === undefined ? <Missing of={events} what="events" /> : <EventList events={events.value} empty="Nothing is known." />}
        </Card>
      </div>
    </>
  );
}
