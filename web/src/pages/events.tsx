// History, newest first: of the cluster or of one job, with filters that live in the address.
import { useMemo, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Agent, ClusterEvent } from '../api';
import { Choice, FilterForm, Only, SearchBox, useFilters, useSettled, wordOptions } from '../filters';
import { number, words } from '../format';
import { JobTitle } from '../job_title';
import { Glyph, JobLinks, Missing, Time, State, useNames, useWatch } from '../parts';
import { agentName, type Tone } from '../status';
import * as sources from '../sources';
import { Table, type Column } from '../table';

export function severityTone(event: ClusterEvent): Tone {
  if (event.severity === 'error') return 'bad';
  return event.severity === 'warning' ? 'warn' : 'off';
}

export function EventList({ events, empty }: { events: ClusterEvent[]; empty: string }) {
  if (events.length === 0) return <p class="empty">{empty}</p>;
  return (
    <ul class="plain">
      {events.map((event) => (
        <li key={event.seq} class="problem-row">
          <Glyph tone={severityTone(event)} />
          <span>{event.message}</span>
          <Time at={event.at} />
        </li>
      ))}
    </ul>
  );
}

const kStep = 500, kMost = 5000; // so many at first and more for each asking; the API has all

const columnsOf = (agents: Agent[]): Column<ClusterEvent>[] => [
  { name: 'When', show: (event) => <Time at={event.at} />, value: (event) => event.at },
  { name: 'Severity', show: (event) => <State tone={severityTone(event)} text={event.severity} />, value: (event) => event.severity },
  { name: 'Kind', show: (event) => words(event.kind), value: (event) => event.kind },
  { name: 'What', text: true, show: (event) => event.message, value: (event) => event.message },
  {
    name: 'Job',
    show: (event) => (event.job === null ? '' : <Link href={`/jobs/${event.job}`}>{event.job}</Link>),
    value: (event) => event.job,
  },
  {
    name: 'Agent',
    show: (event) => (event.agent === null ? '' : <Link href={`/agents/${event.agent}`}>{agentName(event.agent, agents)}</Link>),
    value: (event) => (event.agent === null ? null : agentName(event.agent, agents)),
  },
  { name: 'Round', numeric: true, show: (event) => (event.round === null ? '' : number(event.round)), value: (event) => event.round },
  { name: 'No.', numeric: true, show: (event) => number(event.seq), value: (event) => event.seq },
];

const kSeverities: [string, string][] = [['warning', 'warnings and errors'], ['error', 'errors']];

// Held, the list stays as it is for reading; what came since is counted.
function Hold({ held, newer, hold }: { held: boolean; newer: number; hold: (on: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={!held} onChange={(event) => hold(!event.currentTarget.checked)} />
      follow{held && newer > 0 && <b> ({number(newer)} newer)</b>}
    </label>
  );
}

export function EventsPage({ id }: { id?: string }) {
  const filters = useFilters();
  const [most, setMost] = useState(kStep);
  const [held, hold] = useState<number | null>(null);
  const agent = filters.get('agent'), kind = filters.get('kind'), severity = filters.get('severity');
  const least = kSeverities.some(([one]) => one === severity) ? severity : '';
  const events = useWatch(sources.events({ job: id, agent: agent || undefined, severity: least || undefined }, most), [id, agent, least, most]);
  const agents = useNames(useWatch(sources.agents(true), []).value);
  const columns = useMemo(() => columnsOf(agents), [agents]);
  const known = events.value ?? [];
  const text = useSettled(filters.get('q')).toLowerCase();
  const kinds = useMemo(() => [...new Set([...known.map((event) => event.kind), kind])].filter((one) => one !== '').sort(), [known, kind]);
  const fitting = useMemo(
    () => known.filter((event) => (kind === '' || event.kind === kind) && (text === '' || event.message.toLowerCase().includes(text))),
    [known, kind, text],
  );
  const shown = useMemo(() => (held === null ? fitting : fitting.filter((event) => event.seq <= held)), [fitting, held]);
  return (
    <>
      {id === undefined ? <h1>Events</h1> : <JobTitle id={id} what="events" />}
      {id !== undefined && <JobLinks job={id} at="/events" />}
      <FilterForm>
        <Choice filters={filters} name="severity" label="Severity" none="all" options={kSeverities} />
        <Choice filters={filters} name="kind" label="Kind" none="any" options={wordOptions(kinds)} />
        <SearchBox filters={filters} label="Text" />
        <Only filters={filters} name="agent" />
        <Hold held={held !== null} newer={fitting.length - shown.length} hold={(on) => hold(on ? (known[0]?.seq ?? 0) : null)} />
      </FilterForm>
      {events.value === undefined ? (
        <Missing of={events} what="events" />
      ) : (
        <Table caption="Events, newest first" columns={columns} rows={shown} rowKey={(event) => event.seq} file="events" empty="None of the newest events matches." />
      )}
      <p class="under muted">
        {known.length >= most && most < kMost ? (
          <button type="button" class="link" onClick={() => setMost(most + kStep)}>
            Load {kStep} older ones
          </button>
        ) : (
          known.length >= kMost && `The newest ${number(kMost)}; GET /api/v1/events has all. `
        )}{' '}
        What agents and trainers print is under Logs of a job or of an agent.
      </p>
    </>
  );
}
