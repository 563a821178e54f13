// What the pages say, computed from what the API answers: pure functions from records to verdicts: whom a
// round waits for, what is wrong in the cluster, how a failure ended, how much of the time was computing.
import type { Agent, ClusterEvent, Contribution, DryRun, Job, Phase, Replica, Round } from './api';
import { bytes, duration, finite, millis, number, plural, words } from './format';

const kLostForMs = 3_600_000; // an agent that was lost longer ago is history

export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'off';

const kGravest: Tone[] = ['bad', 'warn', 'off', 'busy', 'good'];
export const worst = (tones: Tone[]): Tone => kGravest.find((tone) => tones.includes(tone)) ?? 'off';

const kPhaseTones: Record<Phase, Tone> = {
  queued: 'off',
  gathering: 'busy',
  warming: 'busy',
  training: 'good',
  stalled: 'bad',
  finalizing: 'busy',
  paused: 'warn',
  completed: 'good',
  cancelled: 'off',
  failed: 'bad',
};

// A word that this page does not know is of a newer coordinator: shown, but never as healthy.
export function phaseTone(phase: string): Tone {
  return kPhaseTones[phase as Phase] ?? 'warn';
}

export function isOver(phase: string): boolean {
  return phase === 'completed' || phase === 'cancelled' || phase === 'failed';
}

// It has let its devices go, for good or until it is resumed.
export const holdsNothing = (phase: string): boolean => isOver(phase) || phase === 'paused';

// Since when the job has made no progress, in ms: its newest commit, or whatever became of it after that, such as the end of a pause.
export function lastMoved(job: Job): number | null {
  const last = millis(job.status.committed_at ?? job.status.started_at);
  return last === null ? null : Math.max(last, millis(job.updated_at) ?? 0);
}

// Its connection broke, or its heartbeat is late. A yellow agent may also have a slow replica, or a device in trouble.
export const isUnheard = (agent: Agent): boolean =>
  agent.late === undefined ? agent.health !== 'green' && !isSlow(agent) : agent.health === 'red' || agent.late;
export const isSlow = (agent: Agent): boolean => agent.health === 'yellow' && (agent.slow_replicas ?? 0) > 0 && agent.late !== true;

const kTroubles: Record<string, string> = {
  cordoned: 'device cordoned', trainer_fails: 'trainer fails', lost: 'device lost', silent: 'device silent', partial: 'device answers in part',
};

// What is amiss with its devices, the gravest first.
export const deviceTroubles = (agent: Agent): string[] =>
  [...new Set((agent.device_troubles ?? []).map((one) => kTroubles[one.trouble] ?? words(one.trouble)))];

export function agentTone(agent: Agent): Tone {
  if (agent.state === 'gone' || agent.health === 'red') return 'bad';
  if (agent.health !== 'green' || agent.state === 'draining' || agent.cordoned === true || agent.quarantine) return 'warn';
  return agent.state === 'active' ? 'good' : 'busy';
}

export function replicaTone(replica: Pick<Replica, 'state'>): Tone {
  if (replica.state === 'failed') return 'bad';
  if (replica.state === 'absent') return 'warn';
  if (replica.state === 'released') return 'off';
  return replica.state === 'serving' || replica.state === 'averaging' ? 'good' : 'busy';
}

const kWell = ['committed', 'voted', 'member', 'reported', 'followed', 'served'];

export function contributionTone(state: string): Tone {
  if (kWell.includes(state)) return 'good';
  if (state === 'training' || state === 'late') return 'busy';
  return state === 'lost' ? 'bad' : 'warn';
}

export const contributionText = (one: Pick<Contribution, 'state' | 'reject_reason'>): string =>
  one.reject_reason === null ? one.state : `${one.state}: ${one.reject_reason}`;

export function roundTone(state: string): Tone {
  if (state === 'committed') return 'good';
  return state === 'aborted' ? 'bad' : 'busy';
}

export const isCurrent = (replica: Replica): boolean =>
  replica.state !== 'released' && replica.state !== 'failed';

