// A new job: its text, checked by the server while it is written, where the cluster would place it, and the
// submission. It starts from an example, or from the specification of another job (?from=job_7).
import { useEffect, useState } from 'preact/hooks';
import { Link, useLocation, useSearchParams } from 'wouter-preact';
import { ApiError, ask, askSome, command, type DryRun, type Example, type Job } from '../api';
import { Editor } from '../editor';
import { bytes, number, short } from '../format';
import type { Watch } from '../live';
import { Card, Denied, Glyph, Missing, State, Tile, useWatch } from '../parts';
import { PlanView } from '../plan';
import { session, whyNot } from '../session';
import * as sources from '../sources';
import { verdictOn } from '../status';
import { placeProblems, relocated, renamed, toToml, type LineProblem } from '../spec_text';

const kCheckAfterMs = 400; // of no typing

const examples: Watch<Example[]> = { load: () => askSome<Example>('/examples', {}), concerns: () => false, slowMs: 3_600_000 };

interface Verdict {
  of: string; // the text that it is about
  accepted: DryRun | null;
  problems: LineProblem[];
  refused: string; // one sentence
  hint: string;
}

const kUnchecked: Verdict = { of: '', accepted: null, problems: [], refused: '', hint: '' };

async function check(text: string): Promise<Verdict> {
  try {
    const accepted = await command<DryRun>('/jobs?dry_run=true', text);
    return { ...kUnchecked, of: text, accepted };
  } catch (error) {
    const { message, fields, hint, status } = error instanceof ApiError ? error : new ApiError(String(error), 0);
    const problems = status >= 400 && status < 500 ? placeProblems(text, fields, message) : [];
    return { of: text, accepted: null, problems, refused: message, hint };
  }
}

// The verdict on the newest text; an answer about an older one is dropped.
function useVerdict(text: string): [Verdict, (verdict: Verdict) => void] {
  const [verdict, set] = useState(kUnchecked);
  useEffect(() => {
    if (text.trim() === '') return set(kUnchecked);
    let current = true;
    const timer = setTimeout(() => void check(text).then((fresh) => current && set(fresh)), kCheckAfterMs);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text]);
  return [verdict, set];
}

