import { describe, expect, it } from 'vitest';
import type { Agent, ClusterEvent, Contribution, Job, Replica, Round } from './api';
import {
  agentTone, consequence, coverage, done, hasGap, isFailureOf, isLate, isSlow, isUnheard, lastMoved, loneStages, lostAgents, mergeEvents, mergeRounds, oneEach, phaseTone, problems, roundsText, skippedSteps, syncText, timeLeft, timeSplit, tokensTarget, verdictOn, waitingFor, withoutAttemptsOfLosses,
} from './status';

const kAt = '2026-01-01T00:00:00Z';
const at = (second: number) => new Date(Date.parse(kAt) + second * 1000).toISOString();

function contribution(replica: string, state: Contribution['state'], train_s = 8): Contribution {
  return {
    replica, state, agent: replica.replace('rep', 'agt'), reject_reason: null, tokens: 100, steps: 10, train_loss: 1, norm: 1,
    max_abs: 1, nonfinite: 0, weight: 100, clip_factor: 1, digest: null, anchor_digest: null, bytes_sent: 0, bytes_received: 0,
    phases: { train_s, stall_s: 0, wait_s: 1, reduce_s: 1, vote_s: 0, apply_s: 0 },
  };
}

function round(number: number, state: Round['state'], contributions: Contribution[], change: Partial<Round> = {}): Round {
  return {
    round: number, epoch: 0, state, attempt: 1, aborts: 0, abort_reason: null, from_step: 0, to_step: 10, digest: null,
    anchor_digest: null, momentum_digest: null, outer_lr: 0.9, share: 1, compute_utilisation: 1, opened_at: at(number * 10), frozen_at: null, committed_at: state === 'committed' ? at(number * 10 + 10) : null,
    seconds: { train: 9, reduce: 1, vote: 0, apply: 0, total: state === 'committed' ? 10 : null }, tokens: 200, train_loss: 1,
    validation_loss: null, bytes_sent: 0, bytes_received: 0, contributions, ...change,
  };
}

function job(phase: Job['status']['phase'], change: Partial<Job['status']> = {}): Job {
  return {
    id: 'job_1', name: 'a', created_at: kAt, updated_at: kAt,
    spec: { sync: { algorithm: 'diloco', every: 10, balance: 'equal', topology: 'butterfly', codec: 'int8' }, swarm: { stages: 1, min_replicas: 2, max_replicas: 0 }, checkpoint: { every_rounds: 5, keep: 2 } } as unknown as Job['spec'],
    status: {
      phase, desired: 'run', reason: 'waiting_for_replicas', detail: '', train_loss: null, validation_loss: null, validation_round: null,
      bytes_sent: 0, bytes_ddp: null, parameters: null, outer_lr: 0.9, anchor_digest: null, momentum_digest: null, stages: [], epoch: 0, started_at: kAt, committed_at: at(100), finished_at: null,
      progress: { inner_step: 0, inner_steps_total: 0, rounds_committed: 10, rounds_total: 30, tokens: 0, tokens_committed: 2000, tokens_per_second: null, replicas_training: 0 },
      ...change,
    },
  };
}

const replica = (id: string, state: Replica['state'] = 'serving', step: number | null = null) =>
  ({ id, state, stage: 0, agent: id.replace('rep', 'agt'), source: { kind: 'peer' }, live: step === null ? null : { round: 3, inner_step: step } }) as Replica;
const agent = (id: string, health: Agent['health'] = 'green', state: Agent['state'] = 'active') =>
  ({ id, name: id.replace('agt_', 'agent-'), health, state, gone_reason: state === 'gone' ? 'timed_out' : null, last_seen_at: kAt, devices: [] }) as unknown as Agent;

