// All jobs, newest first, with filters that live in the address.
import { Link } from 'wouter-preact';
import type { Job } from '../api';
import { Choice, FilterForm, SearchBox, useFilters, useSettled, wordOptions } from '../filters';
import { loss, percent, short } from '../format';
import { Denied, Missing, State, Time, useWatch } from '../parts';
import { session, whyNot } from '../session';
import { done, phaseTone, roundsText } from '../status';
import * as sources from '../sources';
import { Table, type Column } from '../table';

const kPhases = ['queued', 'gathering', 'warming', 'training', 'stalled', 'finalizing', 'paused', 'completed', 'cancelled', 'failed'];

export const jobHref = (job: Job) => `/jobs/${encodeURIComponent(job.id)}`;

export const kJobColumns: Column<Job>[] = [
  { name: 'Job', show: (job) => <Link href={jobHref(job)} class="name">{job.name}</Link>, value: (job) => job.name },
  { name: 'Phase', show: (job) => <State tone={phaseTone(job.status.phase)} text={job.status.phase} />, value: (job) => job.status.phase },
  {
    name: 'Rounds',
    numeric: true,
    show: (job) => `${roundsText(job)} (${percent(done(job))})`,
    value: (job) => job.status.progress.rounds_committed,
  },
  { name: 'Train loss', numeric: true, show: (job) => loss(job.status.train_loss), value: (job) => job.status.train_loss },
  { name: 'Validation', numeric: true, show: (job) => loss(job.status.validation_loss), value: (job) => job.status.validation_loss },
  { name: 'Tokens', numeric: true, show: (job) => short(job.status.progress.tokens), value: (job) => job.status.progress.tokens },
  { name: 'Last round', show: (job) => <Time at={job.status.committed_at} />, value: (job) => job.status.committed_at },
  { name: 'Created', show: (job) => <Time at={job.created_at} />, value: (job) => job.created_at },
];

export function JobsPage() {
  const jobs = useWatch(sources.jobs(), []);
  const filters = useFilters();
  const barred = whyNot(session.value, 'submit_job');
  const phase = filters.get('phase'), text = useSettled(filters.get('q'));
  const shown = (jobs.value ?? []).filter(
    (job) => (phase === '' || job.status.phase === phase)
      && `${job.name}\n${job.description ?? ''}`.toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <>
      <h1 class="with-tools">
        Jobs
        <span class="tools">
          <Link href="/jobs/compare" class="button">Compare runs</Link>{' '}
          {barred === '' ? <Link href="/jobs/new" class="button main">New job</Link> : <Denied why={barred} />}
        </span>
      </h1>
      <FilterForm>
        <Choice filters={filters} name="phase" label="Phase" none="any" options={wordOptions(kPhases)} />
        <SearchBox filters={filters} label="Name or description" />
      </FilterForm>
      {jobs.value === undefined ? (
        <Missing of={jobs} what="jobs" />
      ) : (
        <Table
          caption="Jobs"
          columns={kJobColumns}
          rows={shown}
          rowKey={(job) => job.id}
          file="jobs"
          empty={jobs.value.length === 0 ? `No job yet.${barred === '' ? ' “New job” above submits one, and so does: shoal job submit mine.toml' : ''}` : 'No job matches these filters.'}
        />
      )}
    </>
  );
}
