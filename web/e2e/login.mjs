// Logins in a browser, against e2e/fixture.mjs: what the login page refuses and in which words, links with a ticket,
// a login that ends under an open page, several tabs, what each scope sees, tokens and the audit trail; the pages of
// it with axe, in both themes, narrow and wide. SHOTS: a folder for screenshots.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { startFixture } from './fixture.mjs';
import { check, checkAxe, checkWidth, listen, open, runAll, text, until } from './harness.mjs';

const kSmall = { agents: 3, stages: 1, replicas: 2, rounds: 9, people: true };
const kNames = ['', 'admin', 'ana', 'ben', 'eve', 'olga', 'prometheus', 'old', 'thrown'];
const secretOf = (name) => `shoalapi1.tok_${kNames.indexOf(name)}.${name}`;
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const field = (page) => page.getByLabel('API token');
const says = (page, words) => async () => (await text(page)).includes(words);

async function logIn(page, name) {
  await field(page).fill(secretOf(name));
  await page.keyboard.press('Enter');
  await page.locator('.account').waitFor({ timeout: 5000 });
}

async function openAs(browser, fixture, name, path, errors = []) {
  const page = await open(browser, errors);
  await page.goto(fixture.url + path);
  await logIn(page, name);
  return page;
}

async function refusals(browser) {
  const fixture = await startFixture(kSmall), { people } = fixture.world;
  const errors = [];
  const page = await open(browser, errors);
  await page.goto(`${fixture.url}/jobs/job_1`);
  await until('without a login there is the login page', 4000, says(page, 'Log in to Shoal'));
  check('at the address that was asked for', page.url() === `${fixture.url}/jobs/job_1`);
  await page.waitForTimeout(500);
  check('and nothing else is asked', people.asked.every((path) => path === '/session'), people.asked.join());
  check('the token has the focus', await field(page).evaluate((one) => one === document.activeElement));
  const refused = async (typed, words) => {
    await field(page).fill(typed);
    await page.keyboard.press('Enter');
    await until(`"${typed}" is answered "${words}"`, 3000, async () => (await page.getByRole('alert').innerText({ timeout: 200 })).includes(words));
  };
  await refused('', 'Paste an API token');
  await refused('shoaljoin1.abc.join_5.x', 'This is a join token');
  await refused('hunter2', 'This is no API token');
  check('what cannot be a token is not sent', people.secrets.length === 0, people.secrets.join());
  await refused('shoalapi1.tok_1.wrong', 'does not know this token');
  await refused(secretOf('old'), 'The token expired 10 days ago');
  await refused(secretOf('thrown'), 'The token was revoked');
  await refused(secretOf('prometheus'), 'scope metrics is for programs');
  people.keepsCookies = false;
  await refused(secretOf('ana'), 'The browser did not keep the login. Allow cookies');
  people.keepsCookies = true;
  await page.route('**/api/v1/session', (route) => route.abort());
  await refused(secretOf('ana'), 'The coordinator cannot be reached. Check that it runs');
  check('and the token stays typed', (await field(page).inputValue()) === secretOf('ana'));
  await page.unroute('**/api/v1/session');
  await page.keyboard.press('Enter');
  await until('once it answers, Enter logs in to the page that was asked for', 5000, async () => (await page.locator('.u-over').count()) > 0);
  check('which is still the address', page.url() === `${fixture.url}/jobs/job_1`);
  check('the header says who it is', (await page.locator('.account').innerText()).includes('ana submitter'));
  check('no script can read the login', (await page.evaluate(() => document.cookie)) === '');
  await page.reload();
  await until('loading again asks nobody', 5000, async () => (await page.locator('.u-over').count()) > 0);
  await page.route('**/api/v1/session', (route) => (route.request().method() === 'DELETE' ? route.abort() : route.continue()));
  await page.getByRole('button', { name: 'Log out' }).click();
  await until('a log-out that nobody heard is no log-out', 3000, says(page, 'Still logged in: the coordinator cannot be reached'));
  await page.unroute('**/api/v1/session');
  await page.getByRole('button', { name: 'Log out' }).click();
  await until('logging out leads to the login page', 3000, says(page, 'You are logged out.'));
  check('and forgets what was shown', (await page.locator('.u-over').count()) === 0 && people.sessions.size === 1, `${people.sessions.size} sessions`);
  check('without an error', errors.length === 0, errors.join('; '));
  await page.context().close();
  fixture.stop();
}

async function tickets(browser) {
  const fixture = await startFixture(kSmall);
  const page = await open(browser, []);
  await page.goto(`${fixture.url}/login#ticket=good`);
  await until('the ticket of a link logs in', 4000, says(page, 'Unfinished jobs'));
  check('and is nowhere in the address', page.url() === `${fixture.url}/`, page.url());
  await page.goto(`${fixture.url}/login#ticket=good`);
  await until('the same link once more finds the login', 4000, says(page, 'Unfinished jobs'));
  await page.context().clearCookies();
  await page.goto('about:blank');
  await page.goto(`${fixture.url}/login#ticket=good`);
  await until('in another browser it is said to be used', 4000, says(page, 'The link was used already, or is too old. `shoal link` prints a new one'));
  check('its ticket is gone from the address, too', page.url() === `${fixture.url}/login`, page.url());
  fixture.world.people.tickets.set('other', 'tok_1');
  await page.evaluate(() => (location.hash = '#ticket=other'));
  await until('a new link in the same tab logs in', 4000, says(page, 'Unfinished jobs'));
  await page.context().close();
  fixture.stop();
}

