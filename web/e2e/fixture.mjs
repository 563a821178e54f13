// A coordinator of generated data: answers the REST API and serves web/dist, so that the pages can be measured
// at sizes that no test machine runs and shown input that no good cluster gives. Everything follows from the
// sizes; nothing is random. `node e2e/fixture.mjs [--agents N] [--stages N] [--replicas N] [--rounds N] [--raw]
// [--hostile] [--timed] [--grouped] [--people] [--programs] [--old] [--port N]`; --raw answers series without thinning them, as an older server would; --timed has
// rounds of 30 seconds in which slower replicas take fewer steps, averaged in a ring; --grouped averages in pairs, one of which gave
// up, with a replica that came too late to have trained; --programs: a job logs values of its own, and agents do not run it; --old lacks the newest routes; --people asks for a login (fixture_people.mjs; the token of the admin is
// shoalapi1.tok_1.admin).
import { createServer } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { answerPeople, isStillIn, makePeople } from './fixture_people.mjs';

const kTypes = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css', '.svg': 'image/svg+xml' };
const kPolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";
const dist = fileURLToPath(new URL('../dist', import.meta.url));
const examples = fileURLToPath(new URL('../../examples', import.meta.url));
const wave = (i, period) => Math.sin((i * 2 * Math.PI) / period);

export const kDefaults = { agents: 1000, stages: 8, replicas: 64, rounds: 10_000, raw: false, hostile: false, timed: false, grouped: false, people: false, programs: false, old: false, port: 0 };

// What a page must survive: markup, long names, unicode.
const kMarkup = '<img src=x onerror="document.title=\'injected\'"><script>document.title="injected"</script>';
const kLong = 'ä'.repeat(100) + '名'.repeat(100);

const gpus = (i) => (i < 20 ? 1 + (i % 2) : 1); // of an agent

// The second device of some agents is lost, silent or answers in part; hostile drivers say long things.
function sampleOf(options, i, index) {
  const answer = index === 0 ? 'whole' : ['lost', 'silent', 'partial'][(i >> 1) % 3];
  const gone = answer === 'lost';
  return {
    uuid: `GPU-${i + 1}-${index}`, answer, age_s: answer === 'silent' ? 45 : 0, error: answer === 'whole' ? '' : options.hostile ? kMarkup + kLong : 'no answer within 5 s',
    use: gone ? null : { busy: 0.5 + (i % 5) / 10, stolen: i % 3 === 0 ? 0.04 : 0, used_here_bytes: 14e9, used_elsewhere_bytes: (i % 3) * 1e9 },
    climate: gone ? null : { celsius: 55 + (i % 30), watts: 300, watts_limit: 350, mhz: 1400, mhz_max: 1980, throttled: i % 3 === 0 ? ['sw_power_cap', 'hw_thermal_slowdown'] : [] },
    errors: gone ? null : { ecc_corrected: i, ecc_uncorrected: 0, rows_remapped: i % 4, remap_pending: i % 16 === 3, remap_failed: false, pcie_replays: 2 * i, nvlink_errors: 0, recovery: index === 1 ? 'reset_gpu' : 'none', xids: index === 1 ? [{ xid: 79, count: 1, ago_s: 300 }, { xid: 31, count: 4, ago_s: 4000 }] : [] },
  };
}

// A day of a device: by ten minutes, the last three hours by the minute, with an hour in which nobody heard of it.
function historyOf(agent) {
  const now = Math.floor(Date.now() / 60_000) * 60, border = Math.ceil((now - 3 * 3600) / 600) * 600, times = [];
  for (let at = border - 21 * 3600; at < border; at += 600) if (at < border - 6 * 3600 || at > border - 5 * 3600) times.push(at);
  for (let at = border; at < now; at += 60) times.push(at);
  return agent.devices.map((one) => ({
    uuid: one.uuid, index: one.index, name: one.name,
    points: times.map((at, i) => ({
      at: new Date(at * 1000).toISOString(), busy: 0.7 + 0.2 * wave(i, 40), used_here_bytes: 14e9 + 2e9 * wave(i, 90), used_elsewhere_bytes: i > 200 ? 3e9 : 0, celsius: 62 + 9 * wave(i, 60),
      watts: one.index === 1 ? 0 : 300 + 40 * wave(i, 50), mhz: 1400, throttled: 0,
    })),
  }));
}

