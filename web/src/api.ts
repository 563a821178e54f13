// The public REST API as this page uses it: the shapes of api/openapi.json, one function that asks, with a
// deadline, and one that follows the pages of a list. Every failure is an ApiError with a sentence.

export type Phase =
  | 'queued' | 'gathering' | 'warming' | 'training' | 'stalled' | 'sealing' | 'paused'
  | 'completed' | 'cancelled' | 'failed';

export interface Progress {
  inner_step: number;
  inner_steps_total: number;
  rounds_committed: number;
  rounds_total: number | null; // null: rounds are timed, sync.every is a duration
  tokens: number;
  tokens_committed: number;
  tokens_per_second: number | null;
  replicas_training: number;
}

export interface JobStatus {
  phase: Phase;
  desired: string;
  reason: string;
  detail: string;
  progress: Progress;
  train_loss: number | null;
  validation_loss: number | null;
  validation_round: number | null;
  bytes_sent: number;
  bytes_ddp: number | null;
  parameters: number | null;
  lineage: number;
  started_at: string | null;
  committed_at: string | null;
  finished_at: string | null;
}

// Every field of a job, by table; the ones that a page reads by name are named.
export type SpecValue = string | number | boolean | null | SpecValue[] | { [key: string]: SpecValue };
export interface JobSpec {
  [table: string]: SpecValue;
  name: string;
  model: { [key: string]: SpecValue; family: string };
  data: { [key: string]: SpecValue; train: string };
  sync: { [key: string]: SpecValue; algorithm: string; every: number | string; codec: string };
  swarm: { [key: string]: SpecValue; stages: number; min_replicas: number };
  checkpoint: { [key: string]: SpecValue; every_rounds: number };
}

export interface Job {
  id: string;
  name: string;
  created_at: string | null;
  updated_at: string | null;
  spec: JobSpec;
  status: JobStatus;
}

export type RoundState = 'open' | 'sealed' | 'reducing' | 'voting' | 'committed' | 'aborted';
export type ContributionState =
  | 'training' | 'reported' | 'member' | 'voted' | 'committed' | 'kept' | 'rejected' | 'late' | 'followed' | 'served' | 'lost' | 'moved';

export interface Contribution {
  replica: string;
  agent: string | null;
  group?: number | null; // absent: the coordinator is older; null: the round does not go in groups, or without it
  role?: 'trainer' | 'reducer';
  stage?: number;
  state: ContributionState;
  reject_reason: string | null;
  tokens: number | null;
  steps: number | null;
  skipped?: number | null; // absent: the coordinator is older; of the steps, those whose loss or gradient was not finite
  train_loss: number | null;
  norm: number | null;
  max_abs: number | null;
  nonfinite: number | null;
  weight: number | null;
  clip_factor: number | null;
  digest: string | null;
  anchor_digest: string | null;
  bytes_sent: number;
  bytes_received: number;
  phases: {
    train_s: number | null;
    wait_s: number | null;
    reduce_s: number | null;
    vote_s: number | null;
    apply_s: number | null;
  };
}

// What is averaged together: a stage, or a group of a round that goes in groups.
export interface RoundStage {
  attempt: number;
  digest: string | null;
  given_up?: boolean; // absent: the coordinator is older
  topology?: string | null; // null: not planned yet
  topology_reason?: string | null;
  entropy_coding?: boolean | null; // absent: the coordinator is older
}

export interface Round {
  round: number;
  lineage: number;
  state: RoundState;
  attempt: number;
  aborts: number;
  abort_reason: string | null;
  from_step: number;
  to_step: number;
  digest: string | null;
  anchor_digest: string | null;
  opened_at: string | null;
  sealed_at: string | null;
  committed_at: string | null;
  seconds: {
    train: number | null;
    reduce: number | null;
    vote: number | null;
    apply: number | null;
    total: number | null;
  };
  tokens: number;
  train_loss: number | null;
  validation_loss: number | null;
  bytes_sent: number;
  bytes_received: number;
  contributions: Contribution[];
  stages?: RoundStage[]; // absent: the coordinator is older
}