describe('steps by speed', () => {
  const bySpeed = job('training');
  bySpeed.spec = { ...bySpeed.spec, sync: { ...bySpeed.spec.sync, every: '30s', balance: 'speed', topology: 'ring' } };
  it('are a bound for each replica', () => {
    const open = round(3, 'open', [contribution('rep_1', 'training'), contribution('rep_2', 'reported')]);
    const said = (of: Job) => waitingFor(of, open, [replica('rep_1', 'serving', 4), replica('rep_2')], [agent('agt_1'), agent('agt_2')]).on[0]?.doing;
    expect(said(bySpeed)).toBe('trains, step 4 of at most 10');
    expect(said(job('training'))).toBe('trains, step 4 of 10');
  });
  it('are said where the outer step is', () => {
    expect(syncText(bySpeed)).toBe('diloco every 30s, slower replicas take fewer, ring, int8');
    expect(syncText(job('training'))).toBe('diloco every 10 steps, butterfly, int8');
  });
});

describe('steps that were not finite', () => {
  const with_skipped = (skipped: number | null | undefined) => ({ ...contribution('rep_1', 'committed'), skipped });
  it('are summed up over what was reported', () => {
    const waits = { ...contribution('rep_2', 'training'), steps: null, skipped: null };
    const rounds = [round(4, 'open', [with_skipped(2), waits]), round(3, 'committed', [with_skipped(1), contribution('rep_2', 'committed')])];
    expect(skippedSteps(rounds)).toEqual({ skipped: 3, steps: 30, rounds: 2 });
  });
  it('are nothing to speak of while there are none, or nobody counts them', () => {
    expect(skippedSteps([round(3, 'committed', [with_skipped(0), with_skipped(undefined)])])).toBeNull();
    expect(skippedSteps([])).toBeNull();
  });
});

describe('an agent in quarantine', () => {
  it('is a problem as long as it is there', () => {
    const quarantined = (state: Agent['state']) => ({ ...agent('agt_1', 'green', state), quarantine: { until: at(900), reason: 'non_finite', count: 2 } }) as Agent;
    expect(problems([], [quarantined('idle')], Date.parse(at(0))).map((one) => one.title)).toEqual(['agent-1 is quarantined']);
    expect(problems([], [quarantined('gone')], Date.parse(at(0)))).toEqual([]);
  });
});

describe('jobs whose rounds are timed', () => {
  const timed = job('training', {
    progress: { inner_step: 250, inner_steps_total: 1000, rounds_committed: 10, rounds_total: null, tokens: 2000, tokens_committed: 2000, tokens_per_second: 10, replicas_training: 2 },
  });
  it('are as far as their steps', () => {
    expect(done(timed)).toBe(0.25);
    expect(roundsText(timed)).toBe('10');
    expect(tokensTarget(timed)).toBe(8000);
  });
});

describe('waitingFor', () => {
  const replicas = [replica('rep_1', 'serving', 4), replica('rep_2')];
  const agents = [agent('agt_1'), agent('agt_2')];

  it('names the one that has not reported, and how far it is', () => {
    const open = round(3, 'open', [contribution('rep_1', 'training'), contribution('rep_2', 'reported')]);
    const waiting = waitingFor(job('training'), open, replicas, agents);
    expect(waiting.summary).toBe('agent-1 (1 of 2)');
    expect(waiting.on[0]).toMatchObject({ share: 0.4, doing: 'trains, step 4 of 10', tone: 'busy' });
  });
  it('says everybody when nobody has reported', () => {
    const open = round(3, 'open', [contribution('rep_1', 'training'), contribution('rep_2', 'training')]);
    expect(waitingFor(job('training'), open, replicas, agents).summary).toBe('everybody: 2 replicas');
  });
  it('does not wait for those excluded, and names the votes that are missing', () => {
    const voting = round(3, 'voting', [contribution('rep_1', 'voted'), contribution('rep_2', 'member'), contribution('rep_3', 'lost')]);
    expect(waitingFor(job('training'), voting, replicas, agents)).toMatchObject({ summary: 'agent-2 (1 of 2)', on: [{ doing: 'has not voted' }] });
  });
  it('tells that the awaited one is not there', () => {
    const open = round(3, 'open', [contribution('rep_1', 'training'), contribution('rep_2', 'reported')]);
    expect(waitingFor(job('training'), open, replicas, [agent('agt_1', 'red', 'gone'), agent('agt_2')])).toMatchObject({
      tone: 'bad', on: [{ doing: 'is gone: timed out' }],
    });
    expect(waitingFor(job('training'), open, [replica('rep_1', 'failed'), replica('rep_2')], agents).tone).toBe('bad');
  });
  it('goes by the phase when there is no round', () => {
    expect(waitingFor(job('gathering'), undefined, [replica('rep_1', 'loading'), replica('rep_2')], agents)).toMatchObject({
      summary: 'waiting for replicas (1 of at least 2 replicas ready)', on: [{ doing: 'loads the state from peer' }],
    });
    expect(waitingFor(job('completed'), undefined, [], []).tone).toBe('off');
    expect(waitingFor(job('training'), undefined, [], []).summary).toBe('the next round');
  });
});

