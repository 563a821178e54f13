// The dashboard in a browser against a real cluster: a job submitted from the page, every page, with axe, narrow and
// wide, light and dark; a checkpoint verified and downloaded; an agent drained and put back; the job paused and resumed;
// an agent killed and seen on the run page; the coordinator killed and started again under an open page.
// BIN: the folder of the binaries. CHROMIUM: the browser. SHOTS: a folder for screenshots.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, checkAxe, checkWidth, finish, listen, text, until as eventually, withBrowser } from './harness.mjs';
import { askApi, logIn, runShoal } from './real_cluster.mjs';

const bin = process.env.BIN;
if (!bin) {
  console.error('error: BIN must be the folder of shoal, shoal-coordinator, shoal-agent and shoal-trainer');
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), 'shoal-e2e-'));
const data = join(folder, 'cluster');
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

let cluster;
const shoal = (...args) => runShoal(bin, folder, cluster, args);
const ask = (path) => askApi(cluster, path);
const up = (http, grpc, agents) =>
  JSON.parse(shoal('up', '--agents', agents, '--threads', '1', '--http', http, '--grpc', grpc, '--data-dir', data, '--detach', '--json'));

const kCheckpointEvery = 4;
let jobText = '';
function writeJob() {
  const sentence = 'The shoal turns as one although no fish leads it, and each of them is somewhere else. ';
  writeFileSync(join(folder, 'text.txt'), Array.from({ length: 4000 }, (_, i) => `${i} ${sentence}`).join('\n'));
  jobText =
    `name = "e2e"\n[model]\nfamily = "llama"\nlayers = 2\nhidden = 64\nheads = 4\ncontext = 64\n[data]\ntrain = "${join(folder, 'text.txt')}"\n` +
    `[train]\nsteps = 60000\nbatch = 4\n[sync]\nevery = 40\n[swarm]\nmin_replicas = 1\n` +
    `[checkpoint]\nevery_rounds = ${kCheckpointEvery}\nkeep = 3\n[eval]\nevery_rounds = 2\nbatches = 2\n`;
}

async function openPage(browser, options, complaints) {
  const context = await browser.newContext(options);
  await logIn(context, cluster);
  const page = listen(await context.newPage(), complaints);
  page.on('request', (request) => {
    if (!request.url().startsWith(cluster.http) && !request.url().startsWith('blob:'))
      complaints.push(`asked another origin: ${request.url()}`);
  });
  return page;
}

const kPages = {
  overview: ['/', 'Unfinished jobs'],
  'new-job': ['/jobs/new', 'accepted'],
  compare: ['/jobs/compare?jobs=e2e,other', 'Hyper-parameters'],
  topology: ['/jobs/e2e/topology', '2 replicas'],
  spec: ['/jobs/e2e/spec?with=job_2', 'every = 40'],
  'spec-resolved': ['/jobs/e2e/spec?text=resolved', 'As TOML, with every default'],
  agent: ['/agents/agt_1', 'Take it out of service'],
  logs: ['/jobs/e2e/logs?q=assigned', 'assigned to device 0'],
  'agent-logs': ['/agents/agt_1/logs?q=joined', 'joined as agt_1'],
  checkpoint: ['/checkpoints/', 'config.json'],
  join: ['/join', '--coordinator'],
  network: ['/network', 'Network'],
  jobs: ['/jobs?phase=training', 'e2e'],
  run: ['/jobs/e2e', 'Loss against tokens'],
  rounds: ['/jobs/e2e/rounds', 'Contributions to round'],
  'rounds-beside': ['/jobs/e2e/rounds?round=2&with=1', 'Round 1 beside round 2'],
  checkpoints: ['/jobs/e2e/checkpoints', 'ckpt_'],
  events: ['/jobs/e2e/events', 'round committed'],
  agents: ['/agents', 'agent-1'],
  tokens: ['/tokens', '(this login)'],
  audit: ['/audit', 'submit job'],
  'all-events': ['/events', 'round committed'],
  'all-checkpoints': ['/checkpoints', 'ckpt_'],
};

const newestCheckpoint = () =>
  JSON.parse(shoal('checkpoint', 'ls', 'e2e', '--json')).items.filter((one) => one.state === 'stored').at(-1).id;

