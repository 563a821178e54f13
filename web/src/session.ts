// The login of this browser. The coordinator keeps it in a cookie that the page cannot read, so the page asks
// (GET /api/v1/session), and every answer that contradicts it is reported here. A login that ends leaves the
// pages where they are, hidden, for the same person to continue; logging out forgets them. All tabs follow.
import { batch, signal } from '@preact/signals';
import { ApiError, asApiError, ask, kSessionPath, onRefusedLogin, send } from './api';

export type Action =
  | 'view_cluster' | 'read_logs' | 'read_agent_logs' | 'read_metrics' | 'submit_job' | 'control_job' | 'download_checkpoint'
  | 'control_agent' | 'create_join_token' | 'read_audit' | 'view_space' | 'manage_tokens';

// docs/identity.md has the actions and what each scope grants.
export interface Principal {
  name: string;
  scope: string; // several with commas between
  token_id: string;
  expires_at_ms: number;
  grants: Partial<Record<Action, 'any' | 'own'>>;
}

export type Session =
  | { state: 'asking'; problem: ApiError | null } // not known yet, and why not
  | { state: 'in'; who: Principal }
  | { state: 'open' } // an older coordinator, which asks nobody to log in
  | { state: 'out'; why: string }; // why it ended; empty: it had not begun

export const session = signal<Session>({ state: 'asking', problem: null });
// The person whose pages are shown, or hidden behind the login page; empty: nobody.
export const person = signal('');
// Why the last attempt to log in was refused.
export const refusedLogin = signal<ApiError | null>(null);

export const isIn = (one: Session): boolean => one.state === 'in' || one.state === 'open';

// ---- decisions

// What an answer to the question who this is makes of what was known.
export function afterAsking(before: Session, answer: Principal | ApiError): Session {
  if (!(answer instanceof ApiError)) return { state: 'in', who: answer };
  if (answer.status === 404) return { state: 'open' };
  if (answer.status === 401) {
    if (before.state === 'out') return before;
    return { state: 'out', why: before.state === 'in' ? `Your login has ended: ${answer.message}.` : '' };
  }
  return before.state === 'asking' ? { state: 'asking', problem: answer } : before;
}

export function personOf(before: string, now: Session): string {
  if (now.state === 'in') return now.who.name;
  return now.state === 'open' ? 'anyone' : before;
}

export const scopeText = (who: Principal): string => who.scope.replaceAll(',', ', ');

export type Proof = { token: string } | { ticket: string };

export const ticketIn = (link: string): string => /#ticket=([^&\s]+)/.exec(link)?.[1] ?? '';

// What somebody pasted; a sentence when it cannot be what is asked for.
export function proofIn(pasted: string): Proof | string {
  const text = pasted.trim();
  const ticket = ticketIn(text);
  if (ticket !== '') return { ticket };
  if (text === '') return 'Paste an API token.';
  if (text.startsWith('shoaljoin')) return 'This is a join token: it lets hosts in. People log in with an API token, which begins with “shoalapi”.';
  if (!text.startsWith('shoalapi')) return 'This is no API token: those begin with “shoalapi”.';
  if (/\s/.test(text)) return 'There are blanks within the token: paste one token, whole.';
  return { token: text };
}

const kDoing: Record<Action, string> = {
  view_cluster: 'see this cluster', read_logs: 'read the logs of jobs', read_agent_logs: 'read the logs of agents', read_metrics: 'read the metrics',
  submit_job: 'submit jobs', control_job: 'control jobs and their checkpoints', download_checkpoint: 'download checkpoints',
  control_agent: 'take agents out of service or put them back', create_join_token: 'let hosts join', read_audit: 'read the audit trail', view_space: 'see what takes the space',
  manage_tokens: 'manage tokens',
};

// Why somebody may not, as a sentence; empty: they may. `owner` is that of the job that it is about.
export function whyNot(now: Session, action: Action, owner?: string): string {
  if (now.state !== 'in') return '';
  const { name, grants } = now.who, scope = scopeText(now.who);
  const grant = grants[action];
  if (grant === 'any' || (grant === 'own' && (owner === undefined || owner === name))) return '';
  if (grant === undefined) return `The scope ${scope} does not let you ${kDoing[action]}.`;
  return `The scope ${scope} lets you ${kDoing[action]} of your own only; this is ${owner ? `${owner}’s` : 'nobody’s'}.`;
}

// ---- effects

let changes = 0; // logins and log-outs of this tab: what was asked before one says nothing afterwards

function settle(now: Session): void {
  batch(() => {
    person.value = personOf(person.value, now);
    session.value = now;
  });
}

const whoAmI = (): Promise<Principal | ApiError> => ask<Principal>(kSessionPath).catch(asApiError);

let checking: Promise<void> | null = null;

export function checkSession(): Promise<void> {
  const began = changes;
  checking ??= whoAmI().then((answer) => {
    checking = null;
    if (began === changes) settle(afterAsking(session.value, answer));
  });
  return checking;
}

const kRetryMs = 3000;

async function checkUntilKnown(): Promise<void> {
  await checkSession();
  if (session.value.state === 'asking') setTimeout(() => void checkUntilKnown(), kRetryMs);
}

// A browser that blocks cookies takes the answer and forgets it; a token for programs opens no page.
async function verified(): Promise<Principal> {
  const who = await whoAmI();
  if (who instanceof ApiError) {
    if (who.status !== 401) throw who;
    throw new ApiError('the browser did not keep the login', 401, `Allow cookies for ${location.host}, then log in again.`);
  }
  if (who.grants.view_cluster !== undefined) return who;
  await send('DELETE', kSessionPath).catch(() => {});
  throw new ApiError(`a token with the scope ${scopeText(who)} is for programs; this page shows nothing with it`, 403);
}

export async function logIn(proof: Proof): Promise<void> {
  refusedLogin.value = null;
  try {
    await send<Principal>('POST', kSessionPath, proof);
    const who = await verified();
    changes += 1;
    settle({ state: 'in', who });
    tellTabs('in');
  } catch (error) {
    refusedLogin.value = asApiError(error);
    if (session.value.state === 'asking') await checkUntilKnown(); // it may be logged in already
  }
}

function forget(why: string): void {
  changes += 1;
  batch(() => {
    refusedLogin.value = null;
    person.value = '';
    session.value = { state: 'out', why };
  });
}

// Rejects when the coordinator could not be told: the login is still there.
export async function logOut(): Promise<void> {
  await send('DELETE', kSessionPath).catch((error: ApiError) => {
    if (error.status !== 401) throw error;
  });
  forget('You are logged out.');
  tellTabs('out');
}

type Told = 'in' | 'out';
let tabs: BroadcastChannel | null = null;
const tellTabs = (what: Told): void => tabs?.postMessage(what);

function followTabs(): void {
  try {
    tabs = new BroadcastChannel('shoal-session');
    tabs.onmessage = ({ data }: MessageEvent<Told>) => (data === 'out' ? forget('You are logged out.') : void checkSession());
  } catch {
    tabs = null; // each tab finds out by its next question
  }
}

// The ticket of a link logs in once. It leaves the address before anything else is done.
function useTicket(): boolean {
  const ticket = ticketIn(location.hash);
  if (ticket === '') return false;
  history.replaceState(history.state, '', location.pathname + location.search);
  void logIn({ ticket });
  return true;
}

export function startSession(): void {
  onRefusedLogin(() => void checkSession());
  followTabs();
  addEventListener('hashchange', useTicket);
  if (!useTicket()) void checkUntilKnown();
}