// A job without mistakes may still fail at once, or surprise.
export function verdictOn(dryRun: Pick<DryRun, 'data' | 'notes'>): { tone: Tone; text: string } {
  if (dryRun.data?.problem) return { tone: 'bad', text: 'its data would be refused' };
  const notes = dryRun.notes?.length ?? 0;
  return notes === 0 ? { tone: 'good', text: 'accepted' } : { tone: 'warn', text: `accepted, with ${plural(notes, 'note')}` };
}

export const serves = (replica: Replica): boolean => replica.state === 'serving' || replica.state === 'averaging';

// As the job asks; "auto" before the plan is one at least.
export const stagesOf = (job: Job): number => Number(job.spec.swarm.stages) || 1;

// Whether enough replicas serve: every stage needs its own. A job that is over needs none.
export function coverage(job: Job, replicas: Replica[]): { tone: Tone; text: string } {
  if (isOver(job.status.phase)) return { tone: 'off', text: 'the job has ended' };
  if (job.status.phase === 'paused') return { tone: 'off', text: 'the job is paused' };
  const here = replicas.filter(serves);
  const stages = Math.max(1, stagesOf(job), ...here.map((one) => one.stage + 1));
  const counts = Array.from({ length: stages }, (_, stage) => here.filter((one) => one.stage === stage).length);
  const least = Math.min(...counts), needed = job.spec.swarm.min_replicas;
  const tone: Tone = least >= needed ? 'good' : 'bad';
  if (stages === 1) return { tone, text: `${here.length} serve, at least ${needed} needed` };
  return { tone, text: `${here.length} serve, at least ${least} in each stage (${needed} needed)` };
}

// The newest copy of each round, newest round first, of the newest epoch only, at most `most`.
export function mergeRounds(known: Round[], fresh: Round[], most = 120): Round[] {
  const epoch = Math.max(...fresh.map((round) => round.epoch), ...known.map((round) => round.epoch), 0);
  const byNumber = new Map<number, Round>();
  for (const round of [...known, ...fresh]) if (round.epoch === epoch) byNumber.set(round.round, round);
  // After a roll-back the rounds beyond the newest fresh one are gone.
  const newest = Math.max(...fresh.map((round) => round.round), 0);
  return [...byNumber.values()]
    .filter((round) => fresh.length === 0 || round.round <= newest)
    .sort((a, b) => b.round - a.round)
    .slice(0, most);
}

// Whether fresh rounds, newest first, leave a gap after the known ones.
export function hasGap(known: Round[], fresh: Round[]): boolean {
  const newestKnown = known[0]?.round;
  const oldestFresh = fresh[fresh.length - 1]?.round;
  return newestKnown !== undefined && oldestFresh !== undefined && oldestFresh > newestKnown + 1;
}

export function mergeEvents(known: ClusterEvent[], fresh: ClusterEvent[], most: number): ClusterEvent[] {
  const bySeq = new Map<number, ClusterEvent>();
  for (const event of [...fresh, ...known]) bySeq.set(event.seq, event); // they never change: known ones stay the same objects
  return [...bySeq.values()].sort((a, b) => b.seq - a.seq).slice(0, most);
}

export interface Waiting {
  summary: string;
  tone: Tone;
  on: { replica: string; agent: string; doing: string; tone: Tone; share: number | null }[];
}

const names = new WeakMap<Agent[], Map<string, string>>();

export function agentName(id: string | null, agents: Agent[]): string {
  if (id === null) return 'unknown agent';
  let known = names.get(agents);
  if (known === undefined) names.set(agents, (known = new Map(agents.map((agent) => [agent.id, agent.name]))));
  return known.get(id) ?? id;
}

// Whether slower replicas take fewer steps a round.
const bySpeed = (job: Job): boolean => job.spec.sync.balance === 'speed';

// Agents that were lost lately and have not come back under their name, the newest first.
export function lostAgents(agents: Agent[], nowMs: number): Agent[] {
  const here = new Set(agents.filter((agent) => agent.state !== 'gone').map((agent) => agent.name));
  const lost = agents
    .filter((agent) => agent.state === 'gone' && agent.gone_reason === 'lost' && !here.has(agent.name))
    .filter((agent) => nowMs - (millis(agent.updated_at) ?? 0) < kLostForMs)
    .sort((a, b) => (millis(b.updated_at) ?? 0) - (millis(a.updated_at) ?? 0));
  return lost.filter((agent, i) => lost.findIndex((one) => one.name === agent.name) === i);
}