describe('rounds', () => {
  const committed = (number: number) => round(number, 'committed', [contribution('rep_1', 'committed'), contribution('rep_2', 'committed', 6)]);

  it('replaces a round by its newer copy and keeps the newest first', () => {
    const merged = mergeRounds([round(2, 'open', []), committed(1)], [round(3, 'open', []), committed(2)]);
    expect(merged.map((one) => [one.round, one.state])).toEqual([[3, 'open'], [2, 'committed'], [1, 'committed']]);
  });
  it('forgets what a roll-back took away', () => {
    const fresh = [round(2, 'open', [], { epoch: 1 })];
    expect(mergeRounds([committed(3), committed(2), committed(1)], fresh)).toEqual(fresh);
  });
  it('notices a gap', () => {
    expect(hasGap([committed(3)], [committed(9), committed(8)])).toBe(true);
    expect(hasGap([committed(3)], [committed(4), committed(3)])).toBe(false);
    expect(hasGap([], [committed(4)])).toBe(false);
  });
  it('splits the time of the committed ones', () => {
    const split = timeSplit([round(3, 'open', []), committed(2), committed(1)]);
    expect(split).toEqual({ shares: { compute: 0.7, between: 0, waiting: 0.1, sync: 0.1, rest: expect.closeTo(0.1) }, stages: [], tokensPerSecond: 20, roundSeconds: 10 });
    expect(timeLeft(job('training'), split)).toBe(200);
    expect(timeLeft(job('stalled'), split)).toBeNull();
    expect(timeSplit([])).toEqual({ shares: null, stages: [], tokensPerSecond: null, roundSeconds: null });
  });
  it('says what each stage of a pipeline computes, and what it waits for the others', () => {
    const first = { ...contribution('rep_1', 'committed', 2), stage: 0 };
    const second = { ...contribution('rep_2', 'committed', 8), stage: 1 };
    const helper = { ...contribution('rep_3', 'committed', 0), stage: 1, role: 'reducer' as const };
    const split = timeSplit([round(1, 'committed', [first, second, helper])]);
    expect(split.stages).toEqual([
      { stage: 0, shares: { compute: 0.2, between: 0.6, waiting: 0.1, sync: 0.1, rest: expect.closeTo(0) } },
      { stage: 1, shares: { compute: 0.8, between: 0, waiting: 0.1, sync: 0.1, rest: expect.closeTo(0) } },
    ]);
    expect(split.shares).toMatchObject({ compute: 0.5, between: 0.3 });
  });
  it('takes for late what is several times slower', () => {
    expect(isLate(31, 10)).toBe(true);
    expect(isLate(29, 10)).toBe(false);
    expect(isLate(9, 0.5)).toBe(false);
    expect(isLate(null, 10)).toBe(false);
  });
});