function makeData(options) {
  const t0 = Date.now();
  const at = (secondsAgo) => new Date(t0 - secondsAgo * 1000).toISOString();
  const name = (i) => (options.hostile && i === 0 ? kMarkup : options.hostile && i === 1 ? kLong : `node-${String(i + 1).padStart(4, '0')}`);
  const agents = Array.from({ length: options.agents }, (_, i) => ({
    id: `agt_${i + 1}`, uid: `uid-${i + 1}`, name: name(i), version: '0.1.0', host: `10.0.${i >> 8}.${i & 255}`, incarnation: 1 + (i % 3),
    state: i < options.replicas ? 'active' : i % 97 === 0 ? 'gone' : 'idle', gone_reason: i >= options.replicas && i % 97 === 0 ? 'lost' : null,
    cordoned: i % 53 === 7, quarantine: i % 67 === 1 ? { until: at(-600), reason: 'non_finite', count: 2 } : null, losses: i % 5, availability: 1 - (i % 5) / 10,
    memory_refusals: i % 71 === 1 ? [{ device: 0, needed_bytes: 20e9, at: at(900) }] : [], health: i % 41 === 40 ? 'yellow' : 'green', last_seen_at: at(options.hostile ? -3600 : i % 3), resident_bytes: 2e9 + i * 1e6,
    devices: [0, 1].slice(0, gpus(i)).map((index) => ({ index, kind: 'cuda', name: ['RTX 3090', 'RTX 4090', 'A100'][i % 3], memory_bytes: [24, 24, 80][i % 3] * 2 ** 30, total_bytes: [24, 24, 80][i % 3] * 2 ** 30, gflops: 20_000 + (i % 7) * 3000, bf16: true, uuid: `GPU-${i + 1}-${index}` })),
    device_samples: i % 5 === 4 ? [] : [0, 1].slice(0, gpus(i)).map((index) => sampleOf(options, i, index)), health_reason: i % 41 === 40 ? 'its heartbeat is late' : '',
    cordoned_devices: i % 8 === 1 && gpus(i) === 2 ? [{ device: 1, at: at(300), job: null, code: '', reasons: [options.hostile ? kMarkup + kLong : 'XID 79: the GPU has fallen off the bus'], uuid: `GPU-${i + 1}-1`, fault: 'xid', ends: `reset the GPU or reboot its host, then run shoal agent uncordon ${name(i)}` }] : [],
    labels: { region: ['eu', 'us', 'asia'][i % 3] }, runs_programs: options.programs && i === 0, code_from: options.programs && i === 0 ? ['ana', '*'] : [], joined_at: at(86_400 - i), updated_at: at(60),
  }));
  for (const one of agents) {
    const silent = one.device_samples.filter((sample) => sample.answer !== 'whole');
    one.late = one.health === 'yellow';
    one.device_troubles = [
      ...one.cordoned_devices.map(({ device, uuid, reasons }) => ({ device, uuid, trouble: 'cordoned', reason: reasons.join('; ') })),
      ...silent.map(({ uuid, answer, error }) => ({ device: 1, uuid, trouble: answer, reason: error })),
    ];
    if (one.late || one.device_troubles.length === 0) continue;
    one.health = 'yellow';
    one.health_reason = one.device_troubles.map(({ device, trouble, reason }) => `device ${device} is ${trouble}: ${reason}`).join('; ');
  }
  const stageOf = (i) => i % options.stages;
  const replicas = Array.from({ length: options.replicas }, (_, i) => ({
    id: `rep_${i + 1}`, job: 'job_1', agent: `agt_${i + 1}`, incarnation: 1, device: 0, stage: stageOf(i),
    state: i % 31 === 30 ? 'loading' : 'serving', failure: null, detail: '', source: { kind: 'peer', round: options.rounds - 5, replica: 'rep_1', checkpoint: null },
    address: `10.0.0.${i}:7100`, epoch: 0, held_round: options.rounds - 1, anchor_digest: 'ab'.repeat(16),
    live: { at: at(1), round: options.rounds, inner_step: options.rounds * 50 - 20, tokens: 12_345, train_loss: 2.1, gradient_norm: 0.4, learning_rate: 1e-3, tokens_per_second: 4000 + i * 10 },
    created_at: at(7200), updated_at: at(10),
  }));
  return { t0, at, agents, replicas };
}