// "stage 1 depends on agent-2 alone", of a pipeline whose stages are served by one agent each.
export function loneStages(replicas: Replica[], agents: Agent[]): string[] {
  const current = replicas.filter(isCurrent);
  const stages = [...new Set(current.map((one) => one.stage))].sort((a, b) => a - b);
  if (stages.length < 2) return [];
  return stages.flatMap((stage) => {
    const who = [...new Set(current.filter((one) => one.stage === stage && serves(one)).map((one) => one.agent))];
    return who.length === 1 ? [`stage ${stage} depends on ${agentName(who[0]!, agents)} alone`] : [];
  });
}

// How the replicas average: "diloco every 50 steps, by speed, ring, int8".
export function syncText(job: Job): string {
  const { algorithm, every, topology, codec } = job.spec.sync;
  const often = typeof every === 'number' ? plural(every, 'step') : every;
  const parts = [`${algorithm} every ${often}`, bySpeed(job) ? 'slower replicas take fewer' : '', words(String(topology ?? '')), codec];
  return parts.filter((part) => part !== '').join(', ');
}

function trainingShare(round: Round, replica: Replica | undefined): number | null {
  const live = replica?.live;
  const steps = round.to_step - round.from_step;
  if (!live || live.round !== round.round || steps <= 0) return null;
  return Math.min(1, Math.max(0, (live.inner_step - round.from_step) / steps));
}

const kMissing: Record<string, { states: string[]; doing: string }> = {
  open: { states: ['training'], doing: 'trains' },
  frozen: { states: ['member', 'reported'], doing: 'averages' },
  reducing: { states: ['member', 'reported'], doing: 'averages' },
  voting: { states: ['member', 'reported'], doing: 'has not voted' },
};

function waitingOn(contribution: Contribution, job: Job, round: Round, replicas: Replica[], agents: Agent[], doing: string) {
  const replica = replicas.find((one) => one.id === contribution.replica);
  const agent = agents.find((one) => one.id === contribution.agent);
  const share = round.state === 'open' ? trainingShare(round, replica) : null;
  const unwell = agent !== undefined && (agent.state === 'gone' || isUnheard(agent));
  const failed = replica !== undefined && !isCurrent(replica);
  let text = doing;
  if (share !== null && replica?.live) {
    const steps = round.to_step - round.from_step;
    const most = bySpeed(job) ? 'at most ' : '';
    text = `trains, step ${number(Math.round(share * steps))} of ${most}${number(steps)}`;
  }
  if (agent?.state === 'gone') text = `is gone: ${words(agent.gone_reason ?? 'no reason given')}`;
  else if (unwell) text += ', is not heard from';
  else if (failed) text = `has ${replica.state === 'failed' ? 'failed' : 'left'}`;
  return {
    replica: contribution.replica,
    agent: agentName(contribution.agent, agents),
    doing: text,
    tone: (unwell || failed ? 'bad' : 'busy') as Tone,
    share,
  };
}

// What the job waits for at this moment, from its open round; without one, from its phase.
export function waitingFor(job: Job, round: Round | undefined, replicas: Replica[], agents: Agent[]): Waiting {
  const status = job.status;
  if (isOver(status.phase)) return { summary: 'nobody: the job has ended', tone: 'off', on: [] };
  if (status.phase === 'paused') return { summary: 'nobody: the job is paused', tone: 'off', on: [] };
  const missing = round === undefined ? undefined : kMissing[round.state];
  if (status.phase !== 'training' || round === undefined || missing === undefined)
    return waitingByPhase(job, replicas, agents);
  const on = round.contributions
    .filter((one) => missing.states.includes(one.state))
    .map((one) => waitingOn(one, job, round, replicas, agents, missing.doing));
  const all = round.contributions.filter((one) => !['lost', 'moved', 'rejected', 'late', 'followed', 'served'].includes(one.state)).length;
  if (on.length === 0) return { summary: 'the coordinator: all members have answered', tone: 'good', on };
  const tone: Tone = on.some((one) => one.tone === 'bad') ? 'bad' : 'busy';
  if (on.length === all)
    return { summary: `everybody: ${plural(all, 'replica')}`, tone, on };
  return { summary: `${on.map((one) => one.agent).join(', ')} (${on.length} of ${all})`, tone, on };
}

