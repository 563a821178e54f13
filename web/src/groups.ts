// The groups of a round that averages within groups only (moshpit, gossip): who was with whom, and what became of
// it. Averages and parameters are equal within a group, never across them.
import type { Contribution, Round, Reduce } from './api';
import type { Tone } from './status';
import { plural } from './format';

export interface Group {
  index: number;
  members: Contribution[];
  tone: Tone;
  text: string; // what became of it
  digest: string | null; // of its average
}

export const inGroups = (round: Round): boolean => round.contributions.some((one) => typeof one.group === 'number');

// Empty: the round does not go in groups, or they are not formed yet.
export function groupsOf(round: Round): Group[] {
  const members = new Map<number, Contribution[]>();
  for (const one of round.contributions) {
    if (typeof one.group === 'number') members.set(one.group, [...(members.get(one.group) ?? []), one]);
  }
  return [...members].sort(([a], [b]) => a - b).map(([index, list]) => ({ index, members: list, ...outcome(round, round.reduces?.[index], list) }));
}

// Members of the round in no group: lost before or while they averaged, or without a part.
export const inNoGroup = (round: Round): Contribution[] =>
  inGroups(round) ? round.contributions.filter((one) => typeof one.group !== 'number') : [];

// How the values of a round traveled and why so; several where its stages differ.
export const topologyTexts = (round: Round): string[] => [
  ...new Set((round.reduces ?? []).filter((one) => one.topology != null).map((one) => `${one.topology}: ${one.topology_reason}${one.entropy_coding === true ? '; entropy coded' : ''}`)),
];

function outcome(round: Round, reduce: Reduce | undefined, members: Contribution[]): Pick<Group, 'tone' | 'text' | 'digest'> {
  const tries = reduce === undefined ? '' : ` after ${plural(reduce.attempt, 'attempt')}`;
  if (reduce?.given_up) return { tone: 'warn', text: `gave up${tries}; it keeps what it trained for its next round`, digest: null };
  if (round.state === 'aborted') return { tone: 'bad', text: 'aborted with the round', digest: null };
  if (round.state !== 'committed') return { tone: 'busy', text: round.state === 'voting' ? 'votes' : 'averages', digest: null };
  const digest = reduce?.digest ?? null;
  return members.length === 1 ? { tone: 'good', text: 'alone in this round', digest } : { tone: 'good', text: `averaged${reduce !== undefined && reduce.attempt > 1 ? tries : ''}`, digest };
}