async function checkSubmit(browser) {
  const page = await openPage(browser, { viewport: { width: 1280, height: 900 } }, []);
  await page.goto(`${cluster.http}/jobs/new`);
  const editor = page.getByRole('textbox', { name: 'The job, as TOML' });
  await eventually('a new job starts from an example', 5000, async () => (await editor.inputValue()).includes('[model]'));
  await editor.fill(jobText.replace('batch = 4', 'batch = 0'));
  await eventually('what the server refuses is beside its line', 5000, async () =>
    (await page.locator('.numbers .wrong').innerText()) === String(jobText.split('\n').indexOf('batch = 4') + 1));
  const submit = page.getByRole('button', { name: 'Submit the job' });
  check('and cannot be submitted', await submit.isDisabled());
  await editor.fill(jobText);
  await eventually('what it accepts has a plan', 5000, async () => (await text(page)).includes('it would start now on 2 devices'));
  if (shots) await page.screenshot({ path: join(shots, 'new-job-plan.png'), fullPage: true });
  await submit.click();
  await eventually('the submitted job has a page', 5000, async () => /\/jobs\/job_\d+$/.test(page.url()));
  return page;
}

async function checkDrain(browser) {
  const page = await openPage(browser, { viewport: { width: 1280, height: 900 } }, []);
  await page.goto(`${cluster.http}/agents/agt_2`);
  const drain = page.getByRole('button', { name: 'Drain' });
  await drain.waitFor();  // until then the heading is the id
  const name = await page.locator('h1').innerText();
  await drain.click();
  check('draining wants the name', await page.getByRole('button', { name: 'Drain', exact: true }).isDisabled());
  await page.getByRole('textbox').fill(name);
  await page.getByRole('button', { name: 'Drain', exact: true }).click();
  await eventually('a drained agent has no replica after the next commit', 30_000, async () => (await text(page)).includes('None: it is free'));
  if (shots) await page.screenshot({ path: join(shots, 'drained.png'), fullPage: true });
  await page.getByRole('button', { name: 'Put it back into service' }).click();
  await eventually('put back, it gets one again', 30_000, async () => /rep_\d+/.test(await page.locator('main table').nth(1).innerText()));
  await page.context().close();
}

async function checkPages(browser) {
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [360, 1280, 2560]) {
      const complaints = [];
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 900 }, bypassCSP: false }, complaints);
      for (const [name, [path, wanted]] of Object.entries(kPages)) {
        await page.goto(cluster.http + path + (name === 'checkpoint' ? newestCheckpoint() : ''));
        const where = `${name}, ${width} px, ${colorScheme}`;
        await eventually(`${where}: shows "${wanted}"`, 8000, async () => (await text(page)).includes(wanted));
        await page.waitForTimeout(300);
        if (shots) await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
        await checkWidth(page, where);
        if (width !== 2560) await checkAxe(page, where);
      }
      check(`${width} px, ${colorScheme}: nothing to complain of`, complaints.length === 0, complaints.slice(0, 3).join('; '));
      await page.context().close();
    }
  }
}

// What a paused job looks like, where it is shown.
const kPausedPages = {
  run: ['/jobs/e2e', 'nobody: the job is paused'],
  overview: ['/', '0 training, 1 paused'],
  jobs: ['/jobs?phase=paused', 'e2e'],
  topology: ['/jobs/e2e/topology', 'paused'],
};

async function checkPausedPages(browser) {
  for (const colorScheme of ['light', 'dark']) {
    const page = await openPage(browser, { colorScheme, viewport: { width: 1280, height: 900 } }, []);
    for (const [name, [path, wanted]] of Object.entries(kPausedPages)) {
      await page.goto(cluster.http + path);
      await eventually(`${name}, paused, ${colorScheme}: shows "${wanted}"`, 8000, async () => (await text(page)).includes(wanted));
      await page.waitForTimeout(300);
      check(`${name}, paused, ${colorScheme}: nothing is late`, !/, late:|is slow/.test(await text(page)));
      if (shots) await page.screenshot({ path: join(shots, `paused-${name}-${colorScheme}.png`), fullPage: true });
    }
    await page.context().close();
  }
}

