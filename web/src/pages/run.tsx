// One run, in the order in which people look: is it moving, does it learn, how far is it, whom does it wait
// for, who takes part, what does the time and the network go into, what went wrong, what is safe on disk.
import { useMemo, useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { ApiError, asApiError, command, ownerOf, send, type Agent, type Checkpoint, type ClusterEvent, type FieldProblem, type Job, type Replica, type Round } from '../api';
import { Chart, type Mark } from '../chart';
import { Confirmed } from '../confirm';
import { bytes, duration, kNone, loss, millis, number, percent, plural, short, words } from '../format';
import { now } from '../live';
import { Bar, Card, Denied, Digest, Glyph, JobLinks, memo, Missing, Sample, State, Tile, Time, useWatch } from '../parts';
import { agentName, agentTone, consequence, coverage, done, holdsNothing, isCurrent, isFailureOf, isLate, isOver, lastMoved, loneStages, oneEach, phaseTone, replicaText, replicaTone, roundsText, skippedSteps, syncText, timeLeft, timeSplit, tokensTarget, waitingFor, withoutAttemptsOfLosses, type Shares, type Split } from '../status';
import { marksOf } from '../marks';
import { whyUnwell } from '../reasons';
import { session, whyNot } from '../session';
import * as sources from '../sources';
import { checkpointTone } from './checkpoints';
import { severityTone } from './events';
import { Table, type Column } from '../table';

// Steps that change nothing cost time, and more and more of them are how a run diverges.
const kManySkipped = 0.05;

function LossNote({ rounds }: { rounds: Round[] }) {
  const seen = skippedSteps(rounds);
  if (seen === null) return <>last committed round, nats per token</>;
  return (
    <span data-testid="skipped">
      <Glyph tone={seen.skipped > kManySkipped * seen.steps ? 'bad' : 'warn'} /> {number(seen.skipped)} of {plural(seen.steps, 'step')} skipped
      in the last {plural(seen.rounds, 'round')}: not finite
    </span>
  );
}

const Moving = memo(function Moving({ job, split, rounds }: { job: Job; split: Split; rounds: Round[] }) {
  const { status } = job;
  const moved = lastMoved(job);
  const since = moved === null ? null : Math.max(0, (now.value - moved) / 1000);
  const late = (status.phase === 'training' || status.phase === 'stalled') && isLate(since, split.roundSeconds);
  return (
    <div class="tiles" aria-live="polite">
      <Tile
        label="Phase"
        value={<State tone={phaseTone(status.phase)} text={status.phase} />}
        note={status.detail !== '' ? status.detail : words(status.reason)}
      />
      <Tile
        label="Last committed round"
        value={status.progress.rounds_committed === 0 ? 'none yet' : <Time at={status.committed_at} />}
        note={`round ${roundsText(job)}${late ? `, late: they take ${duration(split.roundSeconds)}` : ''}`}
        tone={late ? 'bad' : undefined}
      />
      <Tile label="Training loss" value={loss(status.train_loss)} note={<LossNote rounds={rounds} />} />
      <Tile
        label="Validation loss"
        value={loss(status.validation_loss)}
        note={status.validation_round === null ? 'no evaluation yet' : `round ${number(status.validation_round)}`}
      />
    </div>
  );
});

const kSmoothing: [string, number][] = [['none', 0], ['some', 0.7], ['much', 0.93]];

const LossCard = memo(function LossCard({ lines, marks }: { lines: sources.Lines; marks: Mark[] }) {
  const [log, setLog] = useState(false);
  const [logX, setLogX] = useState(false);
  const [smoothing, setSmoothing] = useState(0);
  const drawn = useMemo(
    () => [
      { name: 'Training', ...(lines.train_loss ?? { x: [], y: [] }), color: 1 as const },
      { name: 'Validation', ...(lines.validation_loss ?? { x: [], y: [] }), color: 2 as const, points: true },
    ],
    [lines],
  );
  return (
    <Card
      title="Loss against tokens"
      tools={
        <>
          <label class="check">
            <input type="checkbox" checked={log} onChange={(event) => setLog(event.currentTarget.checked)} /> log loss
          </label>
          <label class="check">
            <input type="checkbox" checked={logX} onChange={(event) => setLogX(event.currentTarget.checked)} /> log tokens
          </label>
          <label>
            smoothing{' '}
            <select value={smoothing} onChange={(event) => setSmoothing(Number(event.currentTarget.value))}>
              {kSmoothing.map(([name, weight]) => (
                <option key={name} value={weight}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        </>
      }
    >
      <Chart title="Nats per token" file="loss" xName="Tokens" lines={drawn} marks={marks} log={log} logX={logX} smoothing={smoothing} unit={loss} axisUnit={short} sync="run" height={300} />
      {marks.length > 0 && (
        <p class="under muted">
          Dashed: {plural(marks.filter((mark) => mark.tone !== 'good').length, 'failure')} and{' '}
          {plural(marks.filter((mark) => mark.tone === 'good').length, 'checkpoint')}.
        </p>
      )}
    </Card>
  );
});

const kConfirmable = 40; // longer names are not typed; the id is

function Cancel({ job }: { job: Job }) {
  return (
    <Confirmed label="Cancel" word={job.name.length > kConfirmable ? job.id : job.name} act={() => command<Job>(`/jobs/${job.id}/cancel`)}
      what="The job ends now and cannot be resumed. Its stored checkpoints stay; the open round is lost." />
  );
}

// A job that has ended can be removed.
function Remove({ job }: { job: Job }) {
  const [, go] = useLocation();
  const [needs, setNeeds] = useState<FieldProblem[]>([]);
  const barred = whyNot(session.value, 'control_job', ownerOf(job));
  if (barred !== '') return null;
  const act = () => send<Job>('DELETE', `/jobs/${job.id}`).then(() => go('/jobs'), (error: unknown) => { setNeeds(asApiError(error).fields); throw error; });
  return (
    <div class="actions">
      <Confirmed label="Remove" word={job.name.length > kConfirmable ? job.id : job.name} act={act}
        what="The job goes, with its checkpoints and its history. The audit trail keeps what was done." />
      {needs.length > 0 && <ul class="problem" role="alert">{needs.map((need) => <li key={need.pointer + need.detail}>{need.pointer.split('/').pop()}: {need.detail}</li>)}</ul>}
    </div>
  );
}

function Pausing({ job }: { job: Job }) {
  const [refused, refuse] = useState('');
  const act = (verb: string) => command<Job>(`/jobs/${job.id}/${verb}`);
  const resume = () => act('resume').then(() => refuse(''), (error: ApiError) => refuse(error.message));
  const paused = job.status.phase === 'paused';
  const barred = whyNot(session.value, 'control_job', ownerOf(job));
  if (barred !== '') return <p><Denied why={barred} /></p>;
  if (job.status.desired !== 'pause')
    return (
      <div class="actions">
        <Confirmed label="Pause" word={job.name.length > kConfirmable ? job.id : job.name} act={() => act('pause')}
          what="The job finishes its open round, stores the committed state and releases all its devices until it is resumed." />
        <Cancel job={job} />
      </div>
    );
  return (
    <div class="actions">
      <p>
        <Glyph tone="warn" /> {paused ? 'It is paused and holds no device.' : 'It will be paused when its round is committed and stored.'}
      </p>
      <button type="button" class="button main" onClick={() => void resume()}>
        Resume
      </button>
      <Cancel job={job} />
      {refused !== '' && <p class="problem" role="alert"><Glyph tone="bad" /> {refused}</p>}
    </div>
  );
}

const Progress = memo(function Progress({ job, split }: { job: Job; split: Split }) {
  const { progress, phase, started_at, finished_at } = job.status;
  const rate = phase === 'training' ? progress.tokens_per_second : null;
  const whole = split.tokensPerSecond === null ? 'while training' : `while training; ${short(split.tokensPerSecond)} over whole rounds`;
  const target = tokensTarget(job);
  const left = timeLeft(job, split);
  const ending = isOver(phase) ? 'the job has ended' : phase === 'training' ? 'not enough rounds yet' : 'not training now';
  const ran = millis(started_at) === null ? null : ((millis(finished_at) ?? now.value) - millis(started_at)!) / 1000;
  return (
    <div class="tiles">
      <Tile
        label="Tokens"
        value={short(progress.tokens)}
        note={
          <>
            <Bar share={done(job)} label={`${percent(done(job), 1)} of the ${progress.rounds_total === null ? 'steps' : 'rounds'}`} />
            {target === null ? `${percent(done(job))} done` : `of about ${short(target)} · ${percent(done(job), 1)}`}
          </>
        }
      />
      <Tile label="Tokens per second" value={short(rate)} note={rate === null ? 'not training now' : whole} />
      <Tile label="Time left" value={duration(left)} note={left === null ? ending : 'at the pace of the last rounds'} />
      <Tile label={isOver(phase) ? 'Ran for' : phase === 'paused' ? 'Since its start' : 'Running for'} value={duration(ran)} note={`${plural(progress.inner_step, 'inner step')} of ${number(progress.inner_steps_total)}`} />
    </div>
  );
});

const kSteps: [string, string[]][] = [
  ['Train', ['open']],
  ['Freeze', ['frozen']],
  ['Average', ['reducing']],
  ['Vote', ['voting']],
  ['Commit', ['committed']],
];

const CurrentRound = memo(function CurrentRound(props: { job: Job; round: Round | undefined; replicas: Replica[]; agents: Agent[]; split: Split }) {
  const { job, round } = props;
  const waiting = waitingFor(job, round, props.replicas, props.agents);
  const at = kSteps.findIndex(([, states]) => round !== undefined && states.includes(round.state));
  const opened = millis(round?.opened_at);
  const age = opened === null || holdsNothing(job.status.phase) ? null : Math.max(0, (now.value - opened) / 1000);
  return (
    <Card title={round === undefined ? 'Current round' : `${holdsNothing(job.status.phase) ? 'Last' : 'Current'} round: ${number(round.round)}`}>
      <ol class="steps">
        {kSteps.map(([name], i) => (
          <li key={name} class={i < at ? 'past' : i === at ? 'now' : ''} aria-current={i === at ? 'step' : undefined}>
            {name}
          </li>
        ))}
      </ol>
      <p class="waits">
        <span class="label">Waits for</span> <Glyph tone={waiting.tone} /> <strong data-testid="waits-for">{waiting.summary}</strong>
      </p>
      {waiting.on.length > 0 && (
        <ul class="plain waiting">
          {waiting.on.slice(0, 16).map((one) => (
            <li key={one.replica}>
              <State tone={one.tone} text={one.agent} />
              <span>
                {one.replica} {one.doing}
              </span>
              {one.share !== null && <Bar share={one.share} tone="busy" label={`${percent(one.share)} of the steps of this round`} />}
            </li>
          ))}
        </ul>
      )}
      {round !== undefined && (
        <p class="under muted">
          {[
            age !== null && `Open for ${duration(age)}`,
            age !== null && props.split.roundSeconds !== null && `the last rounds took ${duration(props.split.roundSeconds)} each`,
            round.attempt > 1 && `attempt ${round.attempt}`,
            round.aborts > 0 && `aborted ${plural(round.aborts, 'time')}: ${words(round.abort_reason ?? 'no reason given')}`,
          ].filter((part) => part !== false).join(' · ')}
        </p>
      )}
    </Card>
  );
});

const kEndedShown = 24; // replicas that have ended

const Replicas = memo(function Replicas({ replicas, agents, rounds, job }: { replicas: Replica[]; agents: Agent[]; rounds: Round[]; job: Job }) {
  const ended = replicas.filter((one) => !isCurrent(one));
  const shown = [...replicas.filter(isCurrent), ...ended.slice(0, kEndedShown)];
  const lone = job.status.phase === 'training' ? loneStages(replicas, agents) : [];
  const newest = rounds.find((one) => one.state === 'committed');
  const share = (one: Replica) => {
    const part = newest?.contributions.find((entry) => entry.replica === one.id);
    return part?.phases.train_s != null && newest?.seconds.total ? Math.min(1, part.phases.train_s / newest.seconds.total) : null;
  };
  const stages = Math.max(1, ...shown.map((one) => one.stage + 1));
  const unwell = (one: Replica) => {
    const agent = isCurrent(one) ? agents.find((entry) => entry.id === one.agent) : undefined;
    return agent === undefined ? '' : whyUnwell(agent);
  };
  const columns: Column<Replica>[] = [
    { name: 'Replica', show: (one) => one.id, value: (one) => one.id },
    ...(stages > 1 ? [{ name: 'Stage', numeric: true, show: (one: Replica) => number(one.stage), value: (one: Replica) => one.stage }] : []),
    {
      name: 'Agent',
      show: (one) => {
        const agent = agents.find((entry) => entry.id === one.agent);
        const name = agentName(one.agent, agents);
        if (agent === undefined) return name;
        return <Link href={`/agents/${agent.id}`}>{isCurrent(one) ? <State tone={agentTone(agent)} text={name} /> : name}</Link>;
      },
      value: (one) => agentName(one.agent, agents),
    },
    {
      name: 'State',
      show: (one) => <span title={one.detail}><State tone={replicaTone(one)} text={replicaText(one)} /></span>,
      value: (one) => one.state,
    },
    ...(shown.some((one) => unwell(one) !== '') ? [{ name: 'Health', text: true, show: unwell, value: unwell }] : []),
    { name: 'Holds round', numeric: true, show: (one) => number(one.held_round), value: (one) => one.held_round },
    { name: 'Computes', numeric: true, show: (one) => percent(share(one)), value: share },
    { name: 'Tokens/s', numeric: true, show: (one) => short(one.live?.tokens_per_second), value: (one) => one.live?.tokens_per_second ?? null },
    { name: 'Loss', numeric: true, show: (one) => loss(one.live?.train_loss), value: (one) => one.live?.train_loss ?? null },
    { name: 'Reported', show: (one) => <Time at={one.live?.at} />, value: (one) => one.live?.at ?? null },
  ];
  const { tone, text } = coverage(job, replicas);
  return (
    <Card title="Replicas" tools={<State tone={tone} text={text} />}>
      <Table caption="Replicas" columns={columns} rows={shown} rowKey={(one) => one.id} empty="No replica has been placed yet." file="replicas" />
      {ended.length > kEndedShown && <p class="under muted">and {number(ended.length - kEndedShown)} more that have ended</p>}
      {lone.map((text) => (
        <p key={text} class="under"><Glyph tone="warn" /> {text}: if that agent is lost, the job rolls back to its newest checkpoint.</p>
      ))}
    </Card>
  );
});

const kShares: [string, string, keyof Shares][] = [
  ['Computing', "of the replicas' time", 'compute'],
  ['Waiting for stages', 'bubble, slower stages, lines', 'between'],
  ['Waiting for others', 'reported, round not frozen', 'waiting'],
  ['In sync', 'frozen until committed', 'sync'],
  ['The rest', 'starting rounds, evaluations, checkpoints', 'rest'],
];

// Where stages are unequal, the one that computes most is what the others wait for.
const kStageColumns: Column<Split['stages'][number]>[] = [
  { name: 'Stage', numeric: true, show: (one) => number(one.stage), value: (one) => one.stage },
  ...kShares.map(([name, , part]): Column<Split['stages'][number]> => ({
    name, numeric: true, show: (one) => percent(one.shares[part], 1), value: (one) => one.shares[part],
  })),
];

const TimeCard = memo(function TimeCard({ split, lines, marks }: { split: Split; lines: sources.Lines; marks: Mark[] }) {
  const drawn = useMemo(() => [{ name: 'Seconds', ...(lines.round_seconds ?? { x: [], y: [] }), color: 3 as const }], [lines]);
  const piped = split.stages.length > 0;
  return (
    <Card title="Where the time goes">
      <div class="tiles small">
        {kShares.filter(([, , part]) => piped || part !== 'between').map(([name, note, part]) => (
          <Tile key={part} label={name} value={percent(split.shares?.[part] ?? null, 1)} note={note} />
        ))}
      </div>
      {piped && <Table caption="Time of the stages" columns={kStageColumns} rows={split.stages} rowKey={(one) => String(one.stage)} empty="" file="stage-times" />}
      <Chart title="Seconds per round" file="round-seconds" xName="Tokens" lines={drawn} marks={marks} unit={duration} sync="run" height={190} fromZero />
    </Card>
  );
});

const Traffic = memo(function Traffic({ job, lines, marks }: { job: Job; lines: sources.Lines; marks: Mark[] }) {
  const { bytes_sent, bytes_ddp, progress } = job.status;
  const rounds = progress.rounds_committed;
  const drawn = useMemo(() => [{ name: 'Bytes', ...(lines.round_bytes ?? { x: [], y: [] }), color: 1 as const }], [lines]);
  const ratio = bytes_ddp !== null && bytes_sent > 0 ? bytes_ddp / bytes_sent : null;
  return (
    <Card title="Bytes per round">
      <div class="tiles small">
        <Tile label="Sent per round" value={rounds > 0 ? bytes(bytes_sent / rounds) : kNone} note="all replicas" />
        {bytes_ddp === null ? (
          <Tile label="In all" value={bytes(bytes_sent)} />
        ) : (
          <>
            <Tile label="Synchronous would be" value={rounds > 0 ? bytes(bytes_ddp / rounds) : kNone} note="data parallel, fp32" />
            <Tile label="Less traffic" value={ratio === null ? kNone : `${short(ratio)} ×`} note={`${bytes(bytes_sent)} in all`} />
          </>
        )}
      </div>
      <Chart title="Bytes sent in a round" file="round-bytes" xName="Tokens" lines={drawn} marks={marks} unit={bytes} sync="run" height={190} fromZero />
    </Card>
  );
});

const Logged = memo(function Logged({ lines, marks }: { lines: sources.Lines; marks: Mark[] }) {
  return (
    <Card title="Logged by the program">
      <div class="columns even" data-testid="logged">
        {Object.entries(lines).map(([name, line]) => (
          <Chart
            key={name} title={name.slice('log.'.length)} file={name.replaceAll('/', '-')} xName="Tokens"
            lines={[{ name: 'Mean of the replicas', ...line, color: 2 }]} marks={marks} sync="run" height={150}
          />
        ))}
      </div>
    </Card>
  );
});

const Failures = memo(function Failures({ events, rounds }: { events: ClusterEvent[]; rounds: Round[] }) {
  return (
    <Card title="Failures and their consequences">
      {events.length === 0 ? (
        <p class="empty">None known.</p>
      ) : (
        <ul class="plain timeline" data-testid="failures">
          {events.slice(0, 12).map((event) => {
            const after = consequence(event, rounds);
            return (
              <li key={event.seq}>
                <Glyph tone={severityTone(event)} />
                <span>
                  {event.message}
                  {after !== '' && <span class="then"> → {after}</span>}
                </span>
                <Time at={event.at} />
              </li>
            );
          })}
        </ul>
      )}
    </Card>
  );
});

const Safety = memo(function Safety({ job, checkpoints }: { job: Job; checkpoints: Checkpoint[] }) {
  const stored = checkpoints.find((one) => one.state === 'stored');
  const every = job.spec.checkpoint.every_rounds;
  const behind = stored === undefined ? null : job.status.progress.rounds_committed - stored.round;
  const old = every > 0 && !isOver(job.status.phase) && (behind ?? job.status.progress.rounds_committed) > 2 * every;
  return (
    <Card title="Checkpoints" tools={<Link href={`/jobs/${encodeURIComponent(job.id)}/checkpoints`}>All</Link>}>
      <div class="tiles small">
        <Tile
          label="Newest stored"
          value={stored === undefined ? 'none' : <Time at={stored.updated_at} />}
          note={
            stored === undefined
              ? every > 0 ? `every ${plural(every, 'round')}` : 'only at the end'
              : `round ${number(stored.round)}, ${plural(behind ?? 0, 'round')} behind`
          }
          tone={old ? 'bad' : undefined}
        />
        <Tile label="Size" value={bytes(stored?.bytes)} note={stored === undefined ? '' : <>parameters <Digest of={stored.anchor_digest} /></>} />
      </div>
      <ul class="plain chips">
        {checkpoints.filter((one) => one.state !== 'deleted').slice(0, 6).map((one) => (
          <li key={one.id}>
            <State tone={checkpointTone(one.state)} text={`${one.id} round ${one.round}${one.final ? ' final' : ''}`} />
          </li>
        ))}
      </ul>
      <Samples checkpoints={checkpoints} />
    </Card>
  );
});

const kSamples = 8;

// What the model wrote at each checkpoint, newest first: how far it is, for those who read no curves.
function Samples({ checkpoints }: { checkpoints: Checkpoint[] }) {
  const [newest, ...older] = checkpoints.filter((one) => one.sample).slice(0, kSamples);
  if (newest === undefined) return null;
  const heading = (one: Checkpoint) => `${one.id}, round ${number(one.round)}`;
  return (
    <>
      <h3>Sample text at {heading(newest)}</h3>
      <Sample text={newest.sample ?? ''} />
      {older.length > 0 && (
        <details>
          <summary>at earlier checkpoints</summary>
          {older.map((one) => (
            <section key={one.id}>
              <h3>{heading(one)}</h3>
              <Sample text={one.sample ?? ''} />
            </section>
          ))}
        </details>
      )}
    </>
  );
}

// Rounds that were committed are trained again: the numbers alone would look wrong.
function WentBack({ job, events }: { job: Job; events: ClusterEvent[] }) {
  if (job.status.epoch === 0) return null;
  const last = events.find((event) => event.kind === 'job_rolled_back' || event.kind === 'job_restored');
  return (
    <p data-testid="went-back">
      <Glyph tone="warn" /> It rolled back to a checkpoint {plural(job.status.epoch, 'time')}
      {last !== undefined && <>, last <Time at={last.at} />: {last.message}</>}
    </p>
  );
}

function NotRunBy({ job }: { job: Job }) {
  const names = job.status.not_run_by ?? [];
  if (names.length === 0) return null;
  return (
    <p data-testid="not-run-by">
      <Glyph tone="off" /> {plural(names.length, 'agent')} here {names.length === 1 ? 'does' : 'do'} not allow the program of this job: {names.join(', ')}.
    </p>
  );
}

const kNoRounds: Round[] = [];

export function RunPage({ id }: { id: string }) {
  // In the order in which they are looked at: a browser asks six questions at a time.
  const job = useWatch(sources.job(id), [id]);
  const lines = useWatch(sources.series(id, ['train_loss', 'validation_loss'], 'tokens'), [id]);
  const rounds = useWatch(sources.rounds(id), [id]);
  const replicas = useWatch(sources.replicas(id), [id]);
  const agents = useWatch(sources.agents(true), []);
  const events = useWatch(sources.failures(), []);
  const checkpoints = useWatch(sources.checkpoints(id), [id]);
  const costs = useWatch(sources.series(id, ['round_seconds', 'round_bytes'], 'tokens'), [id]);
  const logged = useWatch(sources.logged(id), [id]);
  const known = rounds.value ?? kNoRounds;
  const split = useMemo(() => timeSplit(known.slice(0, 20)), [known]);
  const failures = useMemo(
    () => (job.value === undefined ? [] : (events.value ?? []).filter((event) => isFailureOf(job.value!, replicas.value ?? [], event))),
    [events.value, job.value?.id, job.value?.status.finished_at, replicas.value],
  );
  const counted = useMemo(() => oneEach(withoutAttemptsOfLosses(failures, known)), [failures, known]);
  const marks = useMemo(
    () => marksOf(counted, checkpoints.value ?? [], lines.value?.train_loss),
    [counted, checkpoints.value, lines.value],
  );
  if (job.value === undefined) {
    return (
      <>
        <h1>{id}</h1>
        <Missing of={job} what="the job" />
      </>
    );
  }
  const { model } = job.value.spec;
  const open = known.find((round) => round.state !== 'committed' && round.state !== 'aborted') ?? known[0];
  return (
    <>
      <h1 class="breaks">{job.value.name}</h1>
      {job.value.description && <p class="breaks">{job.value.description}</p>}
      <p class="muted">
        {job.value.id}{ownerOf(job.value) !== '' && ` of ${ownerOf(job.value)}`} · {model.family}, {short(job.value.status.parameters)} parameters · {syncText(job.value)}{(job.value.status.priority ?? 50) !== 50 && ` · priority ${job.value.status.priority}`}
      </p>
      <WentBack job={job.value} events={failures} />
      <NotRunBy job={job.value} />
      <JobLinks job={id} at="" />
      {isOver(job.value.status.phase) ? <Remove job={job.value} /> : <Pausing job={job.value} />}
      {job.error !== null && <Missing of={job} what="the job" />}
      <Moving job={job.value} split={split} rounds={known} />
      {lines.value === undefined ? <Missing of={lines} what="the loss" /> : <LossCard lines={lines.value} marks={marks} />}
      <Progress job={job.value} split={split} />
      {rounds.value === undefined || replicas.value === undefined || agents.value === undefined ? (
        <Missing of={rounds.value === undefined ? rounds : replicas.value === undefined ? replicas : agents} what="the current round" />
      ) : (
        <div class="columns uneven">
          <CurrentRound job={job.value} round={open} replicas={replicas.value} agents={agents.value} split={split} />
          <Replicas job={job.value} replicas={replicas.value} agents={agents.value} rounds={known} />
        </div>
      )}
      {costs.value === undefined ? <Missing of={costs} what="time and traffic" /> : (
        <div class="columns even">
          <TimeCard split={split} lines={costs.value} marks={marks} />
          <Traffic job={job.value} lines={costs.value} marks={marks} />
        </div>
      )}
      {Object.keys(logged.value ?? {}).length > 0 && <Logged lines={logged.value!} marks={marks} />}
      <div class="columns even">
        {events.value === undefined ? <Missing of={events} what="failures" /> : <Failures events={counted} rounds={known} />}
        {checkpoints.value === undefined ? <Missing of={checkpoints} what="checkpoints" /> : <Safety job={job.value} checkpoints={checkpoints.value} />}
      </div>
    </>
  );
}
