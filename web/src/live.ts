// What keeps the page true: one event stream per tab, and resources that are asked for again when an event
// concerns them. The stream goes on after the last event seen; when it was lost, everything is loaded
// anew. `staleSince` says since when the page may not be true; it is never cleared by anything but an answer.
import { signal } from '@preact/signals';
import { ask, ApiError, type ClusterEvent, type Version } from './api';

export const now = signal(Date.now());
export const staleSince = signal<number | null>(null);
export const version = signal<Version | null>(null);
export const outdated = signal(false); // the coordinator is another version than the page was loaded from

// Names of the stream's events: coordinator/core/event_kinds.h.
const kKinds = ['coordinator_started', 'agent_joined', 'agent_returned', 'agent_disconnected', 'agent_gone',
  'agent_refused', 'job_submitted', 'job_phase', 'job_rolled_back', 'replica_assigned', 'replica_serving',
  'replica_failed', 'round_sealed', 'round_attempt', 'round_committed', 'round_aborted', 'round_stragglers',
  'evaluation', 'checkpoint_stored', 'checkpoint_failed', 'checkpoint_deleted'];

const kSlowMs = 4000; // values without events (speed, steps) are asked for again this often
const kRetryMs = [1000, 2000, 4000, 8000];

// Questions whose last answer failed; the page is stale as long as there is one.
const failing = new Set<object>();

function clearStale(): void {
  if (!lost && failing.size === 0 && source?.readyState === EventSource.OPEN) staleSince.value = null;
}

type Listener = (event: ClusterEvent | 'everything') => void;
const listeners = new Set<Listener>();

let source: EventSource | null = null;
let lastSeq: number | null = null;
let retries = 0;
let lost = false;
let retryTimer = 0;

const tell = (what: ClusterEvent | 'everything') => {
  for (const listener of [...listeners]) listener(what);
};

export function markStale(): void {
  staleSince.value ??= Date.now();
}

async function loadVersion(): Promise<void> {
  try {
    const fresh = await ask<Version>('/version');
    if (version.value !== null && version.value.version !== fresh.version) outdated.value = true;
    version.value = fresh;
  } catch {
    markStale();
  }
}

function onEvent(message: MessageEvent<string>): void {
  let event: ClusterEvent;
  try {
    event = JSON.parse(message.data) as ClusterEvent;
  } catch {
    return;
  }
  if (typeof event.seq === 'number') lastSeq = event.seq;
  tell(event.kind === 'reset' ? 'everything' : event);
}

function onOpen(): void {
  retries = 0;
  if (!lost) return;
  lost = false;
  void loadVersion();
  tell('everything');
}

function onError(): void {
  lost = true;
  markStale();
  if (source?.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
  source = null;
  clearTimeout(retryTimer);
  retryTimer = window.setTimeout(connect, kRetryMs[Math.min(retries++, kRetryMs.length - 1)]);
}

function connect(): void {
  if (source !== null || document.hidden) return;
  const opened = new EventSource(`/api/v1/events/stream${lastSeq === null ? '' : `?from=${lastSeq}`}`);
  source = opened;
  opened.onopen = onOpen;
  opened.onerror = onError;
  opened.onmessage = onEvent;
  for (const kind of [...kKinds, 'reset']) opened.addEventListener(kind, onEvent as EventListener);
}

// A hidden tab holds no connection: browsers allow six per origin over all tabs.
function onVisibility(): void {
  if (document.hidden) {
    source?.close();
    source = null;
    lost = true;
    return;
  }
  connect();
  tell('everything');
}

export function startLive(): void {
  void loadVersion();
  connect();
  document.addEventListener('visibilitychange', onVisibility);
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
}

export interface Resource<T> {
  value: T | undefined;
  error: ApiError | null;
}

export interface Watch<T> {
  load: (known: T | undefined, whole: boolean) => Promise<T>;
  concerns: (event: ClusterEvent) => boolean;
  everyMs?: number; // at most this often because of events
  slowMs?: number;
}

// Loads, and loads again when told; gives the function that ends it. An answer that fails leaves the old
// value standing and marks the page stale.
export function watch<T>(spec: Watch<T>, show: (resource: Resource<T>) => void): () => void {
  let value: T | undefined;
  let ended = false, running = false, again = false, whole = true;
  let timer = 0;
  let startedAt = 0;

  const run = async () => {
    if (ended || document.hidden) return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    startedAt = Date.now();
    const all = whole;
    whole = false;
    try {
      value = await spec.load(value, all);
      if (!ended) show({ value, error: null });
      failing.delete(spec);
      clearStale();
    } catch (error) {
      whole = true;
      const problem = error instanceof ApiError ? error : new ApiError(String(error), 0);
      if (!ended && (problem.status === 0 || problem.status >= 500)) {
        failing.add(spec);
        markStale();
      }
      if (!ended) show({ value, error: problem });
    }
    running = false;
    schedule(again ? 0 : (spec.slowMs ?? kSlowMs));
    again = false;
  };
  const schedule = (inMs: number) => {
    clearTimeout(timer);
    if (!ended) timer = window.setTimeout(() => void run(), Math.max(inMs, startedAt + (spec.everyMs ?? 700) - Date.now()));
  };
  const listener: Listener = (event) => {
    if (event === 'everything') {
      whole = true;
      startedAt = 0;
    } else if (!spec.concerns(event)) return;
    if (running) again = true;
    else schedule(0);
  };
  listeners.add(listener);
  void run();
  return () => {
    ended = true;
    failing.delete(spec);
    clearTimeout(timer);
    listeners.delete(listener);
  };
}

