// History, newest first: of the cluster or of one job, with filters that live in the address.
import { Link, useSearchParams } from 'wouter-preact';
import type { ClusterEvent } from '../api';
import { number, words } from '../format';
import { Glyph, JobLinks, Missing, Table, Time, State, useWatch, type Column } from '../parts';
import type { Tone } from '../reduce';
import * as sources from '../sources';

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

const kMost = 300;

const kColumns: Column<ClusterEvent>[] = [
  { name: 'When', show: (event) => <Time at={event.at} />, value: (event) => event.at },
  { name: 'Severity', show: (event) => <State tone={severityTone(event)} text={event.severity} />, value: (event) => event.severity },
  { name: 'Kind', show: (event) => words(event.kind), value: (event) => event.kind },
  { name: 'What', text: true, show: (event) => event.message, value: (event) => event.message },
  {
    name: 'Job',
    show: (event) => (event.job === null ? '' : <Link href={`/jobs/${event.job}`}>{event.job}</Link>),
    value: (event) => event.job,
  },
  { name: 'Agent', show: (event) => event.agent ?? '', value: (event) => event.agent },
  { name: 'Round', numeric: true, show: (event) => (event.round === null ? '' : number(event.round)), value: (event) => event.round },
  { name: 'No.', numeric: true, show: (event) => number(event.seq), value: (event) => event.seq },
];

export function EventsPage({ id }: { id?: string }) {
  const [search, setSearch] = useSearchParams();
  const severity = search.get('severity') ?? '', kind = search.get('kind') ?? '';
  const least = ['warning', 'error'].includes(severity) ? severity : undefined;
  const events = useWatch(sources.events({ job: id, severity: least }, kMost), [id, least]);
  const kinds = [...new Set((events.value ?? []).map((event) => event.kind))].sort();
  if (kind !== '' && !kinds.includes(kind)) kinds.push(kind);
  const shown = (events.value ?? []).filter((event) => kind === '' || event.kind === kind);
  const set = (name: string, value: string) =>
    setSearch((before) => {
      const next = new URLSearchParams(before);
      if (value === '') next.delete(name);
      else next.set(name, value);
      return next;
    }, { replace: true });
  return (
    <>
      <h1>{id === undefined ? 'Events' : `Events of ${id}`}</h1>
      {id !== undefined && <JobLinks job={id} at="/events" />}
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Severity
          <select value={least ?? ''} onChange={(event) => set('severity', event.currentTarget.value)}>
            <option value="">all</option>
            <option value="warning">warnings and errors</option>
            <option value="error">errors</option>
          </select>
        </label>
        <label>
          Kind
          <select value={kind} onChange={(event) => set('kind', event.currentTarget.value)}>
            <option value="">any</option>
            {kinds.map((name) => (
              <option key={name} value={name}>
                {words(name)}
              </option>
            ))}
          </select>
        </label>
      </form>
      {events.value === undefined ? (
        <Missing of={events} what="events" />
      ) : (
        <Table caption="Events, newest first" columns={kColumns} rows={shown} rowKey={(event) => event.seq} file="events" empty="None of the newest events fits." />
      )}
      <p class="under muted">The newest {kMost}; GET /api/v1/events has all.</p>
    </>
  );
}