function makeJob(options, data, n, jobName, over = false) {
  const empty = options.rounds === 0;
  const tokens = options.rounds * 819_200;
  return {
    id: `job_${n}`, name: jobName, owner: n === 1 ? 'ana' : '', created_at: data.at(90_000), updated_at: data.at(3),
    spec: {
      name: jobName, model: { family: 'llama', layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14_336, context: 2048, vocab: 32_000, tie_embeddings: false },
      data: { train: '/data/train.bin', tokenizer: 'uint16', val_fraction: 0.01 },
      train: { steps: (options.rounds + 2000) * 50, batch: 8 * n, microbatch: 1, lr: 3e-4 * n, min_lr: 3e-5, warmup: 500, schedule: 'cosine', weight_decay: 0.1, betas: [0.9, 0.99], clip: 1, precision: 'bf16', seed: n },
      sync: { algorithm: 'diloco', every: options.timed ? '30s' : 50, balance: options.timed ? 'speed' : 'equal', topology: options.timed ? 'ring' : options.grouped ? 'gossip' : 'butterfly', codec: n === 1 && !options.grouped ? 'int8' : 'fp32', outer: { lr: 0.7, momentum: 0.9 } },
      swarm: { stages: options.stages, min_replicas: 2, max_replicas: 0, activations: 'int8', recompute: 'recompute', schedule: 'flush' },
      checkpoint: { every_rounds: 50, keep: 3 }, eval: { every_rounds: 10, batches: 20 },
    },
    status: {
      phase: over ? 'completed' : empty ? 'gathering' : 'training', desired: 'run', reason: over ? 'finished' : empty ? 'waiting_for_replicas' : 'running', detail: options.hostile ? kMarkup : '',
      progress: {
        inner_step: options.rounds * 50, inner_steps_total: (options.rounds + 2000) * 50, rounds_committed: Math.max(0, options.rounds - 1), rounds_total: options.timed ? null : options.rounds + 2000,
        tokens, tokens_committed: tokens, tokens_per_second: over || empty ? null : 256_000, replicas_training: options.replicas,
      },
      train_loss: options.hostile || empty ? null : 2.1, validation_loss: empty ? null : 2.2, validation_round: empty ? null : options.rounds - 10, bytes_sent: options.rounds * 4e8, bytes_ddp: options.rounds * 1.6e11,
      parameters: 6_738_415_616, epoch: 0, started_at: empty ? null : data.at(options.rounds * 8), committed_at: empty ? null : data.at(over ? 5000 : 3), finished_at: over ? data.at(5000) : null, not_run_by: options.programs ? ['node-0002', options.hostile ? kMarkup : 'node-0003'] : [],
    },
  };
}

// The members of the second pair keep what they trained; the first replica of all had trained nothing.
function groupByPairs(contributions) {
  contributions.forEach((one, i) => {
    one.group = i >> 1;
    one.state = one.group === 1 ? 'kept' : i === 0 ? 'followed' : 'committed';
    one.reject_reason = i === 0 ? 'joiner' : null;
    one.digest = one.group === 1 ? null : String(one.group).repeat(32).slice(0, 32);
    one.anchor_digest = String(i).repeat(32).slice(0, 32);
  });
}

