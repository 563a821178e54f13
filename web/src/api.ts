// The public REST API as this page uses it: the types that follow from api/openapi.json, one function that asks, with
// a deadline, and one that follows the pages of a list. Every failure is an ApiError with a sentence.

import type * as Api from './api_types';

export type {
  Agent, ApiToken, Audit as Audited, Checkpoint, Contribution, DeviceHistory, DryRun, Event as ClusterEvent, Example, Job, JobProgress as Progress, JobSpec, JobStatus, Join,
  NetworkLink, Placement, Plan, Replica, Round, Reduce, Series, SeriesLine, Space, SpecValue, Verification as Verified, Version,
} from './api_types';
export type Phase = Api.JobStatus['phase'];
export type RoundState = Api.Round['state'];
export type ContributionState = Api.Contribution['state'];
export type FieldProblem = NonNullable<Api.Problem['errors']>[number];

// What is drawn of a job, of which little is known before its model is cut, or from an older coordinator.
type LittleKnown<T, Sure extends keyof T> = Pick<T, Sure> & { [K in Exclude<keyof T, Sure>]: T[K] | null };
export type StageView = LittleKnown<Api.Stage, 'stage'>;
export type TopologyReplica = LittleKnown<Omit<Api.TopologyReplica, 'state'>, 'id' | 'device' | 'stage'> & Pick<Api.Replica, 'state'>;
export type TopologyLink = Pick<Api.TopologyLink, 'from' | 'to' | 'bytes_per_second' | 'round_trip_s'>;
export interface Topology {
  stages: StageView[];
  replicas: TopologyReplica[];
  links: TopologyLink[];
}

// The owner of the job; a coordinator without logins does not report one.
export const ownerOf = (job: Api.Job): string => (job as { owner?: string }).owner ?? '';

interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export const kApiLevel = 1; // the one that this page was written for
export const kSessionPath = '/session'; // where a browser logs in, and asks whether it is

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

// Told when an answer says that nobody is logged in; session.ts then asks whether that is so.
let refusedLogin = (): void => {};
export function onRefusedLogin(tell: () => void): void {
  refusedLogin = tell;
}

const kDeadlineMs = 8000;
const kHashingMs = 600_000; // the server reads every byte of a checkpoint

function unreachable(error: unknown, deadlineMs: number): ApiError {
  const late = error instanceof DOMException && error.name === 'TimeoutError';
  return new ApiError(late ? `no answer within ${deadlineMs / 1000} s` : 'the coordinator cannot be reached', 0);
}

function refusal(path: string, status: number, body: unknown): ApiError {
  if (status === 401 && path !== kSessionPath) refusedLogin();
  const problem = (body ?? {}) as { detail?: string; title?: string; hint?: string; errors?: FieldProblem[] };
  return new ApiError(problem.detail ?? problem.title ?? `the coordinator answered ${status}`, status, problem.hint, problem.errors);
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
  if (response.status === 204) return undefined as T;
  const body: unknown = await response.json().catch(() => null);
  if (response.ok && body !== null) return body as T;
  throw refusal(path, response.status, body);
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
  throw refusal(path, response.status, await response.json().catch(() => null));
}

export const ask = <T>(path: string): Promise<T> => exchange<T>(path, kDeadlineMs, {});

// A command. `toml` is its body; commands without one act on what the path names.
export const command = <T>(path: string, toml?: string): Promise<T> =>
  exchange<T>(path, path.endsWith('/verify') ? kHashingMs : kDeadlineMs, {
    method: 'POST',
    body: toml,
    headers: toml === undefined ? {} : { 'Content-Type': 'application/toml' },
  });

// A change that takes JSON, or nothing.
export const send = <T>(method: 'POST' | 'DELETE', path: string, json?: unknown): Promise<T> =>
  exchange<T>(path, kDeadlineMs, {
    method,
    body: json === undefined ? undefined : JSON.stringify(json),
    headers: json === undefined ? {} : { 'Content-Type': 'application/json' },
  });

export const asApiError = (error: unknown): ApiError => (error instanceof ApiError ? error : new ApiError(String(error), 0));

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