describe('failures and problems', () => {
  const event = (seq: number, second: number): ClusterEvent =>
    ({ seq, at: at(second), severity: 'warning', kind: 'agent_gone', job: null, agent: 'agt_2', replica: null, round: null, message: '' });

  it('tells how it ended', () => {
    const after = round(2, 'committed', [contribution('rep_1', 'committed'), contribution('rep_2', 'lost')], { attempt: 2 });
    const before = round(1, 'committed', [contribution('rep_1', 'committed')]);
    expect(consequence(event(1, 25), [after, before])).toBe('round 2 committed 5 s later by 1 replica, without 1 replica, at attempt 2');
    expect(consequence(event(1, 99), [after, before])).toBe('no round has committed since');
    expect(consequence(event(1, 5), [after, before])).toBe('');
  });
  it('merges events by number, newest first', () => {
    expect(mergeEvents([event(2, 2), event(1, 1)], [event(3, 3), event(2, 2)], 2).map((one) => one.seq)).toEqual([3, 2]);
  });
  it('lists what is open', () => {
    const found = problems([job('failed', { detail: 'it broke' }), job('training'), job('completed')], [agent('agt_1', 'red'), agent('agt_2')], Date.parse(at(500)));
    expect(found.map((one) => one.title).sort()).toEqual(['a has failed', 'a is slow', 'agent-1 is not heard from']);
    expect(problems([job('training')], [agent('agt_1', 'green')], Date.parse(at(105)))).toEqual([]);
  });
  it('a slow agent is heard from', () => {
    const slow = { ...agent('agt_1', 'yellow'), slow_replicas: 1, health_reason: 'rep_4 computes at 0.21 of what was promised' } as Agent;
    expect(problems([], [slow, agent('agt_2', 'yellow')], Date.parse(at(105))).map((one) => `${one.title}: ${one.detail}`).sort()).toEqual([
      'agent-1 is slow: rep_4 computes at 0.21 of what was promised', 'agent-2 is not heard from: state active, health yellow',
    ]);
  });
  it('an agent with a device in trouble is heard from', () => {
    const troubled = { ...agent('agt_1', 'yellow'), late: false, device_troubles: [
      { device: 0, uuid: 'GPU-0', trouble: 'cordoned', reason: 'XID 79' }, { device: 0, uuid: 'GPU-0', trouble: 'lost', reason: '' }, { device: 1, uuid: 'GPU-1', trouble: 'lost', reason: '' },
    ] } as Agent;
    const late = { ...troubled, id: 'agt_2', name: 'agent-2', late: true, slow_replicas: 1, device_troubles: [] } as Agent;
    expect([isUnheard(troubled), isUnheard(late), isSlow(late), agentTone(troubled)]).toEqual([false, true, false, 'warn']);
    expect(problems([], [troubled, late], Date.parse(at(105))).map((one) => `${one.title}: ${one.detail}`).sort()).toEqual([
      'agent-1 has devices out of order: device cordoned, device lost', 'agent-2 is not heard from: state active, health yellow',
    ]);
  });
  it('a job that trains again after a pause is not slow', () => {
    const resumed = { ...job('training'), updated_at: at(490) };
    expect(problems([resumed], [], Date.parse(at(500)))).toEqual([]);
    expect(problems([resumed], [], Date.parse(at(600))).map((one) => one.title)).toEqual(['a is slow']);
    expect(problems([job('paused')], [], Date.parse(at(5000)))).toEqual([]);
    expect(lastMoved(resumed)).toBe(Date.parse(at(490)));
    expect(lastMoved(job('training'))).toBe(Date.parse(at(100)));
    expect(lastMoved(job('queued', { started_at: null, committed_at: null }))).toBe(null);
  });
  it('a checkpoint that cannot be stored is one, whatever the job does meanwhile', () => {
    for (const phase of ['training', 'finalizing'] as const) {
      const failing = job(phase, { reason: 'checkpoint_failing', detail: 'the disk is full' });
      expect(problems([failing], [], Date.parse(at(101)))).toMatchObject([{ tone: 'bad', title: 'a cannot store its checkpoint', detail: 'the disk is full' }]);
    }
  });
  it('takes an unknown word for no good sign', () => {
    expect(phaseTone('transcending')).toBe('warn');
  });
});

