// One checkpoint: what it is of, its files to download, and whether they still are what was recorded.
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { ApiError, ask, asApiError, command, ownerOf, send, type Checkpoint, type FieldProblem, type Job, type Verified } from '../api';
import { Confirmed } from '../confirm';
import { bytes, number, short } from '../format';
import { Bar, Card, Copy, Denied, Digest, Glyph, Missing, Sample, State, Tile, Time, useWatch } from '../parts';
import { session, whyNot } from '../session';
import * as sources from '../sources';
import { checkpointTone, fileHref } from './checkpoints';
import { Table, type Column } from '../table';

type File = Checkpoint['files'][number];
type Found = Record<string, string | null>; // by path; null: as recorded

const kTextual = /\.(json|txt|toml|md)$/;

function columns(of: Checkpoint, found: Found, barred: string): Column<File>[] {
  const verdict = (file: File) => (file.path in found ? (found[file.path] ?? 'as recorded') : 'not read');
  return [
    {
      name: 'File',
      show: (file) => (of.state === 'stored' && barred === '' ? <a href={fileHref(of, file.path)} download={file.path.split('/').pop()}>{file.path}</a> : file.path),
      value: (file) => file.path,
    },
    { name: 'Size', numeric: true, show: (file) => bytes(file.size), value: (file) => file.size },
    { name: 'SHA-256', show: (file) => <code title={file.sha256}>{file.sha256.slice(0, 16)}…</code>, value: (file) => file.sha256 },
    {
      name: 'Verified',
      text: true,
      show: (file) => (file.path in found ? <State tone={found[file.path] === null ? 'good' : 'bad'} text={verdict(file)} /> : <span class="muted">–</span>),
      value: verdict,
    },
  ];
}

// One question for each file: each has an answer in time, and the page shows how far it is.
function Verify({ of, found, note }: { of: Checkpoint; found: Found; note: (path: string, problem: string | null) => void }) {
  const [at, setAt] = useState<string | null>(null);
  const [refused, refuse] = useState('');
  const run = async () => {
    refuse('');
    try {
      for (const file of of.files) {
        setAt(file.path);
        const answer = await command<Verified>(`/checkpoints/${of.id}/verify?file=${encodeURIComponent(file.path)}`);
        for (const one of answer.files) note(one.path, one.problem);
      }
    } catch (error) {
      refuse(error instanceof ApiError ? error.message : String(error));
    }
    setAt(null);
  };
  const done = of.files.filter((file) => file.path in found), bad = done.filter((file) => found[file.path] !== null).length;
  const share = done.reduce((sum, file) => sum + file.size, 0) / Math.max(1, of.bytes);
  return (
    <div aria-live="polite">
      <button type="button" class="button" disabled={at !== null || of.state !== 'stored'} onClick={() => void run()}>
        {at === null ? 'Verify all files' : 'Verifying…'}
      </button>{' '}
      {at !== null && <span class="muted">the coordinator reads {at}</span>}
      {at === null && done.length === of.files.length && done.length > 0 && (
        <State tone={bad === 0 ? 'good' : 'bad'} text={bad === 0 ? 'every file is as recorded' : `${bad} of ${done.length} files are damaged`} />
      )}
      {at !== null && <Bar share={share} tone="busy" label={`${Math.round(share * 100)} % read`} />}
      {refused !== '' && <p class="problem" role="alert"><Glyph tone="bad" /> {refused}</p>}
    </div>
  );
}

// The owner of its job; unknown until that is answered.
function useOwner(of: Checkpoint | undefined): string | undefined {
  const [owner, setOwner] = useState<string>();
  useEffect(() => {
    if (of !== undefined) ask<Job>(`/jobs/${of.job}`).then((job) => setOwner(ownerOf(job)), () => setOwner(''));
  }, [of?.job]);
  return owner;
}

