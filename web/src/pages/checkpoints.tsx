// Checkpoints of one job or of all; each has a page with its files.
import { Link } from 'wouter-preact';
import { useState } from 'preact/hooks';
import { ask, askAll, asApiError, type Checkpoint, type ClusterEvent, type Space } from '../api';
import { bytes, kNone, number, short, words } from '../format';
import { JobTitle } from '../job_title';
import type { Watch } from '../live';
import { Card, Digest, Glyph, JobLinks, Missing, State, Tile, Time, useWatch } from '../parts';
import { session, whyNot } from '../session';
import type { Tone } from '../status';
import * as sources from '../sources';
import { Table, type Column } from '../table';

const kTones: Record<string, Tone> = { stored: 'good', writing: 'busy', uploading: 'busy', failed: 'bad', deleted: 'off' };
export const checkpointTone = (state: string): Tone => kTones[state] ?? 'warn';

export const fileHref = (checkpoint: Checkpoint, path: string) =>
  `/api/v1/checkpoints/${checkpoint.id}/files/${path.split('/').map(encodeURIComponent).join('/')}`;

const kColumns: Column<Checkpoint>[] = [
  { name: 'Checkpoint', show: (one) => <><Link href={`/checkpoints/${one.id}`}>{one.id}</Link>{one.final && <b> final</b>}{one.pinned && <b> pinned</b>}</>, value: (one) => one.id },
  { name: 'Job', show: (one) => <Link href={`/jobs/${one.job}`}>{one.job_name || one.job}</Link>, value: (one) => one.job },
  { name: 'Owner', show: (one) => one.owner || kNone, value: (one) => one.owner ?? '' },
  { name: 'State', show: (one) => <State tone={checkpointTone(one.state)} text={one.state} />, value: (one) => one.state },
  { name: 'Round', numeric: true, show: (one) => number(one.round), value: (one) => one.round },
  { name: 'Step', numeric: true, show: (one) => number(one.step), value: (one) => one.step },
  { name: 'Tokens', numeric: true, show: (one) => short(one.tokens), value: (one) => one.tokens },
  { name: 'Size', numeric: true, show: (one) => bytes(one.bytes), value: (one) => one.bytes },
  { name: 'Parameters', show: (one) => <Digest of={one.anchor_digest} />, value: (one) => one.anchor_digest },
  { name: 'Written', show: (one) => <Time at={one.updated_at} />, value: (one) => one.updated_at },
  { name: 'Files', numeric: true, show: (one) => (one.state === 'stored' ? number(one.files.length) : one.detail), value: (one) => one.files.length },
];

// Newest first.
const ofAllJobs: Watch<Checkpoint[]> = {
  load: () => askAll<Checkpoint>('/checkpoints'),
  concerns: (event: ClusterEvent) => event.kind.startsWith('checkpoint_') || event.kind === 'job_removed',
};

const kJobColumns: Column<Space['jobs'][number]>[] = [
  { name: 'Job', show: (one) => (one.name === '' ? `${one.job}, removed` : <Link href={`/jobs/${one.job}`}>{one.name}</Link>), value: (one) => one.name || one.job },
  { name: 'Owner', show: (one) => one.owner || kNone, value: (one) => one.owner },
  { name: 'Checkpoints', numeric: true, show: (one) => bytes(one.checkpoints), value: (one) => one.checkpoints },
  { name: 'History', numeric: true, show: (one) => bytes(one.history), value: (one) => one.history },
  { name: 'Series', numeric: true, show: (one) => bytes(one.series), value: (one) => one.series },
];

// Reads whole databases at the coordinator: asked for, never watched.
function SpaceCard() {
  const [space, show] = useState<Space | null>(null);
  const [refused, refuse] = useState('');
  const look = () => ask<Space>('/space').then((found) => (refuse(''), show(found)), (error: unknown) => refuse(asApiError(error).message));
  return (
    <Card title="What takes the space" tools={<button type="button" class="button" onClick={() => void look()}>{space === null ? 'Look' : 'Look again'}</button>}>
      {refused !== '' && <p class="problem" role="alert"><Glyph tone="bad" /> {refused}</p>}
      {space !== null && (
        <>
          <div class="tiles small">
            {space.parts.map((part) => <Tile key={part.what} label={words(part.what)} value={bytes(part.bytes)} note={part.what === 'checkpoints' && space.checkpoint_budget !== null ? `of ${bytes(space.checkpoint_budget)}` : ''} />)}
          </div>
          <Table caption="By job, the largest first" columns={kJobColumns} rows={space.jobs} rowKey={(one) => one.job} file="space" />
        </>
      )}
    </Card>
  );
}

export function CheckpointsPage({ id }: { id?: string }) {
  const checkpoints = useWatch(id === undefined ? ofAllJobs : sources.checkpoints(id), [id]);
  const shown = (checkpoints.value ?? []).filter((one) => one.state !== 'deleted');
  return (
    <>
      {id === undefined ? <h1>Checkpoints</h1> : <JobTitle id={id} what="checkpoints" />}
      {id !== undefined && <JobLinks job={id} at="/checkpoints" />}
      {checkpoints.value === undefined ? (
        <Missing of={checkpoints} what="checkpoints" />
      ) : (
        <Table
          caption="Checkpoints, newest first"
          columns={kColumns}
          rows={shown}
          rowKey={(one) => one.id}
          file="checkpoints"
          empty="No checkpoint yet: they are taken at round boundaries, as the job's [checkpoint] table says."
        />
      )}
      {shown.length > 0 && <p class="muted">They take {bytes(shown.reduce((sum, one) => sum + one.bytes, 0))}.</p>}
      {id === undefined && whyNot(session.value, 'view_space') === '' && <SpaceCard />}
    </>
  );
}