// "12 MB of 53 MB, 40 s left" of one that loads; empty: nothing is known.
export function loadText(replica: Replica): string {
  const load = replica.load;
  if (load === undefined || load === null) return '';
  const far = load.total_bytes === null ? bytes(load.done_bytes) : `${bytes(load.done_bytes)} of ${bytes(load.total_bytes)}`;
  const left = load.left_s === null ? '' : `, ${duration(load.left_s)} left`;
  return `${far}${left}${load.share > 0 ? `, r = ${load.share.toFixed(2)}` : ''}`;
}

export function replicaText(replica: Replica): string {
  if (replica.failure !== null) return `${replica.state}: ${replica.failure}`;
  const load = replica.state === 'loading' ? loadText(replica) : '';
  return load === '' ? replica.state : `${replica.state}: ${load}`;
}

function waitingByPhase(job: Job, replicas: Replica[], agents: Agent[]): Waiting {
  const { phase, reason, detail } = job.status;
  const here = replicas.filter(isCurrent);
  const ready = here.filter((one) => one.state === 'serving' || one.state === 'averaging').length;
  const on = here
    .filter((one) => one.state === 'assigned' || one.state === 'loading' || one.state === 'absent')
    .map((one) => ({
      replica: one.id,
      agent: agentName(one.agent, agents),
      doing: one.state === 'absent' ? 'is out of reach'
        : one.state === 'assigned' ? 'starts its trainer' : `loads the state from ${one.source.kind}`,
      tone: (one.state === 'absent' ? 'warn' : 'busy') as Tone,
      share: null,
    }));
  const counted = `${ready} of at least ${plural(job.spec.swarm.min_replicas, 'replica')} ready`;
  const why = detail === '' ? words(reason) : detail;
  const summary = phase === 'training' ? 'the next round' : `${why} (${counted})`;
  return { summary, tone: phaseTone(phase) === 'good' ? 'busy' : phaseTone(phase), on };
}

// Shares of the time of replicas, from the opening of rounds to their commit.
export interface Shares {
  compute: number; // in passes and inner steps
  between: number; // of a pipeline: training, but no microbatch was there to compute
  waiting: number; // reported, and waiting for the freeze
  sync: number; // frozen until committed
  rest: number; // none of these: the start of a round, evaluations, checkpoints
}

export interface Split {
  shares: Shares | null; // of all replicas; null: no round has committed
  stages: { stage: number; shares: Shares }[]; // of a pipeline, by stage; empty: the model is not cut
  tokensPerSecond: number | null;
  roundSeconds: number | null;
}

interface Spent {
  whole: number;
  compute: number;
  waiting: number;
  window: number; // open until frozen
  sync: number;
}

function sharesOf(spent: Spent[], piped: boolean): Shares | null {
  const sum = (part: (one: Spent) => number) => spent.reduce((all, one) => all + part(one), 0);
  const whole = sum((one) => one.whole);
  if (whole <= 0) return null;
  const [compute, waiting, sync] = [sum((one) => one.compute) / whole, sum((one) => one.waiting) / whole, sum((one) => one.sync) / whole];
  const between = piped ? sum((one) => Math.max(0, one.window - one.compute - one.waiting)) / whole : 0;
  return { compute, between, waiting, sync, rest: Math.max(0, 1 - compute - between - waiting - sync) };
}

