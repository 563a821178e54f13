import { describe, expect, it } from 'vitest';
import type { Contribution, Round, Reduce } from './api';
import { groupsOf, inGroups, inNoGroup, topologyTexts } from './groups';

const member = (replica: string, group: number | null): Contribution => ({
  replica, group, state: 'committed', agent: 'agt_1', reject_reason: null, tokens: 10, steps: 1, train_loss: 2, norm: 1, max_abs: 1, nonfinite: 0,
  weight: 1, clip_factor: 1, digest: null, anchor_digest: null, bytes_sent: 4, bytes_received: 4,
  phases: { train_s: 1, stall_s: 0, wait_s: 0, reduce_s: 1, vote_s: 0, apply_s: 0 },
});

const stage = (attempt: number, digest: string | null, given_up = false): Reduce => ({ attempt, digest, given_up, anchor_digest: null, momentum_digest: null });

const round = (state: Round['state'], contributions: Contribution[], reduces?: Reduce[]): Round => ({
  round: 3, epoch: 0, state, attempt: 1, aborts: 0, abort_reason: null, from_step: 0, to_step: 50,
  digest: null, anchor_digest: null, momentum_digest: null, outer_lr: 0.9, share: 1, compute_utilisation: 1, opened_at: null, frozen_at: null, committed_at: null,
  seconds: { train: null, reduce: 0.5, vote: null, apply: null, total: 1 }, tokens: 100, train_loss: 2, validation_loss: null,
  bytes_sent: 0, bytes_received: 0, contributions, reduces,
});

const kMembers = [member('rep_1', 1), member('rep_2', 0), member('rep_3', 1), member('rep_4', 0), member('rep_5', null)];

describe('groups of a round', () => {
  it('say who was with whom, and who was with nobody', () => {
    const committed = round('committed', kMembers, [stage(1, 'aa'), stage(2, 'bb')]);
    const groups = groupsOf(committed);
    expect(groups.map((one) => one.members.map((part) => part.replica))).toEqual([['rep_2', 'rep_4'], ['rep_1', 'rep_3']]);
    expect(groups.map((one) => one.text)).toEqual(['averaged', 'averaged after 2 attempts']);
    expect(groups.map((one) => one.digest)).toEqual(['aa', 'bb']);
    expect(inNoGroup(committed).map((one) => one.replica)).toEqual(['rep_5']);
  });
  it('say which one gave up', () => {
    const [kept] = groupsOf(round('committed', kMembers, [stage(3, null, true), stage(1, 'bb')]));
    expect(kept!.tone).toBe('warn');
    expect(kept!.text).toContain('gave up after 3 attempts');
  });
  it('are busy while they average', () => expect(groupsOf(round('reducing', kMembers, [stage(1, null), stage(1, null)])).map((one) => one.tone)).toEqual(['busy', 'busy']));
  it('may have one member', () => expect(groupsOf(round('committed', [member('rep_1', 0)], [stage(1, 'aa')]))[0]!.text).toBe('alone in this round'));
  it('are none where everybody averages with everybody', () => {
    const whole = round('committed', [member('rep_1', null), member('rep_2', null)], [stage(1, 'aa')]);
    expect([inGroups(whole), groupsOf(whole).length, inNoGroup(whole).length]).toEqual([false, 0, 0]);
  });
});

describe('the topology of a round', () => {
  it('is told once with its reason', () => {
    const ring: Reduce = { ...stage(1, 'aa'), topology: 'ring', topology_reason: 'few streams' };
    const open = { ...stage(0, null), topology: null, topology_reason: null };
    expect(topologyTexts(round('committed', kMembers, [ring, ring, open]))).toEqual(['ring: few streams']);
    expect(topologyTexts(round('committed', kMembers, [{ ...ring, entropy_coding: true }]))).toEqual(['ring: few streams; entropy coded']);
    expect(topologyTexts(round('committed', kMembers, [stage(1, 'aa')]))).toEqual([]);
    expect(topologyTexts(round('committed', kMembers))).toEqual([]);
  });
});
