// How the scripts that start a real cluster speak to it as its admin: the command line, the REST API, and a browser
// that is logged in. `cluster` is what `shoal up --json` printed, or { http, admin_token_file }; undefined: none yet.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const tokenOf = (cluster) => readFileSync(cluster.admin_token_file, 'utf8').trim();

// `home` takes the contexts that the command line keeps, so that those of the person who runs this stay as they are.
export function runShoal(bin, home, cluster, args) {
  const known = cluster === undefined ? {} : { SHOAL_ADDR: cluster.http, SHOAL_TOKEN_FILE: cluster.admin_token_file };
  return execFileSync(join(bin, 'shoal'), args, { encoding: 'utf8', env: { ...process.env, XDG_CONFIG_HOME: home, SHOAL_ADDR: '', ...known } });
}

export async function askApi(cluster, path) {
  const answer = await fetch(`${cluster.http}/api/v1${path}`, { headers: { Authorization: `Bearer ${tokenOf(cluster)}` } });
  return answer.json();
}

// As the login page does it; the cookie is the context's.
export async function logIn(context, cluster) {
  const answer = await context.request.post(`${cluster.http}/api/v1/session`, { data: { token: tokenOf(cluster) } });
  if (!answer.ok()) throw new Error(`no login at ${cluster.http}: ${answer.status()} ${await answer.text()}`);
}