function makeRound(options, data, n) {
  const age = (options.rounds - n) * 8;
  const open = n === options.rounds;
  const contributions = data.replicas.map((replica, i) => ({
    replica: replica.id, agent: replica.agent, stage: replica.stage, state: open ? (i % 5 ? 'reported' : 'training') : (n + i) % 211 === 0 ? 'lost' : options.timed && i === 1 ? 'rejected' : 'committed', reject_reason: options.timed && !open && i === 1 ? 'outlier' : null,
    tokens: 12_800, steps: options.timed ? 50 - i * 7 : 50, train_loss: options.hostile ? null : 2 + 0.1 * wave(n + i, 50), norm: 0.4 + 0.02 * (i % 9), max_abs: 0.01, nonfinite: options.hostile ? 7 : 0, skipped: options.hostile ? 3 : 0, weight: 12_800, clip_factor: 1,
    digest: open ? null : 'cd'.repeat(16), anchor_digest: open ? null : 'ab'.repeat(16), bytes_sent: 3e6, bytes_received: 3e6,
    phases: { train_s: 5 + (i % 7) * 0.2, wait_s: 1.2 - (i % 7) * 0.2, reduce_s: open ? null : 1, vote_s: open ? null : 0.1, apply_s: open ? null : 0.3 },
  }));
  if (options.grouped && !open) groupByPairs(contributions);
  const topology = { topology: open ? null : 'butterfly', topology_reason: open ? null : options.hostile ? kMarkup + kLong : 'the job names it' };
  const whole = [{ attempt: open ? 0 : 1, digest: open ? null : '0'.repeat(32), given_up: false, ...topology }];
  const reduces = options.grouped ? Array.from({ length: Math.ceil(contributions.length / 2) }, (_, i) => ({ attempt: i === 1 ? 3 : 1, digest: open || i === 1 ? null : String(i).repeat(32).slice(0, 32), given_up: !open && i === 1, ...topology })) : whole;
  return {
    round: n, epoch: 0, reduces, state: open ? 'open' : 'committed', attempt: open ? 0 : 1, aborts: 0, abort_reason: null, from_step: (n - 1) * 50, to_step: n * 50,
    digest: open ? null : 'cd'.repeat(16), anchor_digest: open ? null : 'ab'.repeat(16), momentum_digest: null, opened_at: data.at(age + 8), frozen_at: open ? null : data.at(age + 1.8), committed_at: open ? null : data.at(age + 0.3),
    seconds: { train: open ? null : 6.2, reduce: open ? null : 1, vote: open ? null : 0.1, apply: open ? null : 0.3, total: open ? null : 7.7 },
    tokens: 819_200, train_loss: open ? null : lossAt(options, n), validation_loss: null, bytes_sent: 2e8, bytes_received: 2e8, contributions,
  };
}

const lossAt = (options, n) => 2 + 6 * Math.exp(-n / (options.rounds / 6 || 1)) + 0.05 * wave(n, 37) + 0.03 * wave(n, 11);

const kMeasures = { train_loss: lossAt, validation_loss: (o, n) => lossAt(o, n) + 0.1, round_seconds: (o, n) => 7.7 + 0.5 * wave(n, 90), round_bytes: () => 2e8 };

// What a program logs (options.programs).
const kLogged = { 'log.aux': (o, n) => 0.1 + 0.05 * wave(n, 20), 'log.norm/stage0': (o, n) => 1 + 0.1 * wave(n, 9) };

const measures = (options) => (options.programs ? { ...kMeasures, ...kLogged } : kMeasures);

const answered = new Map(); // series are the same each time; making 100,000 points is not what is measured

function series(options, data, url) {
  const name = url.searchParams.get('name'), x = url.searchParams.get('x') ?? 'step';
  const count = options.raw ? 100_000 : Math.min(options.rounds, Number(url.searchParams.get('max_points') ?? 1000));
  const scale = { tokens: 819_200, step: 50, round: 1, time: 8 }[x];
  const xs = [], ys = [], time = [];
  for (let i = 1; i <= count; ++i) {
    const round = (i * options.rounds) / count;
    time.push(data.t0 / 1000 - (options.rounds - round) * 8);
    xs.push(x === 'time' ? data.t0 / 1000 - (options.rounds - round) * 8 : round * scale);
    ys.push(options.hostile && i % 3 === 0 ? null : measures(options)[name]?.(options, round) ?? null);
  }
  return { job: 'job_1', name, x, by: 'job', series: [{ replica: null, x: xs, y: ys, y_min: ys, y_max: ys, time }] };
}

function topology(options, data) {
  const stages = Array.from({ length: options.stages }, (_, i) => ({
    stage: i, units: { first: i * 5, last: i * 5 + 5 }, layers: 4, parameters: 842e6, memory_bytes: 14e9,
  }));
  const piped = options.stages > 1;
  const replicas = data.replicas.map((one, i) => ({
    id: one.id, agent: one.agent, agent_name: data.agents[i]?.name ?? null, device: one.device, stage: one.stage, state: one.state, health: data.agents[i]?.health ?? null, gflops: 20_000 + (i % 7) * 3000,
    queued: piped ? i % 6 : null, in_flight: piped ? 4 + (i % 5) : null, service_s: piped ? 0.04 + (i % 7) * 0.011 : null,
    microbatches_per_second: piped ? 12 + (i % 7) : null, recomputed: piped ? i % 13 : null, added_again: piped ? i % 5 : null, busy: piped ? 0.55 + (i % 5) * 0.1 : null,
  }));
  const links = [];
  for (const from of replicas)
    for (const to of replicas)
      if (to.stage === from.stage + 1) {
        const k = links.length;
        links.push({ from: from.id, to: to.id, round_trip_s: 0.004 + (k % 23) * 0.003, bytes_per_second: 1e5 + (k % 17) * 4e5 });
      }
  return { stages, replicas, links };
}

