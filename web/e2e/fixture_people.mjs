// The logins of e2e/fixture.mjs: tokens, browsers that are logged in, tickets, the audit trail, and what each scope
// grants (docs/identity.md). Tests end logins and lose cookies through it, and see what was asked without one.

const kAny = { viewer: ['view_cluster', 'view_job', 'read_logs', 'read_metrics'], metrics: ['read_metrics'] };
kAny.submitter = ['view_cluster', 'view_job', 'submit_job'];
kAny.operator = [...kAny.viewer, 'read_agent_logs', 'submit_job', 'control_job', 'control_agent', 'revoke_agent', 'create_join_token', 'read_audit', 'view_space'];
kAny.admin = [...kAny.operator, 'download_checkpoint', 'manage_tokens', 'rotate_ca'];
const kOwn = { submitter: ['read_logs', 'control_job', 'download_checkpoint'], operator: ['download_checkpoint'] };

function grantsOf(scope) {
  const grants = {};
  for (const one of scope.split(',')) {
    for (const action of kOwn[one] ?? []) grants[action] ??= 'own';
    for (const action of kAny[one]) grants[action] = 'any';
  }
  return grants;
}

// Answers for paths that not everybody may ask for.
const kNeeds = [[/^\/tokens/, 'manage_tokens'], [/^\/audit/, 'read_audit'], [/^\/agents\/[^/]+\/logs/, 'read_agent_logs'], [/^\/session$/, null], [/./, 'view_cluster']];

const problem = (status, code, detail, hint = '') => [status, { type: `/problems/${code}`, title: detail, status, detail, code, hint }];
const stranger = (detail, hint = 'ask an admin for a token') => problem(401, 'unauthenticated', detail, hint);

async function jsonOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString() || '{}');
}

export function makePeople() {
  const at = (days) => new Date(Date.now() + days * 86_400_000).toISOString();
  const tokens = [['admin', 'admin'], ['ana', 'submitter'], ['ben', 'submitter'], ['eve', 'viewer'], ['olga', 'operator'], ['prometheus', 'metrics']]
    .map(([name, scope], i) => ({ id: `tok_${i + 1}`, name, scope, state: 'works', created_at: at(-10), expires_at: at(80), secret: `shoalapi1.tok_${i + 1}.${name}` }));
  const over = (id, name, state) => ({ id, name, scope: 'viewer', state, created_at: at(-100), expires_at: at(-10), secret: `shoalapi1.${id}.${name}` });
  tokens.push(over('tok_7', 'old', 'expired'), over('tok_8', 'thrown', 'revoked'));
  const audit = [
    { id: 1, at: at(-1), principal: 'ana', token: 'tok_2', action: 'submit_job', object: 'job_1', before: null, after: 'large' },
    { id: 2, at: at(0), principal: 'olga', token: 'tok_5', action: 'drain_agent', object: 'agt_1', before: 'active', after: 'draining' },
  ];
  return { tokens, audit, sessions: new Map(), logins: 0, tickets: new Map([['good', 'tok_1']]), keepsCookies: true, asked: [], refused: [], secrets: [] };
}

const known = (people, id) => people.tokens.find((one) => one.id === id);
const shown = ({ secret, ...token }) => token;

function principalOf(people, request) {
  const cookie = /shoal_session=([^;]+)/.exec(request.headers.cookie ?? '')?.[1];
  if (cookie === undefined) return stranger('no token was shown');
  const token = known(people, people.sessions.get(cookie));
  if (token === undefined) return stranger('this browser’s login has expired');
  if (token.state !== 'works') return stranger('the token of this browser’s login was revoked');
  return { name: token.name, scope: token.scope, token_id: token.id, expires_at_ms: Date.now() + 86_400_000, grants: grantsOf(token.scope), cookie };
}

export const isStillIn = (people, request) => !Array.isArray(principalOf(people, request));

function logIn(people, { token: secret, ticket }) {
  people.secrets.push(secret ?? ticket);
  const token = ticket !== undefined ? known(people, people.tickets.get(ticket)) : people.tokens.find((one) => one.secret === secret);
  if (ticket !== undefined) people.tickets.delete(ticket);
  if (token === undefined) return ticket !== undefined ? stranger('the link was used already, or is too old', '`shoal link` prints a new one') : stranger('the coordinator does not know this token');
  if (token.state === 'expired') return stranger('the token expired 10 days ago by the coordinator’s clock');
  if (token.state === 'revoked') return stranger('the token was revoked');
  const cookie = `ses${++people.logins}`;
  people.sessions.set(cookie, token.id);
  return [200, {}, people.keepsCookies ? { 'Set-Cookie': `shoal_session=${cookie}; HttpOnly; SameSite=Strict; Path=/` } : {}];
}

function makeToken(people, { name, scope }) {
  if (!/^[\w.@-]+$/.test(name)) return [422, { ...problem(422, 'invalid', 'owner must have letters, digits, ".", "_", "-" and "@" only')[1], errors: [] }];
  const id = `tok_${people.tokens.length + 1}`;
  people.tokens.push({ id, name, scope, state: 'works', created_at: new Date().toISOString(), expires_at: new Date(Date.now() + 1e9).toISOString(), secret: `shoalapi1.${id}.${name}` });
  people.audit.push({ id: people.audit.length + 1, at: new Date().toISOString(), principal: 'admin', token: 'tok_1', action: 'create_token', object: id, before: null, after: scope });
  return [201, { ...shown(people.tokens.at(-1)), token: people.tokens.at(-1).secret }];
}

// [status, body, headers], or nothing where the caller may have what the others answer.
export async function answerPeople(people, request, path, url) {
  people.asked.push(path);
  if (path === '/session' && request.method === 'POST') return logIn(people, await jsonOf(request));
  const who = principalOf(people, request);
  if (Array.isArray(who)) return people.refused.push(path), who;
  const needed = kNeeds.find(([of]) => of.test(path))[1];
  if (needed !== null && !(needed in who.grants)) return problem(403, 'permission-denied', `${needed} needs another scope; the token of ${who.name} has ${who.scope}`);
  if (path === '/session' && request.method === 'DELETE') return people.sessions.delete(who.cookie), [204, ''];
  if (path === '/session') return [200, who];
  if (path === '/tokens' && request.method === 'POST') return makeToken(people, await jsonOf(request));
  if (path === '/tokens' && url.search !== '') return problem(400, 'invalid-argument', 'this route takes no parameters');
  if (path === '/tokens') return [200, { items: people.tokens.map(shown), next_cursor: null }];
  if (path === '/audit') return [200, { items: [...people.audit].reverse(), next_cursor: null }];
  const token = /^\/tokens\/(tok_\d+)$/.exec(path);
  if (token === null) return undefined;
  known(people, token[1]).state = 'revoked';
  return [200, shown(known(people, token[1]))];
}