async function endsInTheMiddle(browser, alone) {
  const name = alone ? 'without shared workers' : 'with a shared worker';
  const fixture = await startFixture(kSmall), { people } = fixture.world;
  const errors = [];
  const context = await browser.newContext();
  if (alone) await context.addInitScript(() => delete globalThis.SharedWorker);
  const page = listen(await context.newPage(), errors);
  await page.goto(`${fixture.url}/jobs/new`);
  await logIn(page, 'ana');
  const editor = page.getByRole('textbox', { name: 'The job, as TOML' });
  await until(`${name}: one stream`, 4000, async () => fixture.world.streams === 1);
  await editor.fill('# half a job');
  people.sessions.clear();
  await until(`${name}: a login that ends leads to the login page`, 9000, says(page, 'Your login has ended: this browser’s login has expired.'));
  await page.waitForTimeout(1500);
  const before = people.refused.length;
  await page.waitForTimeout(10_000);
  check(`${name}: after that nothing is asked, nor the stream tried again`, people.refused.length === before, people.refused.slice(before).join());
  await logIn(page, 'ana');
  await until(`${name}: the same person continues where they were`, 4000, async () => (await editor.inputValue()) === '# half a job' && page.url().endsWith('/jobs/new'));
  await until(`${name}: and the stream is back`, 4000, async () => fixture.world.streams === 1);
  people.sessions.clear();
  await until(`${name}: it ends again`, 9000, says(page, 'Your login has ended'));
  await logIn(page, 'ben');
  await until(`${name}: somebody else starts over`, 4000, async () => !['', '# half a job'].includes(await editor.inputValue()));
  check(`${name}: without an error`, errors.length === 0, errors.join('; '));
  await context.close();
  fixture.stop();
}

async function tabs(browser) {
  const fixture = await startFixture(kSmall);
  const context = await browser.newContext();
  const [one, other] = [await context.newPage(), await context.newPage()];
  await one.goto(`${fixture.url}/events`);
  await other.goto(`${fixture.url}/agents`);
  await until('both tabs ask for a login', 4000, async () => (await says(one, 'Log in to Shoal')()) && (await says(other, 'Log in to Shoal')()));
  await logIn(one, 'olga');
  await until('one login is that of both', 4000, async () => (await other.locator('.account').innerText({ timeout: 200 })).includes('olga'));
  check('each where it was', one.url().endsWith('/events') && other.url().endsWith('/agents'));
  await until('on one stream', 4000, async () => fixture.world.streams === 1);
  await other.getByRole('button', { name: 'Log out' }).click();
  await until('and so is the log-out', 4000, says(one, 'You are logged out.'));
  await until('which ends the stream', 16_000, async () => fixture.world.streams === 0);
  await context.close();
  fixture.stop();
}

// Which words each person sees on which page, and which not.
const kSeen = [
  ['eve', '/jobs', ['The scope viewer does not let you submit jobs.'], ['New job']],
  ['eve', '/jobs/new', ['The scope viewer does not let you submit jobs.'], ['Submit the job']],
  ['eve', '/jobs/job_1', ['The scope viewer does not let you control jobs and their checkpoints.', 'of ana'], ['Pause', '/tokens', 'Audit']],
  ['eve', '/agents/agt_1', ['The scope viewer does not let you take agents out of service'], ['Drain', 'Logs']],
  ['eve', '/checkpoints/ckpt_2', ['The scope viewer does not let you download checkpoints.'], ['shoal checkpoint download']],
  ['eve', '/join', ['does not let you let hosts join'], []],
  ['eve', '/tokens', ['manage_tokens needs another scope'], ['Make the token']],
  ['ben', '/jobs/job_1', ['lets you control jobs and their checkpoints of your own only; this is ana’s.'], ['Pause']],
  ['ben', '/jobs', ['New job'], ['does not let you']],
  ['ana', '/jobs/job_1', ['Pause', 'Cancel'], ['does not let you', 'Audit']],
  ['ana', '/checkpoints/ckpt_2', ['shoal checkpoint download'], ['does not let you']],
  ['olga', '/agents/agt_1', ['Drain', 'Logs', 'Audit'], ['/tokens']],
];

