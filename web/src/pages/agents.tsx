// The agents: who is there, what they have, when they were last heard from.
import { useSearchParams } from 'wouter-preact';
import type { Agent } from '../api';
import { bytes, kNone, number, words } from '../format';
import { Missing, State, Table, Time, useWatch, type Column } from '../parts';
import { agentTone } from '../reduce';
import * as sources from '../sources';

const stateText = (agent: Agent) => (agent.gone_reason === null ? agent.state : `${agent.state}: ${words(agent.gone_reason)}`);
const kHealth: Record<string, string> = { green: 'heard from', yellow: 'late', red: 'silent' };

function devices(agent: Agent): string {
  return agent.devices.map((device) => `${device.kind} ${device.name} ${bytes(device.memory_bytes)}`).join('; ') || kNone;
}

const speed = (agent: Agent) => agent.devices.reduce((sum, device) => sum + (device.gflops ?? 0), 0);

const kColumns: Column<Agent>[] = [
  { name: 'Agent', show: (agent) => <span class="name">{agent.name}</span>, value: (agent) => agent.name },
  { name: 'State', show: (agent) => <State tone={agentTone(agent)} text={stateText(agent)} />, value: stateText },
  { name: 'Contact', show: (agent) => kHealth[agent.health] ?? agent.health, value: (agent) => agent.health },
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
  const [search, setSearch] = useSearchParams();
  const gone = search.get('gone') === 'true';
  const agents = useWatch(sources.agents(gone), [gone]);
  return (
    <>
      <h1>Agents</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label class="check">
          <input
            type="checkbox"
            checked={gone}
            onChange={(event) => setSearch(event.currentTarget.checked ? { gone: 'true' } : {}, { replace: true })}
          />
          also those that are gone
        </label>
      </form>
      {agents.value === undefined ? (
        <Missing of={agents} what="agents" />
      ) : (
        <Table
          caption="Agents"
          columns={kColumns}
          rows={agents.value}
          rowKey={(agent) => agent.id}
          file="agents"
          empty="No agent has joined."
        />
      )}
    </>
  );
}
