// The agents: who is there, what they have, when they were last heard from.
import { Link } from 'wouter-preact';
import { useMemo } from 'preact/hooks';
import type { Agent } from '../api';
import { Check, FilterForm, SearchBox, useFilters, useSettled } from '../filters';
import { byName, bytes, kNone, number, words } from '../format';
import { Missing, State, Time, useWatch } from '../parts';
import { agentTone, deviceTroubles, isSlow, isUnheard } from '../status';
import * as sources from '../sources';
import { Table, type Column } from '../table';

export function agentState(agent: Agent): string {
  if (agent.gone_reason !== null) return `${agent.state}: ${words(agent.gone_reason)}`;
  if (agent.drained === true) return 'drained';
  const kept = [agent.cordoned === true && agent.state !== 'draining' ? 'cordoned' : '', agent.quarantine ? 'quarantined' : '', ...deviceTroubles(agent)];
  return [agent.state, ...kept.filter((word) => word !== '')].join(', ');
}
export function contact(agent: Agent): string {
  if (isUnheard(agent)) return agent.health === 'red' ? 'silent' : 'late';
  return isSlow(agent) ? 'heard from, slow' : 'heard from';
}

function devices(agent: Agent): string {
  return agent.devices.map((device) => `${device.kind} ${device.name} ${bytes(device.memory_bytes)}`).join('; ') || kNone;
}

const speed = (agent: Agent) => agent.devices.reduce((sum, device) => sum + (device.gflops ?? 0), 0);

const kColumns: Column<Agent>[] = [
  { name: 'Agent', show: (agent) => <Link href={`/agents/${agent.id}`} class="name">{agent.name}</Link>, value: (agent) => agent.name },
  { name: 'State', show: (agent) => <State tone={agentTone(agent)} text={agentState(agent)} />, value: agentState },
  { name: 'Contact', show: (agent) => <span title={agent.health_reason ?? ''}>{contact(agent)}</span>, value: contact },
  { name: 'Last heard', show: (agent) => <Time at={agent.last_seen_at} />, value: (agent) => agent.last_seen_at },
  { name: 'Devices', text: true, show: devices, value: devices },
  { name: 'GFLOP/s', numeric: true, show: (agent) => number(speed(agent)), value: speed },
  { name: 'Memory in use', numeric: true, show: (agent) => bytes(agent.resident_bytes), value: (agent) => agent.resident_bytes },
  { name: 'Address', show: (agent) => agent.host, value: (agent) => agent.host },
  { name: 'Starts', numeric: true, show: (agent) => number(agent.incarnation), value: (agent) => agent.incarnation },
  { name: 'Version', show: (agent) => agent.version, value: (agent) => agent.version },
  { name: 'Joined', show: (agent) => <Time at={agent.joined_at} />, value: (agent) => agent.joined_at },
];

export function AgentsPage() {
  const filters = useFilters();
  const gone = filters.get('gone') === 'true', text = useSettled(filters.get('q')).toLowerCase();
  const agents = useWatch(sources.agents(gone), [gone]);
  const fits = (agent: Agent) => `${agent.name} ${agent.host} ${devices(agent)} ${agentState(agent)}`.toLowerCase().includes(text);
  const shown = useMemo(() => (agents.value ?? []).filter(fits).sort(byName), [agents.value, text]);
  return (
    <>
      <h1 class="with-tools">
        Agents <Link href="/join" class="button main">Add a host</Link>
      </h1>
      <FilterForm>
        <Check filters={filters} name="gone" label="also those that are gone" />
        <SearchBox filters={filters} label="Name, address, device, state" />
      </FilterForm>
      {agents.value === undefined ? (
        <Missing of={agents} what="agents" />
      ) : (
        <Table
          caption="Agents"
          columns={kColumns}
          rows={shown}
          rowKey={(agent) => agent.id}
          file="agents"
          empty={agents.value.length === 0 ? 'No agent has joined.' : 'No agent matches these filters.'}
        />
      )}
    </>
  );
}
