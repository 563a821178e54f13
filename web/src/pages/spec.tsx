// What a job was asked to do: the text that was submitted, every field with its default, to copy or to start another
// job from, and field by field against another job. A specification never changes once it was accepted; its history
// is that of the jobs of its name.
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Job } from '../api';
import { Choice, FilterForm, useFilters } from '../filters';
import { Card, Copy, JobLinks, Missing, saveFile, State, Time, useWatch } from '../parts';
import { phaseTone } from '../status';
import { session, whyNot } from '../session';
import * as sources from '../sources';
import { compareSpecs, toToml, type Difference } from '../spec_text';
import { Table, type Column } from '../table';

export const fieldName = (one: Difference) => one.pointer.slice(1).replaceAll('/', '.');

export function differenceColumns(jobs: Job[]): Column<Difference>[] {
  return [
    { name: 'Field', show: (one) => <code>{fieldName(one)}</code>, value: fieldName },
    { name: 'Differs', show: (one) => (one.same ? '' : <b class="differs">≠ differs</b>), value: (one) => (one.same ? '' : 'differs') },
    ...jobs.map((job, i): Column<Difference> => ({
      name: job.name,
      show: (one) => <code class={one.same ? '' : 'differs'}>{one.values[i] ?? 'not set'}</code>,
      value: (one) => one.values[i] ?? null,
    })),
  ];
}

function Against({ job, other }: { job: Job; other: Job }) {
  const [all, showAll] = useState(false);
  const found = compareSpecs([job.spec, other.spec]);
  const rows = found.filter((one) => all || !one.same);
  return (
    <>
      <label class="check">
        <input type="checkbox" checked={all} onChange={(event) => showAll(event.currentTarget.checked)} /> show equal fields too
      </label>
      <Table caption={`${job.name} and ${other.name}`} columns={differenceColumns([job, other])} rows={rows} rowKey={(one) => one.pointer}
        file="spec-differences" empty="All fields are equal." />
    </>
  );
}

function download(name: string, text: string): void {
  saveFile(`${name}.${text.trimStart().startsWith('{') ? 'json' : 'toml'}`, text, 'text/plain');
}

// What programs submit is JSON in one line.
function readable(text: string): string {
  try {
    return text.includes('\n') ? text : JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// As it was submitted, with its comments, and as the coordinator runs it, with every default.
function Texts({ job, submitted }: { job: Job; submitted: string | null }) {
  const filters = useFilters();
  const resolved = toToml(job.spec);
  const verbatim = submitted !== null && filters.get('text') !== 'resolved';
  const text = verbatim ? readable(submitted) : resolved;
  return (
    <Card title={verbatim ? 'As it was submitted' : 'As TOML, with every default'}
      tools={
        <>
          {submitted !== null && (
            <button type="button" class="link" onClick={() => filters.set('text', verbatim ? 'resolved' : '')}>
              {verbatim ? 'With every default' : 'As submitted'}
            </button>
          )}
          <Copy text={text} />
          <button type="button" class="link" onClick={() => download(job.name, text)}>Download</button>
          {whyNot(session.value, 'submit_job') === '' && <Link href={`/jobs/new?from=${encodeURIComponent(job.id)}`}>Use for a new job</Link>}
        </>
      }>
      <pre class="toml" tabIndex={0}>{text}</pre>
      {submitted === null && <p class="under muted">The submitted text was not kept: an older coordinator accepted this job.</p>}
    </Card>
  );
}

const kHistory: Column<Job>[] = [
  { name: 'Job', show: (one) => <Link href={`/jobs/${one.id}/spec`}>{one.id}</Link>, value: (one) => one.id },
  { name: 'Phase', show: (one) => <State tone={phaseTone(one.status.phase)} text={one.status.phase} />, value: (one) => one.status.phase },
  { name: 'Submitted', show: (one) => <Time at={one.created_at} />, value: (one) => one.created_at },
];

// The jobs of this name, newest first: what was changed from each to the next is its history.
function History({ job, jobs }: { job: Job; jobs: Job[] }) {
  const columns: Column<Job>[] = [
    ...kHistory,
    {
      name: 'Changed', text: true,
      show: (one) => changed(one, jobs) ?? 'the first of this name',
      value: (one) => changed(one, jobs) ?? '',
    },
    {
      name: 'Compare',
      show: (one) => (one.id === job.id ? <span class="muted">this job</span> : <Link href={`/jobs/${job.id}/spec?with=${one.id}`}>with this job</Link>),
    },
  ];
  return (
    <Card title={`Jobs named ${job.name}`}>
      <Table caption={`Jobs named ${job.name}`} columns={columns} rows={jobs} rowKey={(one) => one.id} file="spec-history" />
    </Card>
  );
}

// The fields that are other than in the job of this name before it; null: there is none.
function changed(job: Job, jobs: Job[]): string | null {
  const before = jobs[jobs.indexOf(job) + 1];
  if (before === undefined) return null;
  const fields = compareSpecs([before.spec, job.spec]).filter((one) => !one.same);
  return fields.map((one) => `${fieldName(one)}: ${one.values[0] ?? 'none'} → ${one.values[1] ?? 'none'}`).join(', ') || 'nothing';
}

export function SpecPage({ id }: { id: string }) {
  const job = useWatch(sources.job(id), [id]);
  const jobs = useWatch(sources.jobs(), []);
  const submitted = useWatch(sources.submitted(id), [id]);
  const filters = useFilters();
  if (job.value === undefined) return <><h1 class="breaks">{id}</h1><Missing of={job} what="the job" /></>;
  const shown = job.value;
  const others = (jobs.value ?? []).filter((one) => one.id !== shown.id);
  const other = others.find((one) => one.id === filters.get('with'));
  const named = (jobs.value ?? []).filter((one) => one.name === shown.name);
  return (
    <>
      <h1 class="breaks">{shown.name}: specification</h1>
      <JobLinks job={id} at="/spec" />
      <div class="columns">
        {submitted.value === undefined ? <Missing of={submitted} what="the text" /> : <Texts job={shown} submitted={submitted.value} />}
        <div class="stack">
          <Card title="Against another job">
            <FilterForm>
              <Choice filters={filters} name="with" label="Compare with" none="choose a job…" options={others.map((one) => [one.id, `${one.name} (${one.id})`])} />
            </FilterForm>
            {other !== undefined && <Against job={shown} other={other} />}
          </Card>
          {named.length > 1 && <History job={shown} jobs={named} />}
        </div>
      </div>
    </>
  );
}
