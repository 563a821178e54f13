// History, newest first: of the cluster or of one job, with filters that live in the address.
import { useMemo, useState } from 'preact/hooks';
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

const kStep = 500, kMost = 5000; // so many at first and more for each asking; the API has all

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
  { name: 'Agent', show: (event) => (event.agent === null ? '' : <Link href={`/agents/${event.agent}`}>{event.agent}</Link>), value: (event) => event.agent },
  { name: 'Round', numeric: true, show: (event) => (event.round === null ? '' : number(event.round)), value: (event) => event.round },
  { name: 'No.', numeric: true, show: (event) => number(event.seq), value: (event) => event.seq },
];

function useFilters() {
  const [search, setSearch] = useSearchParams();
  const set = (name: string, value: string) =>
    setSearch((before) => {
      const next = new URLSearchParams(before);
      if (value === '') next.delete(name);
      else next.set(name, value);
      return next;
    }, { replace: true });
  const get = (name: string) => search.get(name) ?? '';
  return { severity: get('severity'), kind: get('kind'), text: get('q'), agent: get('agent'), set };
}

type Filters = ReturnType<typeof useFilters>;

function FilterForm({ filters, kinds, least }: { filters: Filters; kinds: string[]; least: string }) {
  return (
    <>
      <label>
        Severity
        <select value={least} onChange={(event) => filters.set('severity', event.currentTarget.value)}>
          <option value="">all</option>
          <option value="warning">warnings and errors</option>
          <option value="error">errors</option>
        </select>
      </label>
      <label>
        Kind
        <select value={filters.kind} onChange={(event) => filters.set('kind', event.currentTarget.value)}>
          <option value="">any</option>
          {kinds.map((name) => (
            <option key={name} value={name}>
              {words(name)}
            </option>
          ))}
        </select>
      </label>
      <label>
        Text <input type="search" value={filters.text} onInput={(event) => filters.set('q', event.currentTarget.value)} />
      </label>
      {filters.agent !== '' && (
        <button type="button" class="link" onClick={() => filters.set('agent', '')}>
          only of {filters.agent}: show all
        </button>
      )}
    </>
  );
}

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
  const least = ['warning', 'error'].includes(filters.severity) ? filters.severity : '';
  const events = useWatch(sources.events({ job: id, agent: filters.agent || undefined, severity: least || undefined }, most), [id, filters.agent, least, most]);
  const known = events.value ?? [];
  const text = filters.text.toLowerCase();
  const kinds = useMemo(() => [...new Set([...known.map((event) => event.kind), filters.kind])].filter((one) => one !== '').sort(), [known, filters.kind]);
  const fitting = useMemo(
    () => known.filter((event) => (filters.kind === '' || event.kind === filters.kind) && (text === '' || event.message.toLowerCase().includes(text))),
    [known, filters.kind, text],
  );
  const shown = useMemo(() => (held === null ? fitting : fitting.filter((event) => event.seq <= held)), [fitting, held]);
  return (
    <>
      <h1 class="breaks">{id === undefined ? 'Events' : `Events of ${id}`}</h1>
      {id !== undefined && <JobLinks job={id} at="/events" />}
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <FilterForm filters={filters} kinds={kinds} least={least} />
        <Hold held={held !== null} newer={fitting.length - shown.length} hold={(on) => hold(on ? (known[0]?.seq ?? 0) : null)} />
      </form>
      {events.value === undefined ? (
        <Missing of={events} what="events" />
      ) : (
        <Table caption="Events, newest first" columns={kColumns} rows={shown} rowKey={(event) => event.seq} file="events" empty="None of the newest events fits." />
      )}
      <p class="under muted">
        {known.length >= most && most < kMost ? (
          <button type="button" class="link" onClick={() => setMost(most + kStep)}>
            Load {kStep} older ones
          </button>
        ) : (
          known.length >= kMost && `The newest ${number(kMost)}; GET /api/v1/events has all. `
        )}{' '}
        What agents and trainers print stays on their hosts, in the folder that --data-dir names.
      </p>
    </>
  );
}
