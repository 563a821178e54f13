// Why a job is placed as it is: its placement as the coordinator shows it, the line of each agent as plans take it, and
// what keeps an agent from being well. Pure functions from answers to verdicts and sentences.
import type { Agent, NetworkLink, Placement, Plan } from './api';
import { bytes, duration, lineRate, percent, plural, short, words } from './format';
import type { Tone } from './status';

export type Move = NonNullable<Placement['move']>; // considered last

// Where the speeds of a forecast come from; an older coordinator goes by matrix products only.
export function speedsText(forecast: Plan['forecast']): string {
  if (forecast.speeds_assumed === 0) return 'as its devices measured the model';
  return forecast.speeds_assumed === undefined ? 'expected, at most' : `at most: ${plural(forecast.speeds_assumed, 'device')} not measured with the model`;
}

export interface Said {
  tone: Tone;
  text: string;
}

// What limits a plan; null: nothing is expected of it.
export function limitOf(forecast: Plan['forecast']): Said | null {
  const { line, network } = forecast;
  if (line) return { tone: 'warn', text: `The line of ${line.agents.join(', ')} (${lineRate(line.bytes_per_second)}) limits it: ${percent(network)} of the devices’ speed comes through.` };
  if (forecast.tokens_per_second === null) return null;
  return { tone: 'good', text: `Its devices limit it, not their lines${network == null ? '' : `: ${percent(network)} of their speed comes through`}.` };
}

export function moveText(move: Move): string {
  const who = `${move.replica} (${move.agent_name})`;
  const gain = `${short(move.tokens_per_second_gained)} tokens/s`;
  const fetch = `${bytes(move.download_bytes)} at ${lineRate(move.bytes_per_second)} take ${duration(move.takes_s)}`;
  const pays = `it pays after ${duration(move.payback_s)} of at most ${duration(move.bound_s)}`;
  if (move.verdict === 'moves') return `${who} moved from stage ${move.from_stage} to ${move.to_stage}, which gains ${gain}: ${fetch}, and ${pays}.`;
  const why = move.payback_s <= move.bound_s ? 'too little for a move' : `but ${fetch}, and ${pays}`;
  return `${who} stays in stage ${move.from_stage}: in stage ${move.to_stage} it would gain ${gain}, ${why} (${words(move.verdict)}).`;
}

export function balanceOf(balance: Omit<NonNullable<Placement['balance']>, 'at'>): Said {
  const rates = `stage ${balance.weakest_stage} makes ${short(balance.weakest_tokens_per_second)} tokens/s, the mean is ${short(balance.mean_tokens_per_second)}`;
  if (balance.verdict === 'balanced') return { tone: 'good', text: `The stages are balanced: ${rates}.` };
  return { tone: 'warn', text: `The stages are not balanced (${words(balance.verdict)}): ${rates}${balance.reason === '' ? '' : `; ${balance.reason}`}.` };
}

const kBetter = 1.2; // times as fast: worth to be said, as the coordinator has it

export function anewText({ tokens_per_second_now, tokens_per_second_anew }: Omit<NonNullable<Placement['plan']>, 'at'>): Said {
  const better = tokens_per_second_anew > kBetter * tokens_per_second_now;
  return { tone: better ? 'warn' : 'good', text: `Placed anew it should make ${short(tokens_per_second_anew)} tokens/s, as it is ${short(tokens_per_second_now)}.` };
}

const kFreshS = 1800; // what was measured earlier counts for nothing
const kAssumed = 12.5e6; // bytes/s of a line that nobody has measured

export interface AgentLine {
  bytes_per_second: number; // in its slower direction
  known: 'measured' | 'at least, by traffic' | 'assumed';
  age_s: number | null; // of the measurement; of an assumed line, of one that is too old
}

const kUnmeasured: AgentLine = { bytes_per_second: kAssumed, known: 'assumed', age_s: null };

// The line of each agent, as the coordinator takes it for plans: in each direction the best that was measured, because
// each of its peers may have a slower line of its own.
export function agentLines(links: NetworkLink[]): (agent: string) => AgentLine {
  const up = new Map<string, NetworkLink>(), down = new Map<string, NetworkLink>(), newest = new Map<string, number>();
  const raise = (best: Map<string, NetworkLink>, agent: string, link: NetworkLink) => {
    newest.set(agent, Math.min(link.age_s, newest.get(agent) ?? Infinity));
    if (link.age_s <= kFreshS && link.bytes_per_second! > (best.get(agent)?.bytes_per_second ?? 0)) best.set(agent, link);
  };
  for (const link of links) {
    if ((link.bytes_per_second ?? 0) <= 0) continue;
    raise(up, link.from, link);
    raise(down, link.to, link);
  }
  return (agent) => {
    const [slower] = [up.get(agent), down.get(agent)].filter((one) => one !== undefined).sort((a, b) => a.bytes_per_second! - b.bytes_per_second!);
    if (slower === undefined) return { ...kUnmeasured, age_s: newest.get(agent) ?? null };
    const rate = slower.bytes_per_second!;
    if (slower.at_least !== true) return { bytes_per_second: rate, known: 'measured', age_s: slower.age_s };
    return { bytes_per_second: Math.max(kAssumed, rate), known: 'at least, by traffic', age_s: slower.age_s };
  };
}

// What keeps an agent or a device of it from being well, as the coordinator says; empty: nothing that is known.
export const whyUnwell = (agent: Agent): string => agent.health_reason ?? '';
