// Two to four runs side by side: their losses over tokens in one chart, what became of them, and their
// hyper-parameters field by field with what differs marked. Which runs is in the address.
import { useMemo, useState } from 'preact/hooks';
import { Link, useSearchParams } from 'wouter-preact';
import type { Job } from '../api';
import { Chart, type Line } from '../chart';
import { bytes, duration, loss, millis, short } from '../format';
import { Card, Missing, State, useWatch } from '../parts';
import { phaseTone, roundsText } from '../status';
import * as sources from '../sources';
import { compareSpecs } from '../spec_text';
import { differenceColumns } from './spec';
import { Table, type Column } from '../table';

const kMost = 4;
const kMeasures: [string, string, (value: number | null | undefined) => string][] = [
  ['train_loss', 'Training loss', loss], ['validation_loss', 'Validation loss', loss],
  ['round_seconds', 'Seconds per round', duration], ['round_bytes', 'Bytes per round', bytes],
  ['tokens_per_second', 'Tokens per second', short],
];

function Choice({ jobs, chosen, choose }: { jobs: Job[]; chosen: string[]; choose: (ids: string[]) => void }) {
  const turn = (id: string, on: boolean) => choose(on ? [...chosen, id] : chosen.filter((one) => one !== id));
  return (
    <Card title={`Runs, two to ${kMost}`}>
      {jobs.length === 0 && <p class="empty">There is no job yet.</p>}
      <div class="chips scroll tall" tabIndex={0} role="group" aria-label="Runs to compare">
        {jobs.map((job) => (
          <label key={job.id} class="check">
            <input type="checkbox" checked={chosen.includes(job.id)} disabled={!chosen.includes(job.id) && chosen.length >= kMost}
              onChange={(event) => turn(job.id, event.currentTarget.checked)} />
            <span class="name">{job.name}</span> <span class="muted">{job.id}</span> <State tone={phaseTone(job.status.phase)} text={job.status.phase} />
          </label>
        ))}
      </div>
    </Card>
  );
}

interface Outcome {
  name: string;
  show: (job: Job) => string;
}

const kOutcomes: Outcome[] = [
  { name: 'Training loss', show: (job) => loss(job.status.train_loss) },
  { name: 'Validation loss', show: (job) => loss(job.status.validation_loss) },
  { name: 'Rounds', show: (job) => roundsText(job) },
  { name: 'Tokens', show: (job) => short(job.status.progress.tokens) },
  { name: 'Parameters', show: (job) => short(job.status.parameters) },
  { name: 'Bytes sent', show: (job) => bytes(job.status.bytes_sent) },
  {
    name: 'Ran for',
    show: (job) => {
      const from = millis(job.status.started_at), to = millis(job.status.finished_at ?? job.status.committed_at);
      return duration(from === null || to === null ? null : (to - from) / 1000);
    },
  },
];

function Charted({ jobs }: { jobs: Job[] }) {
  const [measure, setMeasure] = useState(0);
  const [name, title, unit] = kMeasures[measure]!;
  const ids = jobs.map((job) => job.id);
  const lines = useWatch(sources.seriesOfJobs(ids, name), [ids.join(), name]);
  const drawn = useMemo(
    () => jobs.map((job, i): Line => ({ name: `${job.name} (${job.id})`, ...(lines.value?.[job.id] ?? { x: [], y: [] }), color: (i + 1) as Line['color'], points: name === 'validation_loss' })),
    [lines.value, ids.join()],
  );
  return (
    <Card title={`${title} over tokens`}
      tools={
        <label>
          measure{' '}
          <select value={measure} onChange={(event) => setMeasure(Number(event.currentTarget.value))}>
            {kMeasures.map(([key, text], i) => <option key={key} value={i}>{text}</option>)}
          </select>
        </label>
      }>
      {lines.value === undefined ? <Missing of={lines} what="the curves" /> : (
        <Chart title={title} file={`compare-${name}`} xName="Tokens" lines={drawn} unit={unit} axisUnit={name.endsWith('loss') ? short : unit} sync="compare" height={340} fromZero={!name.endsWith('loss')} />
      )}
    </Card>
  );
}

export function ComparePage() {
  const jobs = useWatch(sources.jobs(), []);
  const [search, setSearch] = useSearchParams();
  const [same, showSame] = useState(false);
  const asked = (search.get('jobs') ?? '').split(',').filter((one) => one !== '').slice(0, kMost);
  if (jobs.value === undefined) return <><h1>Compare runs</h1><Missing of={jobs} what="jobs" /></>;
  const chosen = [...new Set(asked.flatMap((id) => jobs.value!.find((job) => job.id === id || job.name === id) ?? []))];
  const outcomes: Column<Outcome>[] = [
    { name: 'Outcome', show: (one) => one.name, value: (one) => one.name },
    ...chosen.map((job): Column<Outcome> => ({ name: job.name, show: (one) => one.show(job), value: (one) => one.show(job) })),
  ];
  const fields = compareSpecs(chosen.map((job) => job.spec)).filter((one) => same || (!one.same && one.pointer !== '/name'));
  return (
    <>
      <h1>Compare runs</h1>
      <Choice jobs={jobs.value} chosen={chosen.map((job) => job.id)} choose={(ids) => setSearch(ids.length === 0 ? {} : { jobs: ids.join(',') }, { replace: true })} />
      {chosen.length < 2 ? (
        <p class="empty">Choose at least two runs above. <Link href="/jobs">All jobs</Link></p>
      ) : (
        <>
          <Charted jobs={chosen} />
          <div class="columns">
            <Card title="Outcomes">
              <Table caption="Outcomes" columns={outcomes} rows={kOutcomes} rowKey={(one) => one.name} file="compare-outcomes" />
            </Card>
            <Card title="Hyper-parameters"
              tools={<label class="check"><input type="checkbox" checked={same} onChange={(event) => showSame(event.currentTarget.checked)} /> show equal fields too</label>}>
              <Table caption="Hyper-parameters" columns={differenceColumns(chosen)} rows={fields} rowKey={(one) => one.pointer} file="compare-spec" empty="They differ only in their names." />
            </Card>
          </div>
        </>
      )}
    </>
  );
}