function pageOf(items, url, newestFirst) {
  const limit = Number(url.searchParams.get('limit') ?? 50);
  const from = Number(url.searchParams.get('cursor') ?? 0);
  const ordered = (url.searchParams.get('order') ?? (newestFirst ? 'desc' : 'asc')) === 'desc' ? [...items].reverse() : items;
  const next = from + limit;
  return { items: ordered.slice(from, next), next_cursor: next < items.length ? String(next) : null };
}

// A list of `count` made on demand, so that ten thousand rounds cost nothing until they are asked for.
function pageOfMade(count, url, make) {
  const limit = Number(url.searchParams.get('limit') ?? 50);
  const newestFirst = (url.searchParams.get('order') ?? 'asc') === 'desc';
  const from = Number(url.searchParams.get('cursor') ?? 0);
  const items = [];
  for (let i = from; i < Math.min(count, from + limit); ++i) items.push(make(newestFirst ? count - i : i + 1));
  return { items, next_cursor: from + limit < count ? String(from + limit) : null };
}

function makeEvents(options, data) {
  const kinds = ['round_committed', 'round_frozen', 'agent_disconnected', 'checkpoint_stored', 'replica_failed'];
  return Array.from({ length: 3000 }, (_, i) => {
    const kind = kinds[i % 10 < 6 ? 0 : i % 5];
    const bad = kind === 'replica_failed' || kind === 'agent_disconnected';
    const agent = bad ? `agt_${(i % Math.max(1, options.agents)) + 1}` : null;
    return {
      seq: i + 1, at: data.at((3000 - i) * 4 - (options.hostile ? 7200 : 0)), severity: kind === 'replica_failed' ? 'error' : bad ? 'warning' : 'info', kind,
      job: kind.startsWith('agent') ? null : 'job_1', agent, replica: kind.startsWith('replica') ? 'rep_3' : null, round: kind.startsWith('round') ? options.rounds - ((3000 - i) >> 1) : null,
      message: options.hostile && i % 7 === 0 ? kMarkup + kLong : `${kind.replaceAll('_', ' ')} number ${i + 1}${agent ? ` of ${agent}` : ''}`,
    };
  });
}

function makeCheckpoints(options, data) {
  const files = Array.from({ length: options.stages }, (_, i) => `model-0000${i + 1}-of-0000${options.stages}.safetensors`);
  return [1, 2, 3].map((n) => ({
    id: `ckpt_${n}`, job: 'job_1', epoch: 0, round: options.rounds - 50 * (4 - n), state: n === 1 ? 'deleted' : 'stored', final: false, pinned: n === 3, job_name: 'large', owner: 'ana', step: 1000 * n, tokens: (options.rounds - 50 * (4 - n)) * 819_200,
    anchor_digest: 'ab'.repeat(16), momentum_digest: 'ac'.repeat(16), writer: 'rep_1', detail: '', bytes: 13e9,
    sample: n === 2 ? '' : options.hostile ? kMarkup + kLong : 'Call me Ishmael. Some years ago, never mind how long precisely,\nI thought I would sail about a little.',
    files: ['config.json', 'model.safetensors.index.json', ...files].map((path, i) => ({ path, size: i < 2 ? 700 : 1.6e9, sha256: String(i).repeat(64).slice(0, 64) })),
    created_at: data.at(4000 - n), updated_at: data.at(3600 - n),
  }));
}

const kVersion = (options) => ({ version: '0.1.0', api_level: options.api_level ?? 1, min_api_level: options.min_api_level ?? 1, agent_protocol: 3, min_agent_protocol: 3, boot_epoch: 1, started: 1 });

const problem = (status, detail, errors = []) => [status, { type: '/problems/not-found', title: 'Not found', status, detail, code: 'not-found', errors, hint: '' }];

