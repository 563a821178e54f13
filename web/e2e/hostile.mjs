// Input that no good cluster gives, from e2e/fixture.mjs: markup and 200 characters in names, losses that are not
// numbers, a job without rounds, clocks that disagree, coordinators older and newer than the page; and several tabs
// that share one event stream.
import { startFixture } from './fixture.mjs';
import { check, checkAxe, open, runAll, text, until } from './harness.mjs';

const kPaths = ['/', '/jobs', '/jobs/new', '/jobs/job_1', '/jobs/job_1/topology', '/jobs/job_1/rounds', '/jobs/job_1/rounds?round=12&with=11', '/jobs/job_1/rounds?round=9999999&with=zzz', '/jobs/job_1/checkpoints', '/jobs/job_1/events',
  '/jobs/job_1/logs', '/agents/agt_1/logs',
  '/jobs/job_1/spec', '/jobs/compare?jobs=job_1,job_2', '/agents', '/agents/agt_1', '/agents/agt_2', '/checkpoints', '/checkpoints/ckpt_2', '/network', '/join', '/events'];

// Every page, at every width: something is shown, nothing injected, nothing thrown, nothing wider than the window.
async function everyPage(browser, name, fixture, look = async () => {}) {
  for (const width of [360, 1280]) {
    const errors = [];
    const page = await open(browser, errors, width);
    for (const path of kPaths) {
      await page.goto(fixture.url + path);
      await page.waitForFunction(() => !document.body.innerText.includes('Loading '), null, { timeout: 8000 }).catch(() => errors.push(`${path} still loads`));
      await page.waitForTimeout(150);
      const found = await page.evaluate(() => ({
        title: document.title,
        injected: document.querySelectorAll('main img, main script, [onerror]').length,
        shown: document.querySelector('main').innerText.trim().length,
        broken: document.body.innerText.includes('cannot show what the coordinator answered'),
        overflow: document.documentElement.scrollWidth - window.innerWidth,
      }));
      const bad = found.title !== 'Shoal' || found.injected > 0 || found.shown < 20 || found.broken || found.overflow > 0;
      check(`${name}, ${width} px: ${path}`, !bad && errors.length === 0, JSON.stringify({ ...found, errors: errors.splice(0) }));
      await look(page, path);
    }
    await page.context().close();
  }
}

async function hostile(browser) {
  const fixture = await startFixture({ agents: 30, stages: 3, replicas: 9, rounds: 40, hostile: true, programs: true });
  await everyPage(browser, 'markup, long names, NaN, clock ahead', fixture, async (page, path) => {
    if (path === '/jobs/job_1') check('steps that were not finite are counted', /\d+ of [\d,]+ steps skipped/.test(await text(page)));
    if (path === '/jobs/job_1') check('a loss that is no number is a dash', /Training loss\s*–/.test(await text(page)));
  });
  fixture.stop();
}

async function withoutRounds(browser) {
  const fixture = await startFixture({ agents: 3, stages: 1, replicas: 0, rounds: 0 });
  await everyPage(browser, 'no rounds, no replicas', fixture, async (page, path) => {
    if (path === '/jobs/job_1') check('it says what it waits for', /waiting for replicas/.test(await text(page)));
  });
  fixture.stop();
}

// Nobody knows the number of timed rounds, nor how many steps a slow replica will take.
async function timedRounds(browser) {
  const fixture = await startFixture({ agents: 5, stages: 1, replicas: 5, rounds: 40, timed: true });
  await everyPage(browser, 'timed rounds, steps by speed, ring', fixture, async (page, path) => {
    const said = await text(page);
    check(`and nothing is unknown in words: ${path}`, !/\b(null|undefined|NaN)\b/.test(said));
    if (path === '/jobs/job_1') {
      check('it says how they average', said.includes('diloco every 30s, slower replicas take fewer, ring, int8'));
      check('the last round is named without a total', /round 39(\n|,)/.test(said));
      check('the steps of the slow are a bound', /step \d+ of at most 50/.test(said));
    }
    if (path === '/jobs/job_1/rounds') check('and why a contribution was rejected', said.includes('rejected: outlier') && said.includes('43'));
  });
  fixture.stop();
}

// Nothing there is equal across groups, and nothing may be missed.
async function roundsInGroups(browser) {
  const fixture = await startFixture({ agents: 7, stages: 1, replicas: 7, rounds: 40, grouped: true });
  await everyPage(browser, 'rounds in groups', fixture, async (page, path) => {
    const said = await text(page);
    if (path === '/jobs/job_1/rounds') {
      check('who was with whom is said', said.includes('Group 0') && said.includes('node-0001, node-0002'));
      check('and which group gave up', said.includes('gave up after 3 attempts'));
      check('nobody is rejected', !said.includes('rejected') && said.includes('followed: joiner'));
    }
    if (path === '/jobs/job_1/topology') check('the topology has the groups of a round', /Groups of round \d+/.test(said));
  });
  fixture.stop();
}