describe('an agent that is lost', () => {
  const told = (seq: number, second: number, kind: string, of: string | null = 'agt_2'): ClusterEvent =>
    ({ seq, at: at(second), severity: 'warning', kind, job: null, agent: of, replica: null, round: null, message: `${kind} ${of}` });
  const lost = (id: string, second: number, reason = 'lost') =>
    ({ ...agent(id, 'red', 'gone'), gone_reason: reason, updated_at: at(second) }) as Agent;

  it('is one failure, however many events tell of it', () => {
    const events = [told(4, 28, 'agent_gone'), told(3, 28, 'replica_failed'), told(2, 28, 'replica_failed'), told(1, 20, 'agent_disconnected')];
    expect(oneEach(events)).toEqual([{ ...told(4, 28, 'agent_gone'), at: at(20) }]);
  });
  it('is another one when it is lost again, and so is another agent', () => {
    const events = [told(5, 500, 'agent_disconnected'), told(4, 30, 'agent_gone', 'agt_3'), told(3, 28, 'agent_gone'), told(1, 20, 'agent_disconnected')];
    expect(oneEach(events).map((one) => one.message)).toEqual(['agent_disconnected agt_2', 'agent_gone agt_3', 'agent_gone agt_2']);
  });
  it('does not swallow what has another cause', () => {
    const events = [told(3, 300, 'replica_failed'), told(2, 30, 'round_aborted', null), told(1, 20, 'agent_gone')];
    expect(oneEach(events).map((one) => one.kind)).toEqual(['replica_failed', 'round_aborted', 'agent_gone']);
    expect(oneEach([told(1, 20, 'replica_failed')])).toHaveLength(1);
  });
  it('has replicas that the job gives up a minute later', () => {
    const events = [told(3, 93, 'replica_failed'), told(2, 28, 'replica_absent'), told(1, 28, 'agent_gone')];
    expect(oneEach(events).map((one) => one.kind)).toEqual(['agent_gone']);
  });
  it('is told once with the next attempt of the round that it leaves', () => {
    const attempt = { ...told(2, 30, 'round_attempt', null), job: 'job_1', round: 3 };
    const without = round(3, 'committed', [contribution('rep_1', 'committed'), { ...contribution('rep_2', 'lost'), agent: 'agt_2' }]);
    const kinds = (events: ClusterEvent[], rounds: Round[]) => withoutAttemptsOfLosses(events, rounds).map((one) => one.kind);
    expect(kinds([attempt, told(1, 20, 'agent_gone')], [without])).toEqual(['agent_gone']);
    expect(kinds([attempt, told(1, 20, 'agent_gone', 'agt_3')], [without])).toHaveLength(2); // it was lost for another reason
    expect(kinds([attempt, told(1, 20, 'agent_gone')], [])).toHaveLength(2);
    expect(kinds([told(3, 40, 'agent_gone'), attempt], [without])).toHaveLength(2); // lost later
  });
  it('is a failure of the jobs that it served then', () => {
    const ended = job('completed', { finished_at: at(50) });
    expect(isFailureOf(ended, [replica('rep_2')], told(1, 40, 'agent_gone'))).toBe(true);
    expect(isFailureOf(ended, [replica('rep_2')], told(1, 60, 'agent_gone'))).toBe(false);
    expect(isFailureOf(ended, [replica('rep_3')], told(1, 40, 'agent_gone'))).toBe(false);
    expect(isFailureOf(job('training'), [replica('rep_2')], told(1, 60, 'agent_gone'))).toBe(true);
    expect(isFailureOf(ended, [], { ...told(1, 60, 'checkpoint_failed', null), job: 'job_1' })).toBe(true);
  });
  it('is a problem until it comes back, but not for ever', () => {
    const found = (agents: Agent[], second: number) => problems([], agents, Date.parse(at(second))).map((one) => one.title);
    expect(found([agent('agt_1'), lost('agt_2', 10)], 20)).toEqual(['agent-2 is lost']);
    expect(found([agent('agt_2'), lost('agt_2', 10)], 20)).toEqual([]);
    expect(found([lost('agt_2', 10)], 4000)).toEqual([]);
    expect(found([lost('agt_2', 10, 'left')], 20)).toEqual([]);
    expect(lostAgents([lost('agt_2', 10), lost('agt_2', 15)], Date.parse(at(20)))).toHaveLength(1);
  });
});