// Over the committed rounds given.
export function timeSplit(rounds: Round[]): Split {
  const byStage = new Map<number, Spent[]>();
  let total = 0, tokens = 0, count = 0;
  for (const round of rounds) {
    const whole = round.seconds.total;
    if (round.state !== 'committed' || !finite(whole) || whole <= 0) continue;
    count += 1;
    total += whole;
    tokens += round.tokens;
    const sync = (round.seconds.reduce ?? 0) + (round.seconds.vote ?? 0);
    for (const one of round.contributions) {
      if ((one.state !== 'committed' && one.state !== 'kept') || (one.role ?? 'trainer') !== 'trainer') continue;
      const spent = { whole, compute: Math.min(whole, one.phases.train_s ?? 0), waiting: one.phases.wait_s ?? 0, window: round.seconds.train ?? 0, sync };
      byStage.set(one.stage ?? 0, [...(byStage.get(one.stage ?? 0) ?? []), spent]);
    }
  }
  const piped = [...byStage.keys()].some((stage) => stage > 0);
  const stages = [...byStage].sort(([a], [b]) => a - b).flatMap(([stage, spent]) => {
    const shares = piped ? sharesOf(spent, true) : null;
    return shares === null ? [] : [{ stage, shares }];
  });
  return {
    shares: sharesOf([...byStage.values()].flat(), piped),
    stages,
    tokensPerSecond: total > 0 ? tokens / total : null,
    roundSeconds: total > 0 ? total / count : null,
  };
}

export interface Skipped {
  skipped: number;
  steps: number;
  rounds: number;
}

// Inner steps that changed nothing, as their loss or gradient was not finite, over the rounds given. Null: none.
export function skippedSteps(rounds: Round[]): Skipped | null {
  let skipped = 0, steps = 0, counted = 0;
  for (const round of rounds) {
    const reported = round.contributions.filter((one) => finite(one.steps));
    if (reported.length > 0) counted += 1;
    for (const one of reported) {
      skipped += one.skipped ?? 0;
      steps += one.steps ?? 0;
    }
  }
  return skipped === 0 ? null : { skipped, steps, rounds: counted };
}

// Share of the inner steps that is done; of timed rounds nobody knows the number.
export function done(job: Job): number | null {
  const { inner_step, inner_steps_total, rounds_committed, rounds_total } = job.status.progress;
  if (rounds_total === null) return inner_steps_total > 0 ? inner_step / inner_steps_total : null;
  return rounds_total > 0 ? rounds_committed / rounds_total : null;
}

// Rounds of the whole job; for timed rounds an estimate from the steps done. null before the first commit.
function roundsExpected(job: Job): number | null {
  const { rounds_committed, rounds_total } = job.status.progress;
  if (rounds_committed === 0) return null;
  const share = done(job);
  return rounds_total ?? (share !== null && share > 0 ? rounds_committed / share : null);
}

// "12 of 30", or "12" when rounds are timed.
export function roundsText(job: Job): string {
  const { rounds_committed, rounds_total } = job.status.progress;
  return rounds_total === null ? number(rounds_committed) : `${number(rounds_committed)} of ${number(rounds_total)}`;
}

export function tokensTarget(job: Job): number | null {
  const total = roundsExpected(job);
  const { rounds_committed, tokens_committed } = job.status.progress;
  return total === null ? null : (tokens_committed / rounds_committed) * total;
}

// Seconds until the last round, from the pace of the last rounds; null when nothing moves.
export function timeLeft(job: Job, split: Split): number | null {
  if (job.status.phase !== 'training' || split.roundSeconds === null) return null;
  const total = roundsExpected(job);
  return total === null ? null : Math.max(0, total - job.status.progress.rounds_committed) * split.roundSeconds;
}

// A round that takes several times as long as those before it: shown before anybody asks.
export function isLate(sinceCommitS: number | null, usualS: number | null): boolean {
  return sinceCommitS !== null && usualS !== null && sinceCommitS > Math.max(10, 3 * usualS);
}

const kChecked = ['agent_disconnected', 'agent_gone', 'replica_absent', 'replica_failed', 'round_aborted', 'round_attempt',
  'round_stragglers', 'job_rolled_back', 'job_restored', 'checkpoint_failed', 'agent_refused', 'coordinator_started'];

export function isFailure(event: ClusterEvent): boolean {
  return event.severity !== 'info' || kChecked.includes(event.kind);
}

