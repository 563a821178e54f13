// The pictures of the README, taken of a live pipeline: BIN=build/bin node web/e2e/pictures.mjs. Six agents train a
// small model of two stages on the text of docs/; when it has run for a while and one agent has been lost and replaced,
// docs/images/run.png and topology.png are rewritten, with pngquant where it is installed.
import { chromium } from 'playwright-core';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { askApi, logIn, runShoal } from './real_cluster.mjs';

const bin = process.env.BIN;
if (!bin) {
  console.error('error: BIN must be the folder of shoal, shoal-coordinator, shoal-agent and shoal-trainer');
  process.exit(2);
}
const root = fileURLToPath(new URL('../..', import.meta.url));
const images = join(root, 'docs/images');
const folder = mkdtempSync(join(tmpdir(), 'shoal-pictures-'));
const data = join(folder, 'cluster');
const kRounds = 16, kDeadlineMs = 900_000;

let cluster;
const shoal = (...args) => runShoal(bin, folder, cluster, args);

function writeJob() {
  const pages = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md')).sort();
  writeFileSync(join(folder, 'text.txt'), pages.map((name) => readFileSync(join(root, 'docs', name), 'utf8')).join('\n'));
  const job = join(folder, 'pipeline.toml');
  writeFileSync(job, `name = "pipeline"
[model]
family = "llama"
layers = 4
hidden = 64
heads = 4
context = 64
[data]
train = "${join(folder, 'text.txt')}"
[train]
steps = 2000
batch = 12
microbatch = 1
lr = 3e-3
[sync]
every = 20
[swarm]
stages = 2
min_replicas = 2
[checkpoint]
every_rounds = 8
[eval]
every_rounds = 4
batches = 2
`);
  return job;
}

async function committed() {
  const job = await askApi(cluster, '/jobs/pipeline');
  return job.status?.progress.rounds_committed ?? 0;
}

async function untilRound(round) {
  const end = Date.now() + kDeadlineMs;
  while ((await committed()) < round) {
    if (Date.now() > end) throw new Error(`no round ${round} within ${kDeadlineMs / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

async function take(browser, url, name, ready) {
  const context = await browser.newContext({ colorScheme: 'light', viewport: { width: 1280, height: 900 } });
  await logIn(context, cluster);
  const page = await context.newPage();
  await page.goto(url);
  await ready(page);
  await page.waitForTimeout(500);
  const file = join(images, `${name}.png`);
  await page.screenshot({ path: file, fullPage: true });
  try {
    execFileSync('pngquant', ['--force', '--output', file, '128', file]);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    console.log('pngquant is not installed: the picture is larger than it need be');
  }
  await page.context().close();
}

cluster = JSON.parse(shoal('up', '--agents', '6', '--threads', '1', '--http', '127.0.0.1:0', '--grpc', '127.0.0.1:0', '--data-dir', data, '--detach', '--json'));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
try {
  shoal('job', 'submit', writeJob());
  await untilRound(kRounds / 2);
  process.kill(cluster.pids.agents[5], 'SIGKILL');
  await untilRound(kRounds);
  await take(browser, `${cluster.http}/jobs/pipeline`, 'run', (page) => page.waitForSelector('.u-over'));
  await take(browser, `${cluster.http}/jobs/pipeline/topology`, 'topology', (page) => page.locator('.cell').first().hover());
} finally {
  await browser.close();
  shoal('down', '--data-dir', data);
  rmSync(folder, { recursive: true, force: true });
}
