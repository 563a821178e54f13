// API tokens: their owners, scopes and expiry. A new one is shown once; one that is revoked ends every login
// that was begun with it.
import { useState } from 'preact/hooks';
import { ask, asApiError, send, type ApiError, type ApiToken } from '../api';
import { Confirmed } from '../confirm';
import { plural } from '../format';
import { refresh, type Watch } from '../live';
import { Card, Copy, Glyph, Missing, State, Time, useWatch } from '../parts';
import { session, whyNot } from '../session';
import type { Tone } from '../status';
import { Table, type Column } from '../table';

const tokens: Watch<ApiToken[]> = { load: async () => (await ask<{ items: ApiToken[] }>('/tokens')).items, concerns: () => false };

const kTones: Record<string, Tone> = { works: 'good', expired: 'off', revoked: 'off' };

const kScopes: [scope: string, may: string][] = [
  ['admin', 'everything, also tokens and the cluster’s CA'],
  ['operator', 'agents, all jobs, the audit trail'],
  ['submitter', 'submit jobs, and control their own'],
  ['viewer', 'read'],
  ['metrics', 'read /metrics only: for Prometheus'],
];

const kDay = 86_400;
const kLives: [seconds: number, text: string][] = [[kDay, '1 day'], [30 * kDay, '30 days'], [90 * kDay, '90 days'], [366 * kDay, '1 year']];

type Made = ApiToken & { token: string };

function MadeCard({ made, done }: { made: Made; done: () => void }) {
  return (
    <Card title={`The new token of ${made.name}`} tools={<Copy text={made.token} />}>
      <pre class="toml" tabIndex={0}>{made.token}</pre>
      <p>
        <Glyph tone="warn" /> It is shown only once: the coordinator keeps no copy. Anyone who has it may do what its scope allows
        ({made.scope.replaceAll(',', ', ')}). It goes into <code>shoal login</code>, into <code>SHOAL_TOKEN</code>, or into the login page.
      </p>
      <button type="button" class="button" onClick={done}>
        I have it
      </button>
    </Card>
  );
}

function NewToken({ made }: { made: (one: Made) => void }) {
  const [name, setName] = useState('');
  const [chosen, choose] = useState<string[]>(['submitter']);
  const [life, setLife] = useState(90 * kDay);
  const [refused, refuse] = useState<ApiError | null>(null);
  const turn = (scope: string, on: boolean) => choose(kScopes.map(([one]) => one).filter((one) => (one === scope ? on : chosen.includes(one))));
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      made(await send<Made>('POST', '/tokens', { name, scope: chosen.join(','), ttl_s: life }));
      setName('');
      refuse(null);
    } catch (error) {
      refuse(asApiError(error));
    }
  };
  return (
    <Card title="New token">
      <form onSubmit={(event) => void submit(event)}>
        <div class="filters">
          <label>
            Name of the person or program <input type="text" value={name} required maxLength={64} autocomplete="off" spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <label>
            Works for
            <select value={life} onChange={(event) => setLife(Number(event.currentTarget.value))}>
              {kLives.map(([seconds, text]) => <option key={seconds} value={seconds}>{text}</option>)}
            </select>
          </label>
        </div>
        <fieldset>
          <legend>Scopes</legend>
          {kScopes.map(([scope, may]) => (
            <label key={scope} class="check">
              <input type="checkbox" checked={chosen.includes(scope)} onChange={(event) => turn(scope, event.currentTarget.checked)} />
              <span>{scope} <span class="muted">{may}</span></span>
            </label>
          ))}
        </fieldset>
        {refused !== null && <Refused by={refused} />}
        <button type="submit" class="button main" disabled={name.trim() === '' || chosen.length === 0}>
          Make the token
        </button>
      </form>
    </Card>
  );
}

function Refused({ by }: { by: ApiError }) {
  return (
    <p class="problem" role="alert">
      <Glyph tone="bad" /> {[by.message, ...by.fields.map((one) => `${one.pointer.slice(1)}: ${one.detail}`)].join('; ')}
      {by.hint !== '' && <span class="hint"> {by.hint}</span>}
    </p>
  );
}

const isOwn = (token: ApiToken) => session.value.state === 'in' && session.value.who.token_id === token.id;

function Revoke({ token }: { token: ApiToken }) {
  return (
    <Confirmed label="Revoke" word={token.id} act={() => send('DELETE', `/tokens/${token.id}`).then(refresh)}
      what={`The token of ${token.name} is revoked, and every login that was begun with it ends.${isOwn(token) ? ' You are logged in with it.' : ''}`} />
  );
}

const kColumns: Column<ApiToken>[] = [
  { name: 'Name', show: (one) => <><span class="name">{one.name}</span>{isOwn(one) && <span class="muted"> (this login)</span>}</>, value: (one) => one.name },
  { name: 'Token', show: (one) => one.id, value: (one) => one.id },
  { name: 'Scopes', show: (one) => one.scope.replaceAll(',', ', '), value: (one) => one.scope },
  { name: 'State', show: (one) => <State tone={kTones[one.state] ?? 'warn'} text={one.state} />, value: (one) => one.state },
  { name: 'Made', show: (one) => <Time at={one.created_at} />, value: (one) => one.created_at },
  { name: 'Ends', show: (one) => <Time at={one.expires_at} />, value: (one) => one.expires_at },
  { name: 'Revoke', show: (one) => (one.state === 'works' ? <Revoke token={one} /> : '') },
];

export function TokensPage() {
  const known = useWatch(tokens, []);
  const [made, make] = useState<Made | null>(null);
  const [all, showAll] = useState(false);
  const shown = (known.value ?? []).filter((one) => all || one.state === 'works');
  const over = (known.value ?? []).filter((one) => one.state !== 'works').length;
  const take = (one: Made) => (make(one), refresh());
  const mayMake = whyNot(session.value, 'manage_tokens') === '';
  return (
    <>
      <h1>Tokens</h1>
      <p class="muted">People and programs log in with these tokens. Hosts join with another kind: <code>shoal token create --join</code>.</p>
      {made !== null && <MadeCard made={made} done={() => make(null)} />}
      {made === null && mayMake && <NewToken made={take} />}
      {known.value === undefined ? <Missing of={known} what="tokens" /> : (
        <Card title="Tokens" tools={over > 0 && (
          <label class="check">
            <input type="checkbox" checked={all} onChange={(event) => showAll(event.currentTarget.checked)} /> also {plural(over, 'token')} that no longer {over === 1 ? 'works' : 'work'}
          </label>
        )}>
          <Table caption="Tokens" columns={kColumns} rows={shown} rowKey={(one) => one.id} file="tokens" empty="No token works." />
        </Card>
      )}
    </>
  );
}