describe('a job that fails', () => {
  const told = (seq: number, second: number, kind: string, job = 'job_1', severity: ClusterEvent['severity'] = 'warning'): ClusterEvent =>
    ({ seq, at: at(second), severity, kind, job, agent: kind === 'job_phase' ? null : `agt_${seq}`, replica: null, round: null, message: `${kind} ${job}` });

  it('is one failure with its replicas', () => {
    const failed = told(5, 112, 'job_phase', 'job_1', 'error');
    const replicas = [1, 2, 3, 4].map((seq) => told(seq, 108 + seq, 'replica_failed'));
    expect(oneEach([failed, ...replicas])).toEqual([{ ...failed, at: at(109) }]);
  });
  it('does not take along what failed long before, in another job or with a lost agent', () => {
    const events = [
      told(6, 112, 'job_phase', 'job_1', 'error'), told(5, 111, 'replica_failed', 'job_2'), told(4, 110, 'replica_failed'),
      { ...told(3, 109, 'agent_gone'), job: null, agent: 'agt_4' }, told(2, 20, 'replica_failed'), told(1, 10, 'job_phase'),
    ];
    expect(oneEach(events).map((one) => one.message)).toEqual(['job_phase job_1', 'replica_failed job_2', 'agent_gone job_1', 'replica_failed job_1', 'job_phase job_1']);
  });
});

describe('the verdict on a new job', () => {
  const data = { checked: true, problem: null, remedy: null };
  it('is green only where nothing is noted', () => {
    expect(verdictOn({ data, notes: [] })).toEqual({ tone: 'good', text: 'accepted' });
    expect(verdictOn({})).toEqual({ tone: 'good', text: 'accepted' }); // an older coordinator
    expect(verdictOn({ data, notes: ['data.train is a relative path'] })).toEqual({ tone: 'warn', text: 'accepted, with 1 note' });
  });
  it('is red where the data would be refused', () =>
    expect(verdictOn({ data: { ...data, problem: 'too short' }, notes: ['x'] }).tone).toBe('bad'));
});

describe('a stage that depends on one agent', () => {
  const of = (id: string, stage: number, who: string, state: Replica['state'] = 'serving') => ({ ...replica(id, state), stage, agent: who });
  it('is named', () => {
    const replicas = [of('rep_1', 0, 'agt_1'), of('rep_2', 0, 'agt_2'), of('rep_3', 1, 'agt_2'), of('rep_4', 1, 'agt_1', 'loading'), of('rep_5', 1, 'agt_3', 'failed')];
    expect(loneStages(replicas, [agent('agt_2')])).toEqual(['stage 1 depends on agent-2 alone']);
    expect(loneStages([...replicas, of('rep_6', 1, 'agt_3')], [])).toEqual([]);
  });
  it('is no news where there is one stage', () => expect(loneStages([of('rep_1', 0, 'agt_1')], [])).toEqual([]));
});

describe('coverage', () => {
  it('counts what serves against what is needed', () => {
    expect(coverage(job('training'), [replica('rep_1'), replica('rep_2', 'averaging')])).toEqual({ tone: 'good', text: '2 serve, at least 2 needed' });
    expect(coverage(job('stalled'), [replica('rep_1'), replica('rep_2', 'loading')]).tone).toBe('bad');
  });
  it('of a job that is over is neither good nor bad', () => {
    expect(coverage(job('completed'), [])).toEqual({ tone: 'off', text: 'the job has ended' });
    expect(coverage(job('paused'), [])).toEqual({ tone: 'off', text: 'the job is paused' });
    expect(waitingFor(job('paused'), undefined, [], [])).toEqual({ summary: 'nobody: the job is paused', tone: 'off', on: [] });
  });
  it('goes by the weakest stage', () => {
    const piped = job('training');
    piped.spec.swarm.stages = 2;
    const at = (id: string, stage: number) => ({ ...replica(id), stage });
    expect(coverage(piped, [at('rep_1', 0), at('rep_2', 0), at('rep_3', 1)])).toEqual({ tone: 'bad', text: '3 serve, at least 1 in each stage (2 needed)' });
    expect(coverage(piped, [at('rep_1', 0), at('rep_2', 0)]).text).toBe('2 serve, at least 0 in each stage (2 needed)');
    piped.spec.swarm.stages = 'auto'; // not planned yet
    expect(coverage(piped, [at('rep_1', 0)]).text).toBe('1 serve, at least 2 needed');
  });
});