// As GET /jobs/{job}/placement; a job that does not train was not looked at.
function placement(options, data) {
  const idle = options.rounds === 0 || data.replicas.length < 2;
  const [one, other] = data.agents;
  return {
    job: 'job_1', at: idle ? null : data.at(20),
    forecast: { tokens_per_second: idle ? null : 240_000, step_s: 0.4, round_s: 21, bubble: 0.06, average_s: 1, network: idle ? null : 0.62, line: idle ? null : { agents: [one.name], bytes_per_second: 1.25e6 }, lines_assumed: 2 },
    left_out: idle ? [] : [{ agent: other.id, agent_name: other.name, device: 1, tokens_per_second_with: 210_000, tokens_per_second_without: 240_000, line_bytes_per_second: 1e6 }],
    balance: idle ? null : { at: data.at(20), verdict: 'does_not_pay', weakest_stage: 1, weakest_tokens_per_second: 240_000, mean_tokens_per_second: 330_000, reason: '' },
    move: idle ? null : { at: data.at(20), replica: 'rep_1', agent: one.id, agent_name: one.name, from_stage: 0, to_stage: 1, tokens_per_second_gained: 40_000, download_bytes: 1.6e9, bytes_per_second: 625_000, takes_s: 2565, payback_s: 5130, bound_s: 1800, verdict: 'does_not_pay', reason: '' },
    plan: idle ? null : { at: data.at(200), tokens_per_second_now: 240_000, tokens_per_second_anew: 310_000 },
  };
}

function jobAnswer(world, job, rest, url) {
  const { options, data } = world;
  if (rest === '') return [200, job];
  if (rest === '/spec' && job.id === 'job_1') return [200, `# as it was written\nname = "large"\n[train]\nsteps = 600000 # ${options.hostile ? kMarkup : 'enough'}\n`];
  if (rest === '/logs') return [200, logPage(options, data, url)];
  if (rest === '/replicas') return [200, pageOf(data.replicas, url, false)];
  if (rest === '/placement' && !options.old) return [200, placement(options, data)];
  if (rest === '/topology') return [200, topology(options, data)];
  if (rest === '/checkpoints') return [200, pageOf(world.checkpoints, url, false)];
  if (rest === '/rounds') return [200, pageOfMade(options.rounds, url, (n) => makeRound(options, data, n))];
  if (rest === '/series') return [200, { items: options.rounds === 0 ? [] : Object.entries(measures(options)).map(([name, at]) => ({ name, newest: { step: options.rounds * 50, value: at(options, options.rounds) } })), next_cursor: null }];
  if (rest === '/series/query') {
    const key = `${data.t0}${url.search}`;
    if (!answered.has(key)) answered.set(key, JSON.stringify(series(options, data, url)));
    return [200, answered.get(key)];
  }
  const round = /^\/rounds\/(\d+)$/.exec(rest);
  if (round && Number(round[1]) >= 1 && Number(round[1]) <= options.rounds) return [200, makeRound(options, data, Number(round[1]))];
  return problem(404, 'there is nothing here');
}

// Lines of three trainers, at most 1,000 an answer; the cursor is the number of the last one.
const kLogLines = 30_000;
function logPage(options, data, url) {
  const after = url.searchParams.has('cursor') ? Number(url.searchParams.get('cursor')) : null;
  const tail = Number(url.searchParams.get('tail') ?? 200);
  const count = kLogLines + Math.floor((Date.now() - data.t0) / 200);
  const first = after === null ? Math.max(0, count - tail) : after;
  const items = Array.from({ length: Math.min(tail, Math.max(0, count - first)) }, (_, i) => {
    const n = first + i + 1, agent = data.agents[n % Math.min(3, data.agents.length)];
    return {
      id: `${agent.id}:${n}`, at: new Date(data.t0 + (n - kLogLines) * 200).toISOString(), level: n % 97 === 0 ? 'error' : n % 31 === 0 ? 'warning' : 'info',
      agent: agent.id, agent_name: agent.name, source: n % 5 === 0 ? 'agent' : 'trainer-0', replica: n % 5 === 0 ? null : `rep_${1 + (n % 3)}`,
      text: options.hostile ? `${n} ${kMarkup} ${kLong}` : `line ${n}: loss ${(2 + wave(n, 50)).toFixed(4)}`,
    };
  });
  return { items, next_cursor: String(first + items.length), missing: options.hostile ? [{ agent: 'agt_2', agent_name: kMarkup, problem: 'the agent is not connected' }] : [] };
}