// Failures of a job, and until its end those of the agents that serve it.
export function isFailureOf(job: Job, replicas: Replica[], event: ClusterEvent): boolean {
  if (!isFailure(event)) return false;
  if (event.job !== null) return event.job === job.id;
  const when = timeOf(event);
  if (when < (millis(job.created_at) ?? 0) || when > (millis(job.status.finished_at) ?? Infinity)) return false;
  return event.kind === 'coordinator_started' || replicas.some((one) => one.agent !== null && one.agent === event.agent);
}

// Several events tell of one failure. An agent that is lost: its connection, each of its replicas, itself. A job that
// fails: each of its replicas, itself.
const kOfTheAgent = ['agent_disconnected', 'agent_gone'];
const kOfReplicas = ['replica_absent', 'replica_failed'];
const kOneSpellMs = 60_000; // from the first of them to the last
const kReplicaSlackMs = 5_000; // a replica may fail a little before its agent is missed
const kStaleMs = 90_000; // and after it: a job waits a minute for absent replicas before it gives them up

interface Spell {
  said: ClusterEvent; // says it best: the newest about the agent or the job itself
  from: number;
  to: number;
}

const timeOf = (event: ClusterEvent) => millis(event.at) ?? 0;
const failedJob = (event: ClusterEvent) => (event.kind === 'job_phase' && event.severity === 'error' ? event.job : null);
const lostAgent = (event: ClusterEvent) => (kOfTheAgent.includes(event.kind) ? event.agent : null);

// By the id of the agent or the job.
function spellsIn(oldestFirst: ClusterEvent[]): Map<string, Spell[]> {
  const spells = new Map<string, Spell[]>();
  const add = (id: string, spell: Spell) => spells.set(id, [...(spells.get(id) ?? []), spell]);
  for (const event of oldestFirst) {
    const at = timeOf(event), agent = lostAgent(event), job = failedJob(event);
    const last = agent === null ? undefined : spells.get(agent)?.slice(-1)[0];
    if (last !== undefined && at - last.from < kOneSpellMs) Object.assign(last, { said: event, to: at });
    else if (agent !== null) add(agent, { said: event, from: at, to: at });
    else if (job !== null) add(job, { said: event, from: at - kOneSpellMs, to: at });
  }
  return spells;
}

// The failures that the events tell of, newest first: one for each agent that was lost and each job that failed, however
// many events say so. The time is that of the first event, the text that of the last one about the agent or the job.
export function oneEach(events: ClusterEvent[]): ClusterEvent[] {
  const oldestFirst = [...events].sort((a, b) => a.seq - b.seq);
  const spells = spellsIn(oldestFirst);
  const spellOf = (event: ClusterEvent, id: string | null) =>
    id === null ? undefined : spells.get(id)?.find((one) => timeOf(event) >= one.from - kReplicaSlackMs && timeOf(event) <= one.to + kStaleMs);
  const told = new Set<Spell>();
  return oldestFirst
    .flatMap((event) => {
      const spell = kOfReplicas.includes(event.kind) ? spellOf(event, event.agent) ?? spellOf(event, event.job) : spellOf(event, lostAgent(event) ?? failedJob(event));
      if (spell === undefined) return [event];
      if (told.has(spell)) return [];
      told.add(spell);
      return [{ ...spell.said, at: event.at }];
    })
    .reverse();
}

// Without the next attempts of rounds whose member was lost with its agent: that loss is told already.
export function withoutAttemptsOfLosses(events: ClusterEvent[], rounds: Round[]): ClusterEvent[] {
  const losses = events.filter((event) => lostAgent(event) !== null);
  const wasLost = (agent: string | null, by: number) =>
    losses.some((loss) => loss.agent === agent && timeOf(loss) <= by && by - timeOf(loss) < kStaleMs);
  return events.filter((event) => {
    if (event.kind !== 'round_attempt') return true;
    const round = rounds.find((one) => one.round === event.round);
    return round?.contributions.some((one) => one.state === 'lost' && wasLost(one.agent, timeOf(event))) !== true;
  });
}