async function checkPause(browser) {
  const page = await openPage(browser, { viewport: { width: 1280, height: 900 } }, []);
  await page.goto(`${cluster.http}/jobs/e2e`);
  await page.getByRole('button', { name: 'Pause' }).click();
  const pause = page.getByRole('button', { name: 'Pause', exact: true });
  check('pausing wants the name', await pause.isDisabled());
  await page.getByRole('textbox').fill('e2e');
  await pause.click();
  await eventually('a job that was told to pause says so', 60_000, async () => /It will be paused|It is paused/.test(await text(page)));
  await eventually('and is paused when its round is stored', 60_000, async () => (await text(page)).includes('It is paused and holds no device.'));
  const { progress, epoch } = await statusNow();
  await checkPausedPages(browser);
  await page.waitForTimeout(11_000); // longer than any round takes
  check('it stays where it was', (await statusNow()).progress.rounds_committed === progress.rounds_committed);
  let late = false;
  await page.getByRole('button', { name: 'Resume' }).click();
  await eventually('resumed, it trains on', 60_000, async () => {
    late ||= /, late:/.test(await text(page));
    return (await statusNow()).progress.rounds_committed > progress.rounds_committed;
  });
  check('and nothing says that it was late', !late);
  check('it lost nothing', (await statusNow()).epoch === epoch);
  await eventually('its page can pause it again', 10_000, async () => page.getByRole('button', { name: 'Pause' }).isVisible());
  await page.context().close();
}

async function checkBadAddresses(browser) {
  const page = await openPage(browser, {}, []);
  await page.goto(`${cluster.http}/jobs/${encodeURIComponent('<img src=x onerror=alert(1)>')}`);
  await eventually('a job that is not there is said so, without markup', 5000, async () =>
    (await text(page)).includes('there is no job') && (await page.locator('main img').count()) === 0);
  await page.context().close();
}

async function checkKeyboard(browser) {
  const page = await openPage(browser, { viewport: { width: 1280, height: 900 } }, []);
  await page.goto(`${cluster.http}/jobs/e2e`);
  await page.waitForSelector('.u-wrap');
  await page.keyboard.press('Tab');
  check('the first stop of the keyboard is the way to the content', (await page.evaluate(() => document.activeElement.className)) === 'skip');
  await page.getByRole('button', { name: 'Table of Nats per token' }).focus();
  await page.keyboard.press('Enter');
  check('a chart becomes a table by keyboard', (await page.locator('.scroll.tall tbody tr').count()) > 0);
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV of Nats per token' }).click()]);
  const csv = readFileSync(await download.path(), 'utf8');
  check('a chart can be saved as CSV', csv.startsWith('Tokens,Training,Validation\n') && csv.split('\n').length > 3);
  await page.goto(`${cluster.http}/checkpoints/${newestCheckpoint()}`);
  await page.getByRole('button', { name: 'Verify all files' }).click();
  await eventually('the files of a checkpoint are as recorded', 10_000, async () => (await text(page)).includes('every file is as recorded'));
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'config.json' }).first().click()]);
  check('a file of a checkpoint can be downloaded', readFileSync(await file.path(), 'utf8').includes('hidden_size'));
  await page.context().close();
}

async function checkKilledAgent(browser) {
  const page = await openPage(browser, { viewport: { width: 1280, height: 900 } }, []);
  await page.goto(`${cluster.http}/jobs/e2e`);
  await eventually('the run page shows two replicas that serve', 8000, async () => (await text(page)).includes('2 serve'));
  process.kill(cluster.pids.agents[1], 'SIGKILL');
  await eventually('the killed agent is on the run page', 3000, async () =>
    /agent-\d/.test(await page.getByTestId('failures').innerText({ timeout: 200 })));
  await eventually('with what became of it', 30_000, async () =>
    /→ round \d/.test(await page.getByTestId('failures').innerText({ timeout: 200 })));
  await eventually('and is marked in the charts', 10_000, async () => /Dashed: [1-9]\d* failure/.test(await text(page)));
  if (shots) await page.screenshot({ path: join(shots, 'killed-agent.png'), fullPage: true });
  return page;
}

// The losses that the page has drawn, from the file behind its chart, by tokens.
async function drawnLosses(page) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV of Nats per token' }).click()]);
  const rows = readFileSync(await download.path(), 'utf8').trim().split('\n').slice(1).map((row) => row.split(','));
  return rows.filter(([, loss]) => loss !== '').map(([tokens, loss]) => `${Number(tokens)} ${Number(loss)}`);
}