export interface Replica {
  id: string;
  job: string;
  agent: string | null;
  device: number;
  stage: number;
  state: 'assigned' | 'loading' | 'serving' | 'averaging' | 'absent' | 'released' | 'failed';
  failure: string | null;
  detail: string;
  source: { kind: string; round: number; donor: string | null; checkpoint: string | null };
  held_round: number | null;
  live: {
    at: string;
    round: number;
    inner_step: number;
    tokens: number;
    train_loss: number | null;
    tokens_per_second: number | null;
  } | null;
  created_at: string | null;
  updated_at: string | null;
}

export interface Checkpoint {
  id: string;
  job: string;
  lineage: number;
  round: number;
  state: 'writing' | 'uploading' | 'stored' | 'failed' | 'deleted';
  final: boolean;
  step: number;
  tokens: number;
  anchor_digest: string | null;
  detail: string;
  sample?: string; // text that the model wrote; empty: none. Absent: the coordinator is older
  bytes: number;
  files: { path: string; size: number; sha256: string }[];
  created_at: string | null;
  updated_at: string | null;
}

export interface Agent {
  id: string;
  name: string;
  version: string;
  host: string;
  incarnation: number;
  state: 'joining' | 'idle' | 'syncing' | 'active' | 'draining' | 'gone';
  gone_reason: string | null;
  role?: 'trainer' | 'reducer'; // absent: the coordinator is older, as below
  cordoned?: boolean;
  quarantine?: { until: string; reason: string; count: number } | null;
  memory_refusals?: { device: number; needed_bytes: number; at: string }[];
  losses?: number;
  availability?: number | null;
  health: 'green' | 'yellow' | 'red';
  last_seen_at: string | null;
  resident_bytes: number | null;
  devices: {
    index: number;
    kind: string;
    name: string;
    memory_bytes: number;
    gflops: number | null;
    bf16: boolean;
  }[];
  labels: Record<string, string>;
  joined_at: string | null;
}

export interface ClusterEvent {
  seq: number;
  at: string;
  severity: 'info' | 'warning' | 'error';
  kind: string;
  job: string | null;
  agent: string | null;
  replica: string | null;
  round: number | null;
  message: string;
}

export interface SeriesLine {
  replica: string | null;
  x: (number | null)[];
  y: (number | null)[];
  y_min: (number | null)[];
  y_max: (number | null)[];
  time?: (number | null)[]; // Unix seconds; absent: the coordinator is older
}

export interface Series {
  job: string;
  name: string;
  series: SeriesLine[];
}

export interface StageView {
  stage: number;
  units: { first: number; last: number } | null;
  layers: number | null;
  parameters: number | null;
  memory_bytes: number | null;
}

// null: not measured, not known, or a job of one stage, which has no traffic of a pipeline.
export interface TopologyReplica {
  id: string;
  agent: string | null;
  agent_name: string | null;
  device: number;
  stage: number;
  state: Replica['state'];
  health: Agent['health'] | null;
  gflops: number | null;
  queued: number | null;
  in_flight: number | null;
  service_s: number | null;
  microbatches_per_second: number | null;
  recomputed: number | null;
  busy: number | null;
}

export interface TopologyLink {
  from: string;
  to: string;
  bytes_per_second: number | null;
  round_trip_s: number | null;
}

// A line between two agents, as it was measured.
export interface NetworkLink {
  from: string;
  to: string;
  reached: boolean;
  round_trip_s: number | null;
  bytes_per_second: number | null;
  age_s: number;
}

export interface Topology {
  stages: StageView[];
  replicas: TopologyReplica[];
  links: TopologyLink[];
}

export interface Example {
  name: string;
  summary: string;
  toml: string;
}