// Every line between the first 64 agents; a few cannot be dialed or were not measured.
function networkLines({ agents }) {
  const some = agents.slice(0, 64);
  return some.flatMap((from, i) => some.flatMap((to, j) => (i === j ? [] : [{
    from: from.id, to: to.id, reached: (i + j) % 61 !== 0, round_trip_s: (i * j) % 53 === 1 ? null : 0.01 * (1 + ((i ^ j) % 9)),
    bytes_per_second: (i + j) % 61 === 0 ? null : 1e6 * (1 + ((3 * i + j) % 25)), measured_at: new Date().toISOString(), at_least: (i + j) % 7 === 0, age_s: i === 2 || j === 2 ? 2400 : (7 * i + j) % 900,
  }])));
}

function exampleList() {
  const items = ['baseline', 'kjv'].filter((one) => existsSync(join(examples, `${one}.toml`))).map((one) => {
    const toml = readFileSync(join(examples, `${one}.toml`), 'utf8');
    return { name: one, summary: /^# ?(.*?)(?:[.:] |$)/m.exec(toml)?.[1] ?? '', toml };
  });
  return { items, next_cursor: null };
}

function plan() {
  const placement = Array.from({ length: 6 }, (_, i) => ({ agent: `agt_${i + 1}`, agent_name: `node-000${i + 1}`, device: 0, stage: i % 2 }));
  const stages = [0, 1].map((stage) => ({ stage, units: { first: stage * 3, last: stage * 3 + 3 }, layers: 2, parameters: 3e8, memory_bytes: 5e9 }));
  return {
    placeable: true, reason: 'placed', detail: '', stages, placement, forecast: { tokens_per_second: 51_000, step_s: 0.21, round_s: 10.5, bubble: 0.07 },
    devices: { free: 9, fitting: 8, refused: 0, resting: 0, wanted: 4, missing: 0 }, memory_needed_bytes: 5e9, memory_largest_bytes: 85e9,
  };
}

async function checkedSpec(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const toml = Buffer.concat(chunks).toString();
  if (/lr\s*=\s*99/.test(toml)) return [422, { type: '/problems/invalid-spec', title: 'Invalid', status: 422, code: 'invalid-spec', detail: '1 field is not accepted', hint: 'change the fields named in errors and submit again', errors: [{ pointer: '/train/lr', detail: 'must be above 0 and at most 10, got 99' }] }];
  return [200, { dry_run: true, spec: { data: { train: /train\s*=\s*"([^"]*)"/.exec(toml)?.[1] } }, estimate: { parameters: 6.7e9, training_memory_bytes: 14e9, rounds: 30 }, plan: plan(), data: { checked: false, problem: null, remedy: null }, notes: ['data.train is a relative path: every agent looks for it in the folder that it was started in.'] }];
}

function answer(world, url, path) {
  const { data } = world;
  if (path === '/version') return [200, kVersion(world.options)];
  if (path === '/join') return [200, { grpc: '0.0.0.0:7071', token_file: '/var/lib/shoal/join_token' }];
  if (path === '/network') return [200, { items: networkLines(data), next_cursor: null }];
  if (path === '/examples') return [200, exampleList()];
  if (path === '/jobs') return [200, pageOf([...world.jobs].reverse(), url, false)];
  if (path === '/agents') return [200, pageOf(data.agents.map((one) => ({ ...one, device_samples: [] })).filter((one) => one.state !== 'gone' || url.searchParams.has('gone')), url, false)];
  if (path === '/events') {
    const least = { warning: 1, error: 2 }[url.searchParams.get('severity')] ?? 0;
    const agent = url.searchParams.get('agent');
    return [200, pageOf(world.events.filter((one) => ['info', 'warning', 'error'].indexOf(one.severity) >= least && (agent === null || one.agent === agent)), url, true)];
  }
  const job = /^\/jobs\/([^/]+)(.*)$/.exec(path);
  const found = job && world.jobs.find((one) => one.id === decodeURIComponent(job[1]) || one.name === decodeURIComponent(job[1]));
  if (found) return jobAnswer(world, found, job[2], url);
  if (/^\/agents\/[^/]+\/logs$/.test(path)) return [200, logPage(world.options, data, url)];
  const agent = /^\/agents\/([^/]+)(?:\/(cordon|uncordon|drain))?$/.exec(path);
  const one = agent && data.agents.find((entry) => entry.id === agent[1]);
  if (one) {
    if (agent[2]) one.cordoned = agent[2] !== 'uncordon';
    if (agent[2] === 'drain') one.state = 'draining';
    return [200, one];
  }
  const history = /^\/agents\/([^/]+)\/devices\/history$/.exec(path);
  const logged = history && !world.options.old && data.agents.find((entry) => entry.id === history[1]);
  if (logged) return [200, { items: historyOf(logged), next_cursor: null }];
  if (path === '/space') return [200, { parts: [{ what: 'checkpoints', bytes: 26e9 }, { what: 'tables', bytes: 8e8 }], checkpoint_budget: 30e9, tables: [], jobs: [{ job: 'job_1', name: 'large', owner: 'ana', phase: 'training', checkpoints: 26e9, history: 7e8, series: 1e8 }] }];
  if (path === '/checkpoints') return [200, pageOf(world.checkpoints.filter((one) => one.state !== 'deleted'), url, true)];
  const checkpoint = /^\/checkpoints\/([^/]+)(\/verify)?$/.exec(path);
  const kept = checkpoint && world.checkpoints.find((entry) => entry.id === checkpoint[1]);
  if (kept && checkpoint[2]) return [200, { checkpoint: kept.id, ok: true, files: kept.files.map((file) => ({ ...file, ok: true, problem: null })) }];
  if (kept) return [200, kept];
  return problem(404, 'there is nothing here');
}

function follow(world, request, response) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  response.write('retry: 3000\n\n');
  const send = () => {
    if (world.people !== null && !isStillIn(world.people, request)) return response.end();
    const seq = world.events.length + 1;
    const event = { ...world.events[0], seq, at: new Date().toISOString(), severity: 'info', kind: 'round_frozen', message: `round frozen number ${seq}` };
    world.events.push(event);
    response.write(`id: ${seq}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`);
  };
  const timer = setInterval(send, 1000);
  world.streams += 1;
  response.on('close', () => {
    clearInterval(timer);
    world.streams -= 1;
  });
}

function serveFile(path, response) {
  const file = join(dist, normalize(path));
  const found = extname(path) !== '' && existsSync(file) ? file : join(dist, 'index.html');
  response.writeHead(200, { 'Content-Type': kTypes[extname(found)] ?? 'text/plain', 'Content-Security-Policy': kPolicy });
  response.end(readFileSync(found));
}

export async function startFixture(chosen = {}) {
  const options = { ...kDefaults, ...chosen };
  const data = makeData(options);
  const world = { options, data, streams: 0, status: 0, people: options.people ? makePeople() : null };
  world.jobs = [makeJob(options, data, 1, options.hostile ? kMarkup : 'large'), makeJob(options, data, 2, options.hostile ? kLong : 'older', true)];
  world.events = makeEvents(options, data);
  world.checkpoints = makeCheckpoints(options, data);
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://fixture');
    if (!url.pathname.startsWith('/api/v1')) return serveFile(url.pathname, response);
    const path = url.pathname.slice('/api/v1'.length);
    const first = world.people === null || world.status !== 0 ? undefined : await answerPeople(world.people, request, path, url);
    if (first === undefined && world.status === 0 && path === '/events/stream') return follow(world, request, response);
    const [status, body, headers = {}] = first ?? (world.status !== 0 ? problem(world.status, 'said so by the test')
      : request.method === 'POST' && path === '/jobs' ? await checkedSpec(request) : answer(world, url, path));
    response.writeHead(status, { ...headers, 'Content-Type': status < 400 ? 'application/json' : 'application/problem+json' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  await new Promise((resolve) => server.listen(options.port, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, world, stop: () => (server.closeAllConnections(), server.close()) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const chosen = {};
  for (let i = 2; i < process.argv.length; ++i) {
    const key = process.argv[i].replace(/^--/, '');
    if (!(key in kDefaults)) throw new Error(`unknown option ${process.argv[i]}`);
    chosen[key] = typeof kDefaults[key] === 'boolean' ? true : Number(process.argv[++i]);
  }
  console.log((await startFixture(chosen)).url);
}
