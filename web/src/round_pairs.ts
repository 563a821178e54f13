// Two rounds beside each other: every measure of both with the change from one to the other, and their
// contributions paired by replica, so that who was there only once is seen.
import type { Contribution, Round } from './api';
import { bytes, duration, finite, kNone, loss, number, words } from './format';

export interface Measure {
  name: string;
  values: [string, string];
  change: string; // empty: not a number, or the same
}

type Value = number | null;

const kMeasures: [string, (round: Round) => Value, (value: Value) => string][] = [
  ['Took', (one) => one.seconds.total, duration],
  ['Training', (one) => one.seconds.train, duration],
  ['Averaging', (one) => one.seconds.reduce, duration],
  ['Voting', (one) => one.seconds.vote, duration],
  ['Outer step', (one) => one.seconds.apply, duration],
  ['Steps', (one) => one.to_step - one.from_step, number],
  ['Tokens', (one) => one.tokens, number],
  ['Training loss', (one) => one.train_loss, loss],
  ['Validation loss', (one) => one.validation_loss, loss],
  ['Sent', (one) => one.bytes_sent, bytes],
  ['Received', (one) => one.bytes_received, bytes],
  ['Members', (one) => one.contributions.filter(isMember).length, number],
  ['Late', (one) => one.contributions.filter((part) => part.state === 'late').length, number],
  ['Rejected', (one) => one.contributions.filter((part) => part.state === 'rejected').length, number],
  ['Lost', (one) => one.contributions.filter((part) => part.state === 'lost').length, number],
  ['Attempts', (one) => one.attempt, number],
  ['Aborts', (one) => one.aborts, number],
];

export const isMember = (one: Contribution): boolean => one.state === 'member' || one.state === 'voted' || one.state === 'committed' || one.state === 'kept';

// In percent where the first is not zero, so that a second and a gigabyte can be read alike.
export function change(from: Value, to: Value): string {
  if (!finite(from) || !finite(to) || from === to) return '';
  const sign = to > from ? '+' : '−';
  if (from === 0) return `${sign}${number(Math.abs(to))}`;
  const share = Math.abs(to - from) / Math.abs(from);
  return `${sign}${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export function measures(first: Round, second: Round): Measure[] {
  const counted = kMeasures.map(([name, of, show]): Measure => {
    const from = of(first), to = of(second);
    return { name, values: [show(from), show(to)], change: change(from, to) };
  });
  const said = (name: string, of: (round: Round) => string): Measure => ({ name, values: [of(first), of(second)], change: '' });
  return [
    said('State', (one) => words(one.state)),
    ...counted,
    said('Aborted because', (one) => (one.abort_reason === null ? kNone : words(one.abort_reason))),
    said('Average', (one) => one.digest?.slice(0, 8) ?? kNone),
    said('Parameters', (one) => one.anchor_digest?.slice(0, 8) ?? kNone),
  ];
}

export interface Pair {
  replica: string;
  agent: string | null;
  both: [Contribution | undefined, Contribution | undefined];
}

const serial = (replica: string) => Number(/\d+$/.exec(replica)?.[0] ?? 0);

export function pairs(first: Round, second: Round): Pair[] {
  const found = new Map<string, Pair>();
  [first, second].forEach((round, i) => {
    for (const one of round.contributions) {
      const pair = found.get(one.replica) ?? { replica: one.replica, agent: one.agent, both: [undefined, undefined] };
      pair.both[i] = one;
      found.set(one.replica, pair);
    }
  });
  return [...found.values()].sort((a, b) => serial(a.replica) - serial(b.replica));
}

// The share of the average that a contribution is: weights are tokens, which mean little alone.
export function weightShare(one: Contribution | undefined, round: Round): Value {
  if (one === undefined || !finite(one.weight)) return null;
  const all = round.contributions.reduce((sum, part) => sum + (part.weight ?? 0), 0);
  return all > 0 ? one.weight / all : null;
}