export interface Plan {
  placeable: boolean;
  reason: string;
  detail: string;
  stages: StageView[];
  placement: { agent: string; agent_name: string; device: number; stage: number }[];
  forecast: { tokens_per_second: number | null; step_s: number | null; round_s: number | null; bubble: number | null };
  devices: { free: number; fitting: number; refused: number; resting: number; wanted: number; missing: number };
  memory_needed_bytes: number;
  memory_largest_bytes: number;
}

export interface DryRun {
  spec: JobSpec;
  estimate: { parameters: number; training_memory_bytes: number; rounds: number };
  plan?: Plan; // absent: the coordinator is older
}

export interface Verified {
  checkpoint: string;
  ok: boolean;
  files: { path: string; size: number; sha256: string; ok: boolean; problem: string | null }[];
}

export interface Join {
  grpc: string;
  token_file: string;
}

export interface FieldProblem {
  pointer: string;
  detail: string;
}

export interface Version {
  version: string;
  api_level: number;
  min_api_level: number;
  boot_epoch: number;
}

interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export const kApiLevel = 1; // the one that this page was written for

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number, // 0: no answer at all
    readonly hint = '',
    readonly fields: FieldProblem[] = [],
  ) {
    super(message);
  }
}

const kDeadlineMs = 8000;
const kHashingMs = 600_000; // the server reads every byte of a checkpoint

function unreachable(error: unknown, deadlineMs: number): ApiError {
  const late = error instanceof DOMException && error.name === 'TimeoutError';
  return new ApiError(late ? `no answer within ${deadlineMs / 1000} s` : 'the coordinator cannot be reached', 0);
}

// What a status says beyond its problem document, where people ask for it most.
function refusal(status: number, body: unknown): ApiError {
  const problem = (body ?? {}) as { detail?: string; title?: string; hint?: string; errors?: FieldProblem[] };
  const plain = status === 401 ? 'the coordinator asks for a login; this page has none' : `answer ${status}`;
  return new ApiError(problem.detail ?? problem.title ?? plain, status, problem.hint, problem.errors);
}

async function exchange<T>(path: string, deadlineMs: number, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      ...init,
      headers: { Accept: 'application/json', ...init.headers },
      signal: AbortSignal.timeout(deadlineMs),
    });
  } catch (error) {
    throw unreachable(error, deadlineMs);
  }
  const body: unknown = await response.json().catch(() => null);
  if (response.ok && body !== null) return body as T;
  throw refusal(response.status, body);
}

// A text as it is stored.
export async function askText(path: string): Promise<string> {
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, { signal: AbortSignal.timeout(kDeadlineMs) });
  } catch (error) {
    throw unreachable(error, kDeadlineMs);
  }
  if (response.ok) return response.text();
  throw refusal(response.status, await response.json().catch(() => null));
}

export const ask = <T>(path: string): Promise<T> => exchange<T>(path, kDeadlineMs, {});

// A command. `toml` is its body; commands without one act on what the path names.
export const command = <T>(path: string, toml?: string): Promise<T> =>
  exchange<T>(path, path.endsWith('/verify') ? kHashingMs : kDeadlineMs, {
    method: 'POST',
    body: toml,
    headers: toml === undefined ? {} : { 'Content-Type': 'application/toml' },
  });

export function query(values: Record<string, string | number | undefined | null>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values))
    if (value !== undefined && value !== null && value !== '') search.set(key, String(value));
  const text = search.toString();
  return text === '' ? '' : `?${text}`;
}

// Whole lists that are small by nature (jobs, agents, replicas); `most` bounds the pages.
export async function askAll<T>(
  path: string,
  values: Record<string, string | number | undefined> = {},
  most = 5,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < most; ++page) {
    const answer: Page<T> = await ask<Page<T>>(path + query({ limit: 500, ...values, cursor }));
    items.push(...answer.items);
    cursor = answer.next_cursor;
    if (cursor === null) break;
  }
  return items;
}

export async function askSome<T>(path: string, values: Record<string, string | number | undefined>): Promise<T[]> {
  return (await ask<Page<T>>(path + query(values))).items;
}