async function scopes(browser) {
  const fixture = await startFixture(kSmall);
  let page, as = '';
  for (const [name, path, seen, unseen] of kSeen) {
    if (name !== as) {
      await page?.context().close();
      page = await openAs(browser, fixture, name, path);
      as = name;
    } else await page.goto(fixture.url + path);
    await until(`${name} at ${path} reads ${seen[0]}`, 4000, says(page, seen[0]));
    await page.waitForTimeout(200);
    const said = await text(page);
    const links = await page.locator('nav a').evaluateAll((all) => all.map((one) => one.getAttribute('href')));
    const isThere = (one) => (one.startsWith('/') ? links.includes(one) : said.includes(one));
    check('and all that is theirs', seen.every(isThere) && !unseen.some(isThere),
      JSON.stringify([seen.filter((one) => !isThere(one)), unseen.filter(isThere)]));
  }
  await page.context().close();
  fixture.stop();
}

async function tokens(browser) {
  const fixture = await startFixture(kSmall), { people } = fixture.world;
  const page = await openAs(browser, fixture, 'admin', '/tokens');
  await until('an admin sees the tokens', 4000, says(page, 'prometheus'));
  check('but not those that no longer work', !(await text(page)).includes('thrown'));
  await page.getByLabel('also 2 tokens that no longer work').check();
  await until('unless asked', 2000, says(page, 'thrown'));
  await page.getByLabel('Name of the person').fill('new person');
  await page.getByRole('button', { name: 'Make the token' }).click();
  await until('a bad name is refused in words', 3000, says(page, 'owner must have letters'));
  await page.getByLabel('Name of the person').fill('noor');
  await page.getByLabel('viewer').check();
  await page.getByRole('button', { name: 'Make the token' }).click();
  await until('a new token is shown', 3000, says(page, 'shoalapi1.tok_9.noor'));
  check('with the scopes that were chosen', people.tokens.at(-1).scope === 'submitter,viewer', people.tokens.at(-1).scope);
  check('and can be copied', await page.getByRole('button', { name: 'Copy' }).isVisible());
  await until('it is in the list', 3000, async () => (await page.locator('tbody').innerText()).includes('noor'));
  await page.getByRole('button', { name: 'I have it' }).click();
  await until('it is shown once', 2000, async () => !(await text(page)).includes('shoalapi1.tok_9'));
  const row = page.locator('tbody tr', { hasText: 'noor' });
  await row.getByRole('button', { name: 'Revoke' }).click();
  await row.getByRole('textbox').fill('tok_9');
  await row.getByRole('button', { name: 'Revoke', exact: true }).click();
  await until('a revoked token is said so', 3000, async () => (await row.innerText()).includes('revoked'));
  await page.getByRole('link', { name: 'Audit' }).click();
  await until('the audit trail has it', 4000, says(page, 'create token'));
  await page.getByRole('searchbox').fill('drain');
  await until('and can be searched', 3000, async () => (await page.locator('tbody tr').count()) === 1);
  check('with links to what was changed', (await page.getByRole('link', { name: 'agt_1' }).getAttribute('href')) === '/agents/agt_1');
  await page.getByRole('link', { name: 'Tokens' }).click();
  const own = page.locator('tbody tr', { hasText: '(this login)' });
  await own.getByRole('button', { name: 'Revoke' }).click();
  check('revoking one’s own says so', (await own.innerText()).includes('You are logged in with it'));
  await own.getByRole('textbox').fill('tok_1');
  await own.getByRole('button', { name: 'Revoke', exact: true }).click();
  await until('and ends the login', 9000, says(page, 'the token of this browser’s login was revoked'));
  await page.context().close();
  fixture.stop();
}

async function looks(browser) {
  const fixture = await startFixture(kSmall), { people } = fixture.world;
  people.tokens[0].name = 'a.rather.long.name.of.somebody.who.is.an.admin.here@example.org';
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [360, 1280]) {
      const errors = [];
      const page = await open(browser, errors, width, { colorScheme });
      const look = async (name) => {
        const where = `${name}, ${width} px, ${colorScheme}`;
        await page.waitForTimeout(200);
        if (shots) await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
        await checkWidth(page, where);
        await checkAxe(page, where);
      };
      await page.goto(`${fixture.url}/tokens`);
      await field(page).waitFor();
      await look('login');
      await field(page).fill('shoalapi1.tok_1.wrong');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').waitFor();
      await look('login-refused');
      await logIn(page, 'admin');
      await page.locator('tbody tr').first().waitFor();
      await look('tokens');
      await page.getByLabel('Name of the person').fill(`new-${width}`);
      await page.getByRole('button', { name: 'Make the token' }).click();
      await page.getByRole('button', { name: 'I have it' }).waitFor();
      await page.getByRole('button', { name: 'Revoke' }).first().click();
      await look('token-made');
      await page.goto(`${fixture.url}/audit`);
      await page.locator('tbody tr').first().waitFor();
      await look('audit');
      check(`${width} px, ${colorScheme}: without an error`, errors.length === 0, errors.join('; '));
      await page.context().close();
    }
  }
  fixture.stop();
}

await runAll([refusals, tickets, (browser) => endsInTheMiddle(browser, false), (browser) => endsInTheMiddle(browser, true), tabs, scopes, tokens, looks]);