async function storedSeries(x) {
  const [line] = (await ask(`/jobs/e2e/series/query?name=train_loss&x=${x}&max_points=10000`)).series;
  return line.x.map((at, i) => [at, line.y[i]]).filter(([, y]) => y !== null);
}

// What a page asks a series for (src/sources.ts). Longer ones reach it thinned out and cannot be compared point by point, so
// the run has to be shorter when this looks.
const kChartPoints = 800;

// Everything that is stored is drawn, from before the restart and after it, and no round is missing in between.
async function checkNoGap(page, before) {
  // More rounds are committed while this looks.
  const stored = (await storedSeries('tokens')).map(([tokens, loss]) => `${tokens} ${loss}`);
  check('the run is short enough to be drawn point by point', stored.length < kChartPoints, `${stored.length} points of at most ${kChartPoints}`);
  await eventually('the chart has every point of the series, across the restart', 15_000, async () => {
    const drawn = await drawnLosses(page);
    const off = stored.findIndex((point, i) => point !== drawn[i]);
    if (off >= 0) throw new Error(`point ${off} of ${stored.length}: stored ${stored[off]}, drawn ${drawn[off]} of ${drawn.length}`);
    return drawn[0] === before[0];
  });
  const rounds = (await storedSeries('round')).map(([round]) => round);
  const gaps = rounds.filter((round, i) => i > 0 && round !== rounds[i - 1] + 1);
  check('and no round is missing in it', rounds.length > 0 && gaps.length === 0, `${rounds.length} rounds${gaps.length > 0 ? `, gaps before ${gaps.join()}` : ''}`);
}

const statusNow = async () => (await ask('/jobs/e2e')).status;

// All trainers end between two checkpoints, so the job goes back to the older one: what it trained after that no longer counts.
async function checkRestart(page) {
  const http = cluster.http.replace('http://', '');
  const before = await page.evaluate(() => performance.timeOrigin);
  const drawnBefore = await drawnLosses(page);
  const rounds = async () => Number(/round ([\d,]+) of/.exec(await text(page))?.[1]?.replaceAll(',', '') ?? 0);
  await eventually('the newest round is in no checkpoint', 60_000, async () => (await statusNow()).progress.rounds_committed % kCheckpointEvery === 1);
  const { epoch } = await statusNow();
  shoal('down', '--data-dir', data);
  await eventually('a page without its coordinator says that it is stale', 5000, async () => (await text(page)).includes('Stale since'));
  check('and nothing on it looks healthy', (await page.locator('main .state.good').count()) === 0);
  if (shots) await page.screenshot({ path: join(shots, 'stale.png'), fullPage: false });
  cluster = up(http, cluster.grpc, '2');
  await eventually('it catches up', 20_000, async () => !(await text(page)).includes('Stale since'));
  await eventually('the job rolls back to a checkpoint', 60_000, async () => (await statusNow()).epoch > epoch);
  const seen = await rounds();
  await eventually('and continues', 120_000, async () => (await rounds()) > seen);
  await checkNoGap(page, drawnBefore);
  check('without having been loaded again', (await page.evaluate(() => performance.timeOrigin)) === before);
}

async function checkAll(browser) {
  cluster = up('127.0.0.1:0', '127.0.0.1:0', '2');
  const first = await checkSubmit(browser);
  await eventually('the first rounds appear on an open page', 60_000, async () => /round [1-9]\d* of/.test(await text(first)));
  await eventually('and the first checkpoint', 60_000, async () => /ckpt.\d+ round/.test(await text(first)));
  await first.context().close();
  writeFileSync(join(folder, 'other.toml'), jobText.replace('"e2e"', '"other"').replace('every = 40', 'every = 50'));
  shoal('job', 'submit', join(folder, 'other.toml'));
  shoal('job', 'cancel', 'other');
  await checkPages(browser);
  await checkBadAddresses(browser);
  await checkDrain(browser);
  await checkKeyboard(browser);
  await checkPause(browser);
  const page = await checkKilledAgent(browser);
  await checkRestart(page);
}

writeJob();
try {
  await withBrowser(checkAll);
} finally {
  try {
    shoal('down', '--data-dir', data);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
finish();
