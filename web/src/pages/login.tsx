// The login page. It is in front of whatever page was asked for: after the login people are where they wanted to be.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ApiError } from '../api';
import { Glyph } from '../parts';
import { logIn, proofIn, refusedLogin, session, type Proof } from '../session';

// What the form could not take, or what the coordinator said to it.
function Refused({ typed }: { typed: string }) {
  const answer = refusedLogin.value;
  if (typed === '' && answer === null) return null;
  return (
    <p class="problem" role="alert" id="refused">
      <Glyph tone="bad" /> {typed !== '' ? typed : sentence(answer!.message)}
      {typed === '' && hintOf(answer!.status, answer!.hint) !== '' && <span class="hint"> {hintOf(answer!.status, answer!.hint)}</span>}
    </p>
  );
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

function hintOf(status: number, hint: string): string {
  if (status === 0) return 'Check that it runs and that this address is right, then try again.';
  return hint === '' ? '' : sentence(hint);
}

function Form() {
  const [text, type] = useState('');
  const [seen, show] = useState(false);
  const [refused, refuse] = useState('');
  const [busy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    const proof: Proof | string = proofIn(text);
    refuse(typeof proof === 'string' ? proof : '');
    if (typeof proof === 'string') return input.current?.focus();
    setBusy(true);
    await logIn(proof);
    setBusy(false);
    input.current?.focus(); // still there: it was refused
  };
  const wrong = refused !== '' || refusedLogin.value !== null;
  return (
    <form class="login-form" onSubmit={(event) => void submit(event)}>
      <label for="token">API token</label>
      <input ref={input} id="token" name="token" type={seen ? 'text' : 'password'} autocomplete="current-password" spellcheck={false} autocapitalize="off"
        value={text} aria-invalid={wrong} aria-describedby={wrong ? 'refused' : undefined} onInput={(event) => (type(event.currentTarget.value), refuse(''))} />
      <label class="check">
        <input type="checkbox" checked={seen} onChange={(event) => show(event.currentTarget.checked)} /> show it
      </label>
      <Refused typed={refused} />
      <button type="submit" class="button main" disabled={busy}>
        {busy ? 'Logging in…' : 'Log in'}
      </button>
    </form>
  );
}

function Ways() {
  return (
    <>
      <h2>Where a token comes from</h2>
      <ul>
        <li><code>shoal up</code> prints a link that logs a browser in; <code>shoal link</code> prints another.</li>
        <li>An admin makes one, here under Tokens or with <code>shoal token create</code>.</li>
        <li>On the coordinator’s host, the admin’s token is in the file <code>admin.token</code> of its data folder.</li>
      </ul>
      <p class="muted">The coordinator keeps the login in a cookie of this browser. Log out on a computer that is not yours.</p>
    </>
  );
}

const kSoonMs = 500;

// Shown only when it takes a while: most people who open a page are logged in.
function Asking({ problem }: { problem: ApiError | null }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), kSoonMs);
    return () => clearTimeout(timer);
  }, []);
  if (!late) return null;
  return (
    <section class="card login" aria-label="Log in">
      <p class={problem === null ? 'empty' : 'problem'} role="status">
        {problem === null ? 'Asking the coordinator who you are…' : <><Glyph tone="bad" /> {sentence(problem.message)} This page keeps trying.</>}
      </p>
    </section>
  );
}

export function LoginPage() {
  const now = session.value;
  if (now.state === 'asking') return <Asking problem={now.problem} />;
  return (
    <section class="card login" aria-label="Log in">
      <h1>Log in to Shoal</h1>
      {now.state === 'out' && now.why !== '' && <p role="status"><Glyph tone="off" /> {now.why}</p>}
      {!navigator.cookieEnabled && (
        <p class="problem" role="alert">
          <Glyph tone="bad" /> This browser blocks the cookie that keeps a login. Allow cookies for {location.host} and load this page again.
        </p>
      )}
      <Form />
      <Ways />
    </section>
  );
}
