import { describe, expect, it } from 'vitest';
import type { Contribution, Round } from './api';
import { change, measures, pairs, weightShare } from './round_pairs';

const contribution = (replica: string, state: Contribution['state'], weight: number | null): Contribution => ({
  replica, state, weight, agent: 'agt_1', reject_reason: null, tokens: 10, steps: 1, train_loss: 2, norm: 1, max_abs: 1, nonfinite: 0,
  clip_factor: 1, digest: null, anchor_digest: null, bytes_sent: 4, bytes_received: 4,
  phases: { train_s: 1, stall_s: 0, wait_s: 0, reduce_s: 1, vote_s: 0, apply_s: 0 },
});

const round = (number: number, total: number, contributions: Contribution[]): Round => ({
  round: number, epoch: 0, state: 'committed', attempt: 1, aborts: 0, abort_reason: null, from_step: 0, to_step: 50,
  digest: '12345678abcdef', anchor_digest: null, momentum_digest: null, outer_lr: 0.9, share: 1, compute_utilisation: 1, opened_at: null, frozen_at: null, committed_at: null,
  seconds: { train: null, reduce: 0.5, vote: null, apply: null, total }, tokens: 100, train_loss: 2, validation_loss: null,
  bytes_sent: 0, bytes_received: 0, contributions,
});

const first = round(3, 10, [contribution('rep_2', 'committed', 30), contribution('rep_10', 'committed', 10)]);
const second = round(4, 12, [contribution('rep_2', 'committed', 30), contribution('rep_11', 'lost', null)]);

describe('change', () => {
  it('is relative', () => expect(change(10, 12)).toBe('+20 %'));
  it('has a digit where it is small', () => expect(change(100, 99)).toBe('−1.0 %'));
  it('is absolute from nothing', () => expect(change(0, 3)).toBe('+3'));
  it('is silent about what is missing or the same', () => {
    expect(change(null, 3)).toBe('');
    expect(change(2, 2)).toBe('');
    expect(change(Number.NaN, 2)).toBe('');
  });
});

describe('two rounds', () => {
  it('have their measures side by side', () => {
    const found = new Map(measures(first, second).map((one) => [one.name, one]));
    expect(found.get('Took')).toEqual({ name: 'Took', values: ['10 s', '12 s'], change: '+20 %' });
    expect(found.get('Members')!.values).toEqual(['2', '1']);
    expect(found.get('Lost')!.values).toEqual(['0', '1']);
    expect(found.get('Average')!.values[0]).toBe('12345678');
  });
  it('pair their contributions by replica, in the order of their numbers', () => {
    const found = pairs(first, second);
    expect(found.map((one) => one.replica)).toEqual(['rep_2', 'rep_10', 'rep_11']);
    expect(found[1]!.both.map((one) => one !== undefined)).toEqual([true, false]);
    expect(found[2]!.both.map((one) => one?.state)).toEqual([undefined, 'lost']);
  });
  it('show weights as shares', () => {
    expect(weightShare(first.contributions[0], first)).toBe(0.75);
    expect(weightShare(second.contributions[1], second)).toBe(null);
    expect(weightShare(undefined, second)).toBe(null);
  });
});
