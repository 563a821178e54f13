// Screenshots of every page, light and dark, narrow and wide: node e2e/shots.mjs URL JOB FOLDER [PAGE…]. URL is a
// coordinator's, or what e2e/fixture.mjs prints. HEIGHT=620 keeps only so much of each page, WIDTHS=360,1280 takes those
// only. TOKEN_FILE names a file with a token for the coordinator (admin.token). All of them are about a hundred
// pictures: a minute or two on a quiet machine, several on a busy one.
import { chromium } from 'playwright-core';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { logIn } from './real_cluster.mjs';

const [url, job, folder, ...only] = process.argv.slice(2);
if (folder === undefined) {
  console.error('usage: node e2e/shots.mjs URL JOB FOLDER');
  process.exit(2);
}
const height = Number(process.env.HEIGHT ?? 0);
const widths = (process.env.WIDTHS ?? '360,1280,2560').split(',').map(Number);
mkdirSync(folder, { recursive: true });
const pages = {
  overview: '/',
  jobs: '/jobs',
  'new-job': '/jobs/new',
  compare: `/jobs/compare?jobs=${job},job_2`,
  run: `/jobs/${job}`,
  rounds: `/jobs/${job}/rounds`,
  'rounds-beside': `/jobs/${job}/rounds?round=3&with=2`,
  checkpoints: `/jobs/${job}/checkpoints`,
  'all-checkpoints': '/checkpoints',
  topology: `/jobs/${job}/topology`,
  spec: `/jobs/${job}/spec?with=job_2`,
  'job-events': `/jobs/${job}/events`,
  logs: `/jobs/${job}/logs`,
  agents: '/agents',
  agent: '/agents/agt_2',
  network: '/network',
  join: '/join',
  events: '/events',
};
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
async function take(page, name, path, file) {
  await page.goto(url + path);
  await page.waitForSelector('h1');
  await page.waitForFunction(() => ![...document.querySelectorAll('.empty')].some((one) => one.textContent.startsWith('Loading ')));
  if (name === 'topology') await page.locator('.cell').first().hover({ timeout: 2000 }).catch(() => {}); // its detail
  await page.waitForTimeout(400);
  await page.screenshot({ path: file, fullPage: height === 0 });
}

try {
  for (const colorScheme of ['light', 'dark']) {
    for (const width of widths) {
      const context = await browser.newContext({ colorScheme, viewport: { width, height: height || 900 } });
      if (process.env.TOKEN_FILE) await logIn(context, { http: url, admin_token_file: process.env.TOKEN_FILE });
      const page = await context.newPage();
      const started = Date.now();
      for (const [name, path] of Object.entries(pages)) {
        if (only.length > 0 && !only.includes(name)) continue;
        await take(page, name, path, join(folder, `${name}-${width}-${colorScheme}.png`));
      }
      await context.close();
      console.log(`${width} px, ${colorScheme}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
    }
  }
} finally {
  await browser.close();
}
