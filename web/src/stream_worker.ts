// One event stream for all tabs of a browser, held by a SharedWorker: browsers allow six connections per origin
// over all tabs. Every tab gets each event, and is told when the stream opens and when it is lost. The worker
// continues after the last event seen, so a tab that stays open misses none. Refused for want of a login, it tells
// the tabs and waits for a new one, which opens when a person has logged in.
import type { FromWorker } from './live';
import { kStreamEvents, loginStands } from './stream_events';

const kRetryMs = [1000, 2000, 4000, 8000];
const kGoneMs = 12_000; // a tab that did not say for so long that it is there is closed

const ports = new Map<MessagePort, number>(); // when it was last heard
let source: EventSource | null = null;
let open = false;
let refused = false;
let lastSeq: number | null = null;
let retries = 0;
let retryTimer: ReturnType<typeof setTimeout> | undefined;

function tell(message: FromWorker): void {
  for (const port of ports.keys()) port.postMessage(message);
}

async function lose(this: EventSource): Promise<void> {
  if (source !== this) return;
  open = false;
  tell({ what: 'lost' });
  if (this.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
  refused = !(await loginStands());
  if (source !== this) return;
  source = null;
  clearTimeout(retryTimer);
  if (refused) tell({ what: 'refused' });
  else retryTimer = setTimeout(connect, kRetryMs[Math.min(retries++, kRetryMs.length - 1)]);
}

function connect(): void {
  if (source !== null || refused || ports.size === 0) return;
  source = new EventSource(`/api/v1/events/stream${lastSeq === null ? '' : `?from=${lastSeq}`}`);
  source.onopen = () => {
    retries = 0;
    open = true;
    tell({ what: 'open' });
  };
  source.onerror = lose; // called with the stream as `this`
  const pass = (message: MessageEvent<string>) => {
    if (message.lastEventId !== '') lastSeq = Number(message.lastEventId);
    tell({ what: 'event', data: message.data });
  };
  source.onmessage = pass;
  for (const kind of kStreamEvents) source.addEventListener(kind, pass as EventListener);
}

function leave(port: MessagePort): void {
  ports.delete(port);
  if (ports.size > 0) return;
  source?.close();
  source = null;
  open = false;
}

setInterval(() => {
  for (const [port, heard] of ports) if (Date.now() - heard > kGoneMs) leave(port);
}, kGoneMs / 2);

(globalThis as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const port = event.ports[0]!;
  port.onmessage = (message: MessageEvent<'here' | 'leave'>) => {
    if (message.data === 'leave') return leave(port);
    if (!ports.has(port)) {
      refused = false;
      port.postMessage({ what: open ? 'open' : 'waiting' } satisfies FromWorker);
    }
    ports.set(port, Date.now());
    connect();
  };
};