// What became of it, read from the rounds: the first that committed afterwards, and what it went without.
export function consequence(event: ClusterEvent, rounds: Round[]): string {
  const at = millis(event.at);
  if (at === null) return '';
  const after = rounds
    .filter((round) => round.state === 'committed' && (millis(round.committed_at) ?? 0) >= at)
    .sort((a, b) => a.round - b.round)[0];
  const oldest = Math.min(...rounds.map((round) => millis(round.opened_at) ?? Infinity));
  if (after === undefined) return rounds.length > 0 ? 'no round has committed since' : '';
  if (at < oldest) return '';
  const took = ((millis(after.committed_at) ?? at) - at) / 1000;
  const lost = after.contributions.filter((one) => one.state === 'lost').length;
  const committed = after.contributions.filter((one) => one.state === 'committed').length;
  const without = lost > 0 ? `, without ${plural(lost, 'replica')}` : '';
  const again = after.attempt > 1 ? `, at attempt ${after.attempt}` : '';
  return `round ${number(after.round)} committed ${duration(took)} later by ${plural(committed, 'replica')}${without}${again}`;
}

export interface Problem {
  key: string;
  tone: Tone;
  title: string;
  detail: string;
  at: string | null;
  href: string;
}

// What is open now: conditions of jobs and agents first, not history.
export function problems(jobs: Job[], agents: Agent[], nowMs: number): Problem[] {
  const found: Problem[] = [];
  for (const job of jobs) {
    const { phase, reason, detail, progress, committed_at, started_at } = job.status;
    const href = `/jobs/${encodeURIComponent(job.id)}`;
    const add = (tone: Tone, title: string, text: string, at: string | null) =>
      found.push({ key: `${job.id}-${title}`, tone, title: `${job.name} ${title}`, detail: text, at, href });
    if (phase === 'failed' || phase === 'stalled')
      add('bad', phase === 'failed' ? 'has failed' : 'is stalled', detail || words(reason), job.updated_at);
    else if (phase === 'gathering' || phase === 'queued')
      add('warn', 'waits for replicas', detail || words(reason), job.updated_at);
    else if (reason === 'checkpoint_failing')
      add('bad', 'cannot store its checkpoint', detail, job.updated_at);
    else if (phase === 'training') {
      const last = millis(committed_at ?? started_at);
      const rounds = progress.rounds_committed;
      const begun = millis(started_at);
      const usual = last !== null && begun !== null && rounds > 0 ? (last - begun) / 1000 / rounds : null;
      const moved = lastMoved(job);
      const since = moved === null ? null : (nowMs - moved) / 1000;
      if (isLate(since, usual) && rounds > 0)
        add('warn', 'is slow', `no round for ${duration(since)}; they took ${duration(usual)} on average`, committed_at);
    }
  }
  for (const agent of lostAgents(agents, nowMs))
    found.push({
      key: `${agent.id}-lost`, tone: 'bad', title: `${agent.name} is lost`, detail: 'it has not returned', at: agent.updated_at, href: `/agents/${agent.id}`,
    });
  for (const agent of agents) {
    if (agent.state === 'gone') continue;
    if (agent.quarantine)
      found.push({
        key: `${agent.id}-quarantine`,
        tone: 'warn',
        title: `${agent.name} is quarantined`,
        detail: `its contributions were rejected (${words(agent.quarantine.reason)}), ${plural(agent.quarantine.count, 'time')} so far`,
        at: agent.last_seen_at,
        href: `/agents/${agent.id}`,
      });
    const troubles = deviceTroubles(agent);
    if (troubles.length > 0)
      found.push({
        key: `${agent.id}-devices`, tone: 'warn', title: `${agent.name} has devices out of order`, detail: troubles.join(', '), at: agent.last_seen_at, href: `/agents/${agent.id}`,
      });
    if (!isUnheard(agent) && !isSlow(agent)) continue;
    found.push({
      key: agent.id,
      tone: agent.health === 'red' ? 'bad' : 'warn',
      title: `${agent.name} is ${isSlow(agent) ? 'slow' : 'not heard from'}`,
      detail: isSlow(agent) ? agent.health_reason ?? '' : `state ${agent.state}, health ${agent.health}`,
      at: agent.last_seen_at,
      href: `/agents/${agent.id}`,
    });
  }
  return found.sort((a, b) => (millis(b.at) ?? 0) - (millis(a.at) ?? 0));
}
