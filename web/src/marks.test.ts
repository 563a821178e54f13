import { describe, expect, it } from 'vitest';
import type { Checkpoint, ClusterEvent } from './api';
import { marksOf } from './marks';

const event = (at: string, severity: ClusterEvent['severity'] = 'warning') => ({ at, severity, message: 'lost' }) as ClusterEvent;
const second = (n: number) => new Date(n * 1000).toISOString();
const loss = { x: [100, 200, 400], y: [3, 2, 1], time: [10, 20, 60] };

describe('marks', () => {
  it('lie where the tokens of their time are, between points too', () =>
    expect(marksOf([event(second(20)), event(second(40), 'error')], [], loss)).toEqual([
      { x: 200, text: 'lost', tone: 'warn' },
      { x: 300, text: 'lost', tone: 'bad' },
    ]));
  it('of checkpoints need no time', () =>
    expect(marksOf([], [{ id: 'ckpt_1', state: 'stored', tokens: 150 }] as Checkpoint[], undefined)).toEqual([{ x: 150, text: 'ckpt_1', tone: 'good' }]));
  it('are left out where the coordinator gives no times', () => expect(marksOf([event(second(20))], [], { x: [1], y: [1] })).toEqual([]));
});
