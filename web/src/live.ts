// What keeps the page true: one event stream, shared by the tabs where the browser can, and resources that are asked for again when an event
// concerns them. The stream continues after the last event seen; when it was lost, everything is loaded
// again. `staleSince` says since when the page may not be true; only an answer clears it.
// Nothing is asked for and nothing followed while nobody is logged in.
import { signal } from '@preact/signals';
import { ask, asApiError, type ApiError, type ClusterEvent, type Version } from './api';
import { checkSession, isIn, session } from './session';
import { share } from './share';
import { kStreamEvents, loginStands } from './stream_events';

export const now = signal(Date.now());
export const staleSince = signal<number | null>(null);
export const version = signal<Version | null>(null);
export const outdated = signal(false); // the coordinator is another version than the page was loaded from

const kSlowMs = 4000; // values without events (speed, steps) are asked for again this often
const kRefusedMs = 60_000; // and this often what the person may not see
// Questions whose last answer failed; the page is stale as long as there is one.
const failing = new Set<object>();

function clearStale(): void {
  if (connected && failing.size === 0) staleSince.value = null;
}

type Listener = (event: ClusterEvent | 'everything') => void;
const listeners = new Set<Listener>();

let halted = true; // nobody is logged in
let connected = false; // to a stream that is open
let lost = false; // since it was open

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

function onEvent(data: string): void {
  let event: ClusterEvent;
  try {
    event = JSON.parse(data) as ClusterEvent;
  } catch {
    return;
  }
  tell(event.kind === 'reset' || event.kind === undefined ? 'everything' : event);
}

// After a loss everything is loaded again.
function onOpen(): void {
  connected = true;
  if (!lost) return clearStale();
  lost = false;
  void loadVersion();
  tell('everything');
}

function onLost(): void {
  connected = false;
  lost = true;
  markStale();
}

// The stream was refused for want of a login and is not tried again. If there is one after all, a new stream is.
async function onRefused(): Promise<void> {
  leave();
  await checkSession();
  if (!halted && !document.hidden) follow();
}

// What a stream tells, from the worker as a message.
export type FromWorker = { what: 'open' | 'lost' | 'waiting' | 'refused' } | { what: 'event'; data: string };

interface Stream {
  close: () => void;
}

const kHereMs = 4000; // the worker forgets a tab that is silent

function sharedStream(): Stream {
  let closed = false;
  const worker = new SharedWorker(new URL('./stream_worker.ts', import.meta.url), { type: 'module', name: 'shoal-events' });
  const here = () => worker.port.postMessage('here');
  worker.onerror = () => (stream?.close(), (stream = ownStream())); // it could not be loaded
  worker.port.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    if (data.what === 'event') onEvent(data.data);
    else if (data.what === 'open') onOpen();
    else if (data.what === 'lost') onLost();
    else if (data.what === 'refused' && !closed) void onRefused();
  };
  here();
  const timer = setInterval(here, kHereMs);
  return {
    close: () => {
      closed = true;
      clearInterval(timer);
      worker.port.postMessage('leave');
      worker.port.close();
    },
  };
}

const kRetryMs = 3000;

function ownStream(): Stream {
  let lastSeq = '', timer = 0, closed = false;
  let source: EventSource | null = null;
  const connect = () => {
    const opened = new EventSource(`/api/v1/events/stream${lastSeq === '' ? '' : `?from=${lastSeq}`}`);
    source = opened;
    opened.onopen = onOpen;
    opened.onerror = async () => {
      if (closed) return;
      onLost();
      if (opened.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      const stands = await loginStands();
      if (closed) return;
      if (stands) timer = window.setTimeout(connect, kRetryMs);
      else void onRefused();
    };
    const pass = (message: MessageEvent<string>) => {
      if (message.lastEventId !== '') lastSeq = message.lastEventId;
      onEvent(message.data);
    };
    opened.onmessage = pass;
    for (const kind of kStreamEvents) opened.addEventListener(kind, pass as EventListener);
  };
  connect();
  return {
    close: () => {
      closed = true;
      clearTimeout(timer);
      source?.close();
    },
  };
}

let stream: Stream | null = null;

// A browser that blocks cookies has the shared worker and refuses to start it.
function anyStream(): Stream {
  try {
    return typeof SharedWorker === 'undefined' ? ownStream() : sharedStream();
  } catch {
    return ownStream();
  }
}

function follow(): void {
  if (!halted) stream ??= anyStream();
}

function leave(): void {
  stream?.close();
  stream = null;
  connected = false;
  lost = true;
}

// A hidden tab follows nothing.
function onVisibility(): void {
  if (document.hidden) return leave();
  follow();
  tell('everything');
}

export const refresh = (): void => tell('everything');

function onSession(): void {
  const out = !isIn(session.value);
  if (out === halted) return;
  halted = out;
  if (!halted) {
    void loadVersion();
    return document.hidden ? undefined : onVisibility();
  }
  leave();
  failing.clear();
  staleSince.value = null;
}

export function startLive(): void {
  session.subscribe(onSession);
  document.addEventListener('visibilitychange', onVisibility);
  addEventListener('pagehide', () => leave());
  addEventListener('pageshow', (event) => event.persisted && onVisibility());
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
    if (ended || halted || document.hidden) return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    startedAt = Date.now();
    const all = whole;
    let next = spec.slowMs ?? kSlowMs;
    whole = false;
    try {
      value = share(value, await spec.load(value, all));
      if (!ended) show({ value, error: null });
      failing.delete(spec);
      clearStale();
    } catch (error) {
      whole = true;
      const problem: ApiError = asApiError(error);
      if (problem.status === 403) next = Math.max(next, kRefusedMs);
      if (!ended && (problem.status === 0 || problem.status >= 500)) {
        failing.add(spec);
        markStale();
      }
      if (!ended) show({ value, error: problem });
    }
    running = false;
    schedule(again ? 0 : next);
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

