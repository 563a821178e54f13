// The whole cluster at a glance: is anything running, is anything wrong.
import { Link } from 'wouter-preact';
import type { Agent, Job } from '../api';
import { byName, duration, kNone, loss, millis, number, percent, plural, short } from '../format';
import { now } from '../live';
import { Bar, Card, Denied, Glyph, Missing, Spark, State, Tile, Time, useWatch } from '../parts';
import { agentTone, done, isFailure, isOver, isUnheard, loneStages, lostAgents, oneEach, phaseTone, problems, roundsText, stagesOf } from '../status';
import { session, whyNot } from '../session';
import * as sources from '../sources';
import { agentState } from './agents';
import { EventList } from './events';
import { jobHref } from './jobs';

// Only for a job that trains: for another one this would show its past as its present.
function rateOf(job: Job): number | null {
  const { phase, progress, started_at, committed_at } = job.status;
  if (phase !== 'training') return null;
  if (progress.tokens_per_second !== null) return progress.tokens_per_second;
  const from = millis(started_at), to = millis(committed_at);
  return from !== null && to !== null && to > from ? (progress.tokens_committed / (to - from)) * 1000 : null;
}

function Tiles({ jobs, agents }: { jobs: Job[] | undefined; agents: Agent[] | undefined }) {
  const live = agents?.filter((agent) => agent.state !== 'gone');
  const well = live?.filter((agent) => !isUnheard(agent)).length ?? 0;
  const lost = agents === undefined ? 0 : lostAgents(agents, now.value).length;
  const devices = live?.flatMap((agent) => agent.devices).filter((device) => device.kind !== 'reducer');
  const cuda = devices?.filter((device) => device.kind === 'cuda').length ?? 0;
  const active = jobs?.filter((job) => !isOver(job.status.phase));
  const training = active?.filter((job) => job.status.phase === 'training');
  const paused = active?.filter((job) => job.status.phase === 'paused').length ?? 0;
  const rate = training?.reduce((sum, job) => sum + (rateOf(job) ?? 0), 0);
  const states = ['active', 'idle', 'syncing', 'joining', 'draining']
    .map((state) => [state, live?.filter((agent) => agent.state === state).length ?? 0] as const)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count} ${state}`)
    .concat(lost > 0 ? [`${lost} lost`] : [])
    .join(', ');
  return (
    <div class="tiles">
      <Tile
        label="Agents heard from"
        value={live === undefined ? kNone : `${well} of ${live.length + lost}`}
        note={live === undefined ? 'not known' : states || 'none has joined'}
        tone={live === undefined ? 'off' : well < live.length + lost ? 'bad' : live.length === 0 ? 'warn' : undefined}
      />
      <Tile
        label="Devices"
        value={number(devices?.length)}
        note={devices === undefined ? 'not known' : `${cuda} GPU, ${devices.length - cuda} CPU`}
      />
      <Tile
        label="Active jobs"
        value={number(active?.length)}
        note={training === undefined ? 'not known' : `${training.length} training${paused > 0 ? `, ${paused} paused` : ''}`}
      />
      <Tile label="Tokens per second" value={rate === undefined ? kNone : short(rate)} note="of all training jobs" />
    </div>
  );
}

// Names stages of a pipeline that depend on a single agent.
function LoneStages({ job, agents }: { job: Job; agents: Agent[] }) {
  const replicas = useWatch(sources.replicas(job.id), [job.id]);
  const lone = loneStages(replicas.value ?? [], agents);
  if (lone.length === 0) return null;
  return <div><Glyph tone="warn" /> {lone.join('; ')}</div>;
}

function JobCard({ job, agents }: { job: Job; agents: Agent[] }) {
  const lines = useWatch(sources.series(job.id, ['train_loss'], 'tokens', 160), [job.id]);
  const { status } = job;
  const progress = `${roundsText(job)} rounds`;
  return (
    <li class="job">
      <div>
        <Link href={jobHref(job)} class="name">
          {job.name}
        </Link>{' '}
        <State tone={phaseTone(status.phase)} text={status.phase} />
      </div>
      <Spark values={lines.value?.train_loss?.y ?? []} rounds={status.progress.rounds_committed} label={`Training loss of ${job.name}`} />
      <dl class="facts">
        <dt>Loss</dt>
        <dd>{loss(status.train_loss)}</dd>
        <dt>Validation</dt>
        <dd>{loss(status.validation_loss)}</dd>
        <dt>Tokens/s</dt>
        <dd>{short(rateOf(job))}</dd>
        <dt>Last round</dt>
        <dd>
          <Time at={status.committed_at} />
        </dd>
      </dl>
      <Bar share={done(job)} label={`${progress}, ${percent(done(job))}`} />
      <span class="muted">
        {progress} · {percent(done(job))}
      </span>
      {status.epoch > 0 && <div><Glyph tone="warn" /> rolled back to a checkpoint {plural(status.epoch, 'time')}</div>}
      {status.phase === 'training' && stagesOf(job) > 1 && <LoneStages job={job} agents={agents} />}
    </li>
  );
}

export function OverviewPage() {
  const jobs = useWatch(sources.jobs(), []);
  const agents = useWatch(sources.agents(true), []);
  const recent = useWatch(sources.events({ severity: 'warning' }, 60), []);
  const barred = whyNot(session.value, 'submit_job');
  const active = jobs.value?.filter((job) => !isOver(job.status.phase));
  const open = problems(jobs.value ?? [], agents.value ?? [], now.value);
  const known = jobs.value !== undefined && agents.value !== undefined;
  const day = oneEach((recent.value ?? []).filter(
    (event) => isFailure(event) && now.value - (millis(event.at) ?? 0) < 86_400_000,
  ));
  const shown = agents.value === undefined ? [] : [...agents.value.filter((agent) => agent.state !== 'gone').sort(byName), ...lostAgents(agents.value, now.value)];
  return (
    <>
      <h1>Overview</h1>
      <Tiles jobs={jobs.value} agents={agents.value} />
      <div class="columns">
        <Card title="Unfinished jobs" tools={<Link href="/jobs">All jobs</Link>}>
          {active === undefined ? (
            <Missing of={jobs} what="jobs" />
          ) : active.length === 0 ? (
            <p class="empty">
              No job runs.{' '}
              {barred !== '' ? <Denied why={barred} /> : <><Link href="/jobs/new">Submit one here</Link>, or with <code>shoal job submit mine.toml</code></>}
            </p>
          ) : (
            <ul class="plain jobs">
              {active.slice(0, 12).map((job) => (
                <JobCard key={job.id} job={job} agents={agents.value ?? []} />
              ))}
            </ul>
          )}
        </Card>
        <div class="stack">
          <Card title="Open problems">
            {!known ? (
              <Missing of={jobs.value === undefined ? jobs : agents} what="problems" />
            ) : open.length === 0 ? (
              <p class="empty">
                <State tone="good" text="None known" />
              </p>
            ) : (
              <ul class="plain">
                {open.map((problem) => (
                  <li key={problem.key} class="problem-row">
                    <Glyph tone={problem.tone} />
                    <span>
                      <Link href={problem.href}>{problem.title}</Link>: {problem.detail}
                    </span>
                    <Time at={problem.at} />
                  </li>
                ))}
              </ul>
            )}
          </Card>
          <Card title="Warnings of the last day" tools={<Link href="/events?severity=warning">All</Link>}>
            {recent.value === undefined ? (
              <Missing of={recent} what="warnings" />
            ) : (
              <EventList events={day.slice(0, 8)} empty="None." />
            )}
          </Card>
          <Card title="Agents" tools={<Link href="/agents">All agents</Link>}>
            {agents.value === undefined ? (
              <Missing of={agents} what="agents" />
            ) : shown.length === 0 ? (
              <p class="empty">No agent has joined.</p>
            ) : (
              <ul class="plain chips">
                {shown.slice(0, 60).map((agent) => (
                  <li key={agent.id} title={`last heard ${duration((now.value - (millis(agent.last_seen_at ?? agent.updated_at) ?? 0)) / 1000)} ago`}>
                    <State tone={agentTone(agent)} text={`${agent.name} ${agentState(agent)}`} />
                  </li>
                ))}
                {shown.length > 60 && <li class="muted">and {number(shown.length - 60)} more</li>}
              </ul>
            )}
          </Card>
        </div>
      </div>
    </>
  );
}
