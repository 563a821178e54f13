// What a job was asked to do: every field as TOML, to copy or to start another job from, and field by field
// against another job. A specification never changes once it was accepted.
import { useState } from 'preact/hooks';
import { Link, useSearchParams } from 'wouter-preact';
import type { Job } from '../api';
import { Card, Copy, JobLinks, Missing, Table, useWatch, type Column } from '../parts';
import * as sources from '../sources';
import { compareSpecs, toToml, type Difference } from '../spec_text';

export const fieldName = (one: Difference) => one.pointer.slice(1).replaceAll('/', '.');

export function differenceColumns(jobs: Job[]): Column<Difference>[] {
  return [
    { name: 'Field', show: (one) => <code>{fieldName(one)}</code>, value: fieldName },
    { name: 'Differs', show: (one) => (one.same ? '' : <b class="differs">≠ differs</b>), value: (one) => (one.same ? '' : 'differs') },
    ...jobs.map((job, i): Column<Difference> => ({
      name: job.name,
      show: (one) => <code class={one.same ? '' : 'differs'}>{one.values[i] ?? 'not there'}</code>,
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
        <input type="checkbox" checked={all} onChange={(event) => showAll(event.currentTarget.checked)} /> also what is the same
      </label>
      <Table caption={`${job.name} and ${other.name}`} columns={differenceColumns([job, other])} rows={rows} rowKey={(one) => one.pointer}
        file="spec-differences" empty="They are the same, field by field." />
    </>
  );
}

export function SpecPage({ id }: { id: string }) {
  const job = useWatch(sources.job(id), [id]);
  const jobs = useWatch(sources.jobs(), []);
  const [search, setSearch] = useSearchParams();
  const with_ = search.get('with') ?? '';
  if (job.value === undefined) return <><h1>{id}</h1><Missing of={job} what="the job" /></>;
  const text = toToml(job.value.spec);
  const other = jobs.value?.find((one) => one.id === with_);
  return (
    <>
      <h1 class="breaks">{job.value.name}: specification</h1>
      <JobLinks job={id} at="/spec" />
      <div class="columns">
        <Card title="As TOML, with every default"
          tools={<><Copy text={text} /> <Link href={`/jobs/new?from=${encodeURIComponent(job.value.id)}`}>Use for a new job</Link></>}>
          <pre class="toml" tabIndex={0}>{text}</pre>
        </Card>
        <Card title="Against another job">
          <label>
            Compare with{' '}
            <select value={with_} onChange={(event) => setSearch(event.currentTarget.value === '' ? {} : { with: event.currentTarget.value }, { replace: true })}>
              <option value="">choose a job…</option>
              {(jobs.value ?? []).filter((one) => one.id !== job.value!.id).map((one) => (
                <option key={one.id} value={one.id}>{one.name} ({one.id})</option>
              ))}
            </select>
          </label>
          {other !== undefined && <Against job={job.value} other={other} />}
        </Card>
      </div>
    </>
  );
}