function Problems({ verdict, goTo }: { verdict: Verdict; goTo: (line: number) => void }) {
  if (verdict.refused === '') return null;
  return (
    <div class="refusals">
      <p class="problem">
        <Glyph tone="bad" /> {verdict.refused}{verdict.hint === '' ? '' : ': '}<span class="hint">{verdict.hint}</span>
      </p>
      <ul class="plain">
        {verdict.problems.map((one, i) => (
          <li key={i} class="problem-row">
            {one.line === null ? <span /> : <button type="button" class="link" onClick={() => goTo(one.line!)}>line {one.line + 1}</button>}
            <span>
              {one.pointer !== '' && <code>{one.pointer.slice(1).replaceAll('/', '.')}</code>} {one.text}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Preview({ verdict, checking }: { verdict: Verdict; checking: boolean }) {
  const { accepted } = verdict;
  const notes = accepted?.notes ?? [];
  const tools = checking ? <State tone="busy" text="checking" /> : accepted !== null ? <State {...verdictOn(accepted)} /> : <State tone="off" text="not accepted yet" />;
  return (
    <Card title="The job" tools={tools}>
      {accepted === null ? (
        <p class="empty">The server checks the text while you write; its plan appears here.</p>
      ) : (
        <>
          <ul class="plain" data-testid="notes">
            {notes.map((note) => (
              <li key={note} class="problem-row"><Glyph tone={accepted.data?.problem && note.startsWith('data.train') ? 'bad' : 'warn'} /><span>{note}</span></li>
            ))}
          </ul>
          <div class="tiles small tight">
            <Tile label="Parameters" value={short(accepted.estimate.parameters)} />
            <Tile label="Rounds" value={number(accepted.estimate.rounds)} />
            <Tile label="Memory" value={bytes(accepted.estimate.training_memory_bytes)} note="to train all of it" />
          </div>
          {accepted.plan !== undefined && <PlanView plan={accepted.plan} />}
        </>
      )}
    </Card>
  );
}

// As it was written, with its comments, where that can be renamed and its data found from here; else every field.
function again(job: Job, submitted: string | null): string {
  const name = `${job.name}-again`.slice(0, 63);
  const written = submitted === null ? null : renamed(submitted, name);
  return (written === null ? null : relocated(written, String(job.spec.data.train))) ?? toToml({ ...job.spec, name });
}

function useStart(from: string | null, known: Example[] | undefined, edited: boolean, start: (text: string) => void): string {
  const [failed, setFailed] = useState('');
  useEffect(() => {
    if (from === null) return;
    Promise.all([ask<Job>(`/jobs/${encodeURIComponent(from)}`), sources.submitted(from).load(undefined, true)]).then(
      ([job, submitted]) => start(again(job, submitted)),
      (error: ApiError) => setFailed(error.message),
    );
  }, [from]);
  useEffect(() => {
    if (from === null && !edited && known?.[0] !== undefined) start(known[0].toml);
  }, [known === undefined]);
  return failed;
}

export function NewJobPage() {
  const barred = whyNot(session.value, 'submit_job');
  if (barred === '') return <NewJob />;
  return <><h1>New job</h1><p><Denied why={barred} /></p></>;
}

function NewJob() {
  const known = useWatch(examples, []);
  const [search] = useSearchParams();
  const [text, setText] = useState('');
  const [verdict, setVerdict] = useVerdict(text);
  const [line, goTo] = useState<number | null>(null);
  const [sending, setSending] = useState(false);
  const [, go] = useLocation();
  const failed = useStart(search.get('from'), known.value, text !== '', setText);
  const checking = text.trim() !== '' && verdict.of !== text;
  const submit = async () => {
    setSending(true);
    try {
      go(`/jobs/${(await command<Job>('/jobs', text)).id}`);
    } catch (error) {
      const { message, fields, hint } = error as ApiError;
      setVerdict({ of: text, accepted: null, problems: placeProblems(text, fields ?? [], message), refused: message, hint: hint ?? '' });
    }
    setSending(false);
  };
  return (
    <>
      <h1>New job</h1>
      <div class="filters">
        <label>
          Start from
          <select value="" onChange={(event) => {
            const chosen = known.value?.find((one) => one.name === event.currentTarget.value);
            if (chosen) setText(chosen.toml);
            event.currentTarget.value = '';
          }}>
            <option value="">an example…</option>
            {(known.value ?? []).map((one) => (
              <option key={one.name} value={one.name}>
                {one.name}: {one.summary}
              </option>
            ))}
          </select>
        </label>
        <span class="muted">
          or <Link href="/jobs">from another job</Link>: its Spec page has “Use for a new job”
        </span>
      </div>
      {failed !== '' && <p class="problem"><Glyph tone="bad" /> {failed}</p>}
      {known.value === undefined && known.error !== null && <Missing of={known} what="examples" />}
      <div class="columns wide-left">
        <div class="stack">
          <Editor label="The job, as TOML" text={text} problems={verdict.of === text ? verdict.problems : []} describedBy="verdict" goTo={line}
            onText={(fresh) => (goTo(null), setText(fresh))} />
          <div id="verdict" aria-live="polite">
            {!checking && <Problems verdict={verdict} goTo={goTo} />}
          </div>
          <p>
            <button type="button" class="button main" disabled={sending || checking || verdict.accepted === null} onClick={() => void submit()}>
              {sending ? 'Submitting…' : 'Submit the job'}
            </button>
          </p>
        </div>
        <Preview verdict={verdict} checking={checking} />
      </div>
    </>
  );
}