// A job with a program of its own: what it logs, and who does not run it.
async function programs(browser) {
  const fixture = await startFixture({ agents: 3, stages: 1, replicas: 2, rounds: 40, programs: true });
  await everyPage(browser, 'a program of the job', fixture, async (page, path) => {
    if (path === '/jobs/job_1') {
      await until('each name that is logged has its chart', 4000, async () => (await page.locator('[data-testid=logged] .u-over').count()) === 2);
      const said = await text(page);
      check('with its name', said.includes('norm/stage0') && !said.includes('log.norm'));
      check('agents that do not run it are named', said.includes('2 agents here do not allow the program of this job: node-0002, node-0003'));
    }
    if (path === '/agents/agt_1') check('an agent says whose code it runs', (await text(page)).includes('runs programs of its host, code of ana, code of anybody'));
  });
  fixture.stop();
}

// GPUs that are lost, silent or cordoned, and why a job is placed so; of an older coordinator neither is known.
async function devicesAndReasons(browser) {
  const sizes = { agents: 6, stages: 2, replicas: 4, rounds: 40 };
  const fixture = await startFixture(sizes), older = await startFixture({ ...sizes, old: true });
  const errors = [];
  const page = await open(browser, errors);
  await page.goto(`${fixture.url}/agents/agt_2`);
  await until('each measure of a device has its curve', 4000, async () => (await page.locator('[data-testid=device-curves] .u-over').count()) === 4);
  const agent = await text(page);
  check('a cordon has its reason and its end', /Device 1 is cordoned since .*, because its driver reports a fault: XID 79.*Reset the GPU/.test(agent));
  const lost = page.locator('tr', { hasText: 'lost: its UUID is gone' });
  check('a lost device does not look healthy', (await lost.locator('.bad').count()) > 0 && (await lost.locator('.good').count()) === 0);
  check('the figures have their limits', agent.includes('14 GB here, 1 GB by others of 25.8 GB') && agent.includes('300 of 350 W'));
  await checkAxe(page, 'the agent page');
  await page.goto(`${fixture.url}/jobs/job_1/topology`);
  await until('the move that was considered has its figures', 4000, async () => (await text(page)).includes('it would gain 40 k tokens/s, but 1.60 GB at 5 Mbit/s take 42 min 45 s'));
  const reasons = await text(page);
  check('what limits the job is said', reasons.includes('The line of node-0001 (10 Mbit/s) limits it') && reasons.includes('measured, limits the job'));
  check('and who stands aside', reasons.includes('Device 1 of node-0002 stands aside: 210 k tokens/s with it, 240 k without'));
  check('lines that are too old are assumed', /100 Mbit\/s\s+assumed\s+40 min ago/.test(reasons));
  await checkAxe(page, 'the topology page');
  await page.goto(`${older.url}/agents/agt_2`);
  await until('without a history it says so', 4000, async () => (await text(page)).includes('This coordinator keeps no history of devices'));
  await page.goto(`${older.url}/jobs/job_1/topology`);
  await until('and without reasons', 4000, async () => (await text(page)).includes('This coordinator does not say why'));
  check('nothing was thrown', errors.length === 0, errors.join('; '));
  await page.context().close();
  fixture.stop();
  older.stop();
}

async function otherVersions(browser) {
  for (const [name, options] of [['older', { api_level: 0, min_api_level: 0 }], ['newer', { api_level: 9, min_api_level: 7 }]]) {
    const fixture = await startFixture({ agents: 3, stages: 1, replicas: 2, rounds: 9, ...options });
    const page = await open(browser, []);
    await page.goto(fixture.url);
    await until(`a ${name} coordinator is said so`, 4000, async () => (await text(page)).includes('another version than this page'));
    await page.context().close();
    fixture.stop();
  }
}

async function sharedStream(browser) {
  const fixture = await startFixture({ agents: 3, stages: 1, replicas: 2, rounds: 9 });
  const context = await browser.newContext();
  const pages = [];
  for (let i = 0; i < 4; ++i) {
    pages.push(await context.newPage());
    await pages[i].goto(`${fixture.url}/events`);
  }
  await pages[0].waitForSelector('tbody tr:not([aria-hidden])');
  await until('four tabs share one stream', 4000, async () => fixture.world.streams === 1);
  const newest = () => Promise.all(pages.map((page) => page.locator('tbody tr:not(.widest) td:nth-child(4)').first().innerText()));
  const before = await newest();
  await until('and each gets its events', 8000, async () => (await newest()).every((line, i) => line !== before[i]));
  for (const page of pages.slice(0, 3)) await page.close();
  await until('a closed tab does not end it for the others', 3000, async () => fixture.world.streams === 1);
  await pages[3].close();
  await until('the last one ends it', 16_000, async () => fixture.world.streams === 0);
  await context.close();

  const alone = await browser.newContext();
  await alone.addInitScript(() => delete globalThis.SharedWorker);
  const page = await alone.newPage();
  await page.goto(`${fixture.url}/events`);
  await until('a browser without shared workers has a stream of its own', 4000, async () => fixture.world.streams === 1);
  await alone.close();
  fixture.stop();
}

await runAll([hostile, withoutRounds, timedRounds, roundsInGroups, programs, devicesAndReasons, otherVersions, sharedStream]);
