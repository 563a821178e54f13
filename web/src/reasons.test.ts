import { describe, expect, it } from 'vitest';
import type { Agent, NetworkLink, Plan } from './api';
import { agentLines, anewText, balanceOf, limitOf, moveText, speedsText, whyUnwell, type Move } from './reasons';

const link = (from: string, to: string, bytes_per_second: number | null, age_s: number, at_least = false): NetworkLink =>
  ({ from, to, reached: true, round_trip_s: null, bytes_per_second, at_least, measured_at: '', age_s });

describe('the line of an agent', () => {
  it('is its slower direction, each by its best peer', () => {
    const line = agentLines([link('a', 'b', 4e6, 60), link('a', 'c', 9e6, 20), link('b', 'a', 2e6, 90), link('c', 'a', 1e6, 5)]);
    expect(line('a')).toEqual({ bytes_per_second: 2e6, known: 'measured', age_s: 90 });
    expect(line('c')).toEqual({ bytes_per_second: 1e6, known: 'measured', age_s: 5 });
  });
  it('is assumed when nobody has measured it within half an hour', () => {
    const line = agentLines([link('a', 'b', 4e6, 1801), link('b', 'a', null, 3)]);
    expect(line('a')).toEqual({ bytes_per_second: 12.5e6, known: 'assumed', age_s: 1801 });
    expect(line('z')).toEqual({ bytes_per_second: 12.5e6, known: 'assumed', age_s: null });
  });
  it('is no less than assumed where only traffic has shown it', () => {
    expect(agentLines([link('a', 'b', 4e6, 7, true)])('a')).toEqual({ bytes_per_second: 12.5e6, known: 'at least, by traffic', age_s: 7 });
    expect(agentLines([link('a', 'b', 4e7, 7, true)])('a').bytes_per_second).toBe(4e7);
  });
});

describe('what limits a plan', () => {
  const forecast: Plan['forecast'] = { tokens_per_second: 900, step_s: 1, round_s: 10, bubble: 0, network: 0.212, line: { agents: ['far', 'near'], bytes_per_second: 1.25e6 } };
  it('is a line, or the devices, or nothing that is known', () => {
    expect(limitOf(forecast)).toEqual({ tone: 'warn', text: 'The line of far, near (10 Mbit/s) limits it: 21 % of the devices’ speed comes through.' });
    expect(limitOf({ ...forecast, line: null, network: 1 })).toEqual({ tone: 'good', text: 'Its devices limit it, not their lines: 100 % of their speed comes through.' });
    expect(limitOf({ ...forecast, line: undefined, network: undefined })!.text).toBe('Its devices limit it, not their lines.');
    expect(limitOf({ ...forecast, line: null, tokens_per_second: null })).toBeNull();
  });
});

describe('where the speeds of a forecast come from', () => {
  it('is said as far as the coordinator says it', () => {
    const forecast = { tokens_per_second: 900 } as Plan['forecast'];
    expect([undefined, 0, 1].map((speeds_assumed) => speedsText({ ...forecast, speeds_assumed }))).toEqual([
      'expected, at most', 'as its devices measured the model', 'at most: 1 device not measured with the model']);
  });
});

describe('the move that was considered last', () => {
  const move: Move = {
    at: '2026-01-01T00:00:00Z', replica: 'rep_11', agent: 'agt_1', agent_name: 'agent-1', from_stage: 0, to_stage: 1, tokens_per_second_gained: 200, download_bytes: 1.6e9,
    bytes_per_second: 625_000, takes_s: 2565, payback_s: 5130, bound_s: 1800, verdict: 'does_not_pay', reason: '',
  };
  it('is one sentence with its figures', () => {
    expect(moveText(move)).toBe(
      'rep_11 (agent-1) stays in stage 0: in stage 1 it would gain 200 tokens/s, but 1.60 GB at 5 Mbit/s take 42 min 45 s, and it pays after 1 h 25 min of at most 30 min (does not pay).');
    expect(moveText({ ...move, payback_s: 60 })).toBe('rep_11 (agent-1) stays in stage 0: in stage 1 it would gain 200 tokens/s, too little for a move (does not pay).');
    expect(moveText({ ...move, bytes_per_second: 125e6, takes_s: 18, payback_s: 36, verdict: 'moves' })).toBe(
      'rep_11 (agent-1) moved from stage 0 to 1, which gains 200 tokens/s: 1.60 GB at 1 Gbit/s take 18 s, and it pays after 36 s of at most 30 min.');
  });
});

describe('the balance of stages, and another placement', () => {
  it('are good only when nothing is to be gained', () => {
    const balance = { verdict: 'no_gain' as const, weakest_stage: 1, weakest_tokens_per_second: 300, mean_tokens_per_second: 500, reason: 'stage 1 is the weakest, and no replica would help it' };
    expect(balanceOf(balance)).toEqual({ tone: 'warn', text: 'The stages are not balanced (no gain): stage 1 makes 300 tokens/s, the mean is 500; stage 1 is the weakest, and no replica would help it.' });
    expect(balanceOf({ ...balance, verdict: 'balanced', reason: '' }).tone).toBe('good');
    expect(anewText({ tokens_per_second_now: 1000, tokens_per_second_anew: 1300 })).toEqual({ tone: 'warn', text: 'Placed anew it should make 1.30 k tokens/s, as it is 1 k.' });
    expect(anewText({ tokens_per_second_now: 1000, tokens_per_second_anew: 1100 }).tone).toBe('good');
  });
});

describe('why an agent is not well', () => {
  const agent = {
    state: 'active', health: 'yellow', slow_replicas: 1, health_reason: 'rep_5 is slow; device 1 is cordoned: XID 79', last_seen_at: null, devices: [],
  } as unknown as Agent;
  it('is what the coordinator says', () => {
    expect(whyUnwell(agent)).toBe('rep_5 is slow; device 1 is cordoned: XID 79');
    expect(whyUnwell({ ...agent, health: 'green', health_reason: '' } as Agent)).toBe('');
  });
});