// Pin, unpin, delete. The coordinator says what a deletion would break; then it can be forced.
function Care({ of, owner }: { of: Checkpoint; owner: string }) {
  const [needs, setNeeds] = useState<FieldProblem[]>([]);
  const [refused, refuse] = useState('');
  const barred = whyNot(session.value, 'control_job', owner);
  if (barred !== '') return <p><Denied why={barred} /></p>;
  const pin = () => command<Checkpoint>(`/checkpoints/${of.id}/${of.pinned ? 'unpin' : 'pin'}`)
    .then(() => refuse(''), (error: unknown) => refuse(asApiError(error).message));
  const remove = (force: boolean) => send<Checkpoint>('DELETE', `/checkpoints/${of.id}${force ? '?force=true' : ''}`)
    .then(() => setNeeds([]), (error: unknown) => { setNeeds(asApiError(error).fields); throw error; });
  return (
    <div class="actions">
      {of.state === 'stored' && <button type="button" class="button" onClick={() => void pin()}>{of.pinned ? 'Unpin' : 'Pin'}</button>}
      {needs.length === 0
        ? <Confirmed label="Delete" word={of.id} act={() => remove(false)} what="The checkpoint and its files are deleted, if nothing needs them." />
        : <Confirmed label="Delete anyway" word={of.id} act={() => remove(true)} what="The checkpoint is needed: see below." />}
      {needs.length > 0 && <ul class="problem" role="alert">{needs.map((need) => <li key={need.pointer}>{need.detail}</li>)}</ul>}
      {refused !== '' && <p class="problem" role="alert"><Glyph tone="bad" /> {refused}</p>}
    </div>
  );
}

export function CheckpointPage({ id }: { id: string }) {
  const checkpoint = useWatch(sources.checkpoint(id), [id]);
  const [found, setFound] = useState<Found>({});
  const of = checkpoint.value;
  const owner = useOwner(of);
  const barred = owner === undefined ? '' : whyNot(session.value, 'download_checkpoint', owner);
  if (of === undefined) return <><h1>{id}</h1><Missing of={checkpoint} what="the checkpoint" /></>;
  const small = of.files.filter((file) => kTextual.test(file.path) && file.size < 65_536);
  return (
    <>
      <h1>{of.id}{of.final && ', final'}{of.pinned && ', pinned'}</h1>
      <p class="muted">
        <Link href="/checkpoints">Checkpoints</Link> · of <Link href={`/jobs/${of.job}`}>{of.job_name || of.job}</Link>
      </p>
      <div class="tiles">
        <Tile label="State" value={<State tone={checkpointTone(of.state)} text={of.state} />} note={of.detail || <>written <Time at={of.updated_at} /></>} />
        <Tile label="Round" value={number(of.round)} note={`step ${number(of.step)}, epoch ${of.epoch}`} />
        <Tile label="Tokens" value={short(of.tokens)} note="trained until then" />
        <Tile label="Size" value={bytes(of.bytes)} note={<>parameters <Digest of={of.anchor_digest} /></>} />
      </div>
      {owner !== undefined && (of.state === 'stored' || of.state === 'failed') && <Care of={of} owner={owner} />}
      {of.sample && (
        <Card title="Sample text" tools={<Copy text={of.sample} />}>
          <Sample text={of.sample} />
        </Card>
      )}
      <Card title="Files">
        {barred !== '' && <p><Denied why={barred} /></p>}
        <Verify of={of} found={found} note={(path, problem) => setFound((before) => ({ ...before, [path]: problem }))} />
        <Table caption={`Files of ${of.id}`} columns={columns(of, found, barred)} rows={of.files} rowKey={(file) => file.path} file={of.id}
          empty={of.state === 'stored' ? 'It has no files.' : 'Its files are known when it is stored.'} />
        {barred === '' && (
          <p class="under muted">
            Or run <code>shoal checkpoint download {of.id} -o folder</code>. The Hugging Face libraries load that folder.
          </p>
        )}
      </Card>
      {of.state === 'stored' && barred === '' && small.map((file) => <TextOf key={file.path} of={of} file={file} />)}
    </>
  );
}

// Small texts (the configuration, the index, a sample where the writer left one) in the page.
function TextOf({ of, file }: { of: Checkpoint; file: File }) {
  const [text, setText] = useState<string | null>(null);
  const open = async (shown: boolean) => {
    if (!shown || text !== null) return;
    const response = await fetch(fileHref(of, file.path)).catch(() => null);
    setText(response?.ok ? await response.text() : 'It could not be loaded.');
  };
  return (
    <details class="card" onToggle={(event) => void open(event.currentTarget.open)}>
      <summary>{file.path}</summary>
      <pre class="toml" tabIndex={0}>{text ?? 'Loading…'}</pre>
    </details>
  );
}
