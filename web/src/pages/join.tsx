// How a host joins: the command, ready but for the secret, which this page never sees.
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { ask, type Join } from '../api';
import { number } from '../format';
import { Card, Copy, Denied, Glyph, Missing, useWatch } from '../parts';
import { session, whyNot } from '../session';
import * as sources from '../sources';

const join = { load: () => ask<Join>('/join'), concerns: () => false, slowMs: 60_000 };

// What another host dials: the port that was bound, at the address by which this page was reached.
export function reachable(grpc: string, hostname: string): { address: string; local: boolean } {
  const at = grpc.lastIndexOf(':');
  const bound = grpc.slice(0, at).replace(/^\[|\]$/g, ''), port = grpc.slice(at + 1);
  const local = bound === '127.0.0.1' || bound === '::1' || bound === 'localhost';
  const any = bound === '0.0.0.0' || bound === '::' || bound === '';
  const host = any ? hostname.replace(/^\[|\]$/g, '') : bound;
  return { address: `${host.includes(':') ? `[${host}]` : host}:${port}`, local };
}

// Where a host joins, when that is not port 7070 of the coordinator's host, which agents try by themselves. The page
// knows the port unless a proxy hides it.
export function enrolment(address: string, pagePort: string): string {
  return pagePort === '' || pagePort === '7070' ? '' : address.replace(/:\d+$/, `:${pagePort}`);
}

const quoted = (text: string) => (/^[\w@%+=:,./[\]-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

export function JoinPage() {
  const known = useWatch(join, []);
  const agents = useWatch(sources.agents(), []);
  const [name, setName] = useState('');
  const [token, setToken] = useState('');
  const [root, setRoot] = useState('');
  if (known.value === undefined) return <><h1>Add a host</h1><Missing of={known} what="how to join" /></>;
  const barred = whyNot(session.value, 'create_join_token');
  const { address, local } = reachable(known.value.grpc, location.hostname);
  const enrol = enrolment(address, location.port);
  const file = token !== '' ? token : local ? known.value.token_file : './join_token';
  const line = `shoal-agent --coordinator ${quoted(address)}${enrol === '' ? '' : ` --enrol ${quoted(enrol)}`} --join-token ${quoted(file)} --data-root ${quoted(root === '' ? '/srv/data' : root)}${name === '' ? '' : ` --name ${quoted(name)}`}`;
  return (
    <>
      <h1>Add a host</h1>
      <p class="muted"><Link href="/agents">Agents</Link> · {number(agents.value?.length)} here now; a new one appears there within seconds</p>
      <Card title="On the new host" tools={<Copy text={line} />}>
        <pre class="toml" tabIndex={0}>{line}</pre>
        <div class="filters">
          <label>Name <input type="text" value={name} placeholder="the host's own" onInput={(event) => setName(event.currentTarget.value)} /></label>
          <label>Folder of the data there <input type="text" value={root} placeholder="/srv/data" onInput={(event) => setRoot(event.currentTarget.value)} /></label>
          <label>Token file there <input type="text" value={token} placeholder={file} onInput={(event) => setToken(event.currentTarget.value)} /></label>
        </div>
        {local && (
          <p>
            <Glyph tone="warn" /> The coordinator takes agents of its own host only ({known.value.grpc}). For others start it with{' '}
            <code>--http 0.0.0.0:7070 --grpc 0.0.0.0:7071</code>.
          </p>
        )}
      </Card>
      <Card title="Before that">
        <ol>
          <li>Install Shoal there: <code>shoal-agent</code> and <code>shoal-trainer</code>.</li>
          <li>
            Make a token on the coordinator’s host, <code>shoal token create --join</code>, and put it into a file that only the agent’s user may read.{' '}
            {barred !== '' && <><Denied why={barred} /> Ask an operator for one. </>}
            Keep it secret: anyone who has it can join. {local && 'An agent on the same host can read the one in its folder.'}
          </li>
          <li>Put the training data into a folder there. Jobs can read what lies beneath it (<code>--data-root</code>), and nothing else of the host.</li>
          <li>Let the host reach <code>{address}</code> and the coordinator’s port {location.port || '7070'}, and the other agents reach its ports 7100 to 7199.</li>
        </ol>
      </Card>
    </>
  );
}
