// Emitted from api/openapi.json by answer_schema_test (SHOAL_REWRITE_GOLDENS=1); not to be edited. What the fields
// mean is said there. A field with a question mark is not there when the coordinator is older.

// The page also shows fields of a job's specification that it does not know.
export type SpecValue = string | number | boolean | null | SpecValue[] | { [key: string]: SpecValue };

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  code: string;
  request_id: string;
  errors?: {
    pointer: string;
    detail: string;
  }[];
  hint?: string;
}

export interface JobSpec {
  [key: string]: SpecValue;
  name: string;
  description: string;
  model: {
    [key: string]: SpecValue;
    family: 'llama' | 'gpt2';
    layers: number;
    hidden: number;
    heads: number;
    kv_heads: number;
    ffn: number;
    context: number;
    vocab: number;
    tie_embeddings: boolean | null;
    head_dim: number;
    qkv_bias: boolean;
    norm_eps: number;
    rope: {
      [key: string]: SpecValue;
      theta: number;
      scaling: 'none' | 'linear' | 'llama3';
      factor: number;
      low_freq_factor: number;
      high_freq_factor: number;
      original_context: number;
    };
    init: string;
  };
  data: {
    [key: string]: SpecValue;
    train: string;
    tokenizer: 'bytes' | 'uint16' | 'uint32';
    val_fraction: number;
    tokenizer_file: string;
    dataset: string;
    mixture: Record<string, number>;
  };
  train: {
    [key: string]: SpecValue;
    steps: number;
    batch: number;
    microbatch: number;
    optimizer: 'adamw' | 'muon';
    join: 'auto' | 'fresh' | 'moments';
    lr: number;
    min_lr: number;
    warmup: number;
    schedule: 'cosine' | 'constant';
    weight_decay: number;
    betas: number[];
    clip: number;
    precision: 'fp32' | 'bf16';
    seed: number;
    continue_from: string;
  };
  sync: {
    [key: string]: SpecValue;
    algorithm: 'none' | 'diloco' | 'local_sgd' | 'ddp' | 'async';
    every: number | string;
    balance: 'equal' | 'speed';
    topology: 'butterfly' | 'allgather' | 'ring' | 'param_server' | 'moshpit' | 'gossip' | 'auto';
    codec: 'fp32' | 'int8' | 'fp16' | 'bf16' | 'int4' | 'e3m0' | 'sparse2' | 'e5m2';
    feedback: number;
    aggregator: 'mean' | 'trimmed_mean' | 'centered_clip';
    clip: boolean;
    fragments: number;
    overlap_steps: number;
    blend: number;
    eager: boolean;
    quorum: number;
    outer_state: 'replicated' | 'sharded';
    audit: number;
    outer: {
      [key: string]: SpecValue;
      lr: number;
      momentum: number;
      method: 'nesterov' | 'sgd' | 'adam';
      beta1: number;
      beta2: number;
      eps: number;
    };
  };
  swarm: {
    [key: string]: SpecValue;
    stages: number | string;
    min_replicas: number;
    max_replicas: number;
    activations: 'fp32' | 'bf16' | 'int8';
    recompute: 'keep' | 'recompute';
    schedule: 'flush' | '1f1b' | '2bw';
    priority: number;
    copies_min: number;
    recut: boolean;
  };
  checkpoint: {
    [key: string]: SpecValue;
    every_rounds: number;
    keep: number;
    buddies: number;
  };
  eval: {
    [key: string]: SpecValue;
    every_rounds: number;
    batches: number;
  };
  trainer: {
    [key: string]: SpecValue;
    kind: 'builtin' | 'python';
    entry: string;
    code: string;
  };
}

export interface JobProgress {
  inner_step: number;
  inner_steps_total: number;
  rounds_committed: number;
  rounds_total: number | null;
  tokens: number;
  tokens_committed: number;
  tokens_per_second: number | null;
  replicas_training: number;
}

export interface JobStatus {
  phase: 'queued' | 'gathering' | 'warming' | 'training' | 'stalled' | 'finalizing' | 'paused' | 'completed' | 'cancelled' | 'failed';
  desired: 'run' | 'pause' | 'cancel';
  reason: 'none' | 'no_agents' | 'no_device_fits' | 'waiting_for_replicas' | 'loading' | 'running' | 'reconnecting' | 'below_min_replicas' | 'last_replica_lost' | 'waiting_for_absent' | 'restoring' | 'final_checkpoint' | 'pausing' | 'paused_by_user' | 'checkpoint_failing' | 'finished' | 'cancelled_by_user' | 'data_missing' | 'data_invalid' | 'model_does_not_fit' | 'too_many_failures' | 'corrupt_record' | 'preempted' | 'measuring' | 'higher_priority' | 'recutting';
  detail: string;
  progress: JobProgress;
  outer_lr: number;
  train_loss: number | null;
  validation_loss: number | null;
  validation_round: number | null;
  bytes_sent: number;
  bytes_ddp: number | null;
  parameters: number | null;
  anchor_digest: string | null;
  momentum_digest: string | null;
  stages: {
    first_unit: number;
    end_unit: number;
    parameters: number | null;
    anchor_digest: string | null;
    momentum_digest: string | null;
    copies?: number;
    copied_round?: number | null;
  }[];
  epoch: number;
  started_at: string | null;
  committed_at: string | null;
  finished_at: string | null;
  not_run_by?: string[];
  priority?: number;
  yields_to?: string | null;
}

export interface Job {
  id: string;
  name: string;
  created_at: string | null;
  updated_at: string | null;
  spec: JobSpec;
  status: JobStatus;
  owner?: string;
  description?: string;
}

export interface DryRun {
  dry_run: true;
  spec: JobSpec;
  estimate: {
    parameters: number;
    training_memory_bytes: number;
    rounds: number | null;
  };
  plan?: Plan;
  data?: {
    checked: boolean;
    problem: string | null;
    remedy: string | null;
  };
  notes?: string[];
}

export interface Stage {
  stage: number;
  units: {
    first: number;
    last: number;
  };
  layers: number;
  parameters: number;
  memory_bytes: number;
}

export interface Place {
  agent: string;
  agent_name: string;
  device: number;
  stage: number;
}

export interface Forecast {
  tokens_per_second: number | null;
  step_s: number | null;
  round_s: number | null;
  bubble: number | null;
  average_s?: number | null;
  network?: number | null;
  line?: {
    agents: string[];
    bytes_per_second: number;
  } | null;
  lines_assumed?: number;
  lines_to_coordinator?: number;
  lines_to_peers?: number;
  lines_measured_at?: string | null;
  speeds_assumed?: number;
}

export interface LeftOut {
  agent: string;
  agent_name: string;
  device: number;
  tokens_per_second_with: number;
  tokens_per_second_without: number;
  line_bytes_per_second: number | null;
}

export interface UsedByOthers {
  agent: string;
  agent_name: string;
  device: number;
  share: number;
}

export interface PlanDevices {
  free: number;
  fitting: number;
  refused: number;
  resting: number;
  wanted: number;
  missing: number;
}

export interface Plan {
  placeable: boolean;
  reason: 'placed' | 'complete' | 'no_agents' | 'no_free_device' | 'no_device_fits' | 'all_refused' | 'too_few_devices';
  detail: string;
  stages: Stage[];
  placement: Place[];
  forecast: Forecast;
  devices: PlanDevices;
  memory_needed_bytes: number;
  memory_largest_bytes: number;
  left_out?: LeftOut[];
  used_by_others?: UsedByOthers[];
}

export interface TopologyReplica {
  id: string;
  agent: string;
  agent_name: string | null;
  device: number;
  stage: number;
  state: 'assigned' | 'loading' | 'serving' | 'averaging' | 'absent';
  health: 'green' | 'yellow' | 'red';
  gflops: number | null;
  queued: number | null;
  in_flight: number | null;
  service_s: number | null;
  microbatches: number | null;
  microbatches_per_second: number | null;
  recomputed: number | null;
  added_again?: number | null;
  dropped: number | null;
  busy: number | null;
}

export interface TopologyLink {
  from: string;
  to: string;
  bytes_per_second: number | null;
  sent_per_second: number | null;
  received_per_second: number | null;
  sent_bytes: number;
  received_bytes: number;
  microbatches: number;
  round_trip_s: number | null;
}

export interface Topology {
  job: string;
  stages: Stage[];
  replicas: TopologyReplica[];
  links: TopologyLink[];
}

export interface Placement {
  job: string;
  at: string | null;
  forecast: Forecast;
  left_out: LeftOut[];
  used_by_others?: UsedByOthers[];
  balance: {
    at: string;
    verdict: 'balanced' | 'unconfirmed' | 'no_gain' | 'does_not_pay' | 'transit_budget' | 'moves';
    weakest_stage: number;
    weakest_tokens_per_second: number;
    mean_tokens_per_second: number;
    reason: string;
  } | null;
  move: {
    at: string;
    replica: string;
    agent: string;
    agent_name: string;
    from_stage: number;
    to_stage: number;
    tokens_per_second_gained: number;
    download_bytes: number;
    bytes_per_second: number;
    takes_s: number;
    payback_s: number;
    bound_s: number;
    verdict: 'balanced' | 'unconfirmed' | 'no_gain' | 'does_not_pay' | 'transit_budget' | 'moves';
    reason: string;
  } | null;
  plan: {
    at: string;
    tokens_per_second_now: number;
    tokens_per_second_anew: number;
  } | null;
}

export interface ContributionPhases {
  train_s: number | null;
  stall_s: number | null;
  wait_s: number | null;
  reduce_s: number | null;
  vote_s: number | null;
  apply_s: number | null;
}

export interface Contribution {
  replica: string;
  agent: string | null;
  stage?: number;
  group?: number | null;
  role?: 'trainer' | 'reducer' | 'relay';
  state: 'training' | 'reported' | 'member' | 'voted' | 'committed' | 'kept' | 'rejected' | 'late' | 'followed' | 'served' | 'lost' | 'moved';
  reject_reason: 'none' | 'non_finite' | 'no_tokens' | 'not_reported' | 'joiner' | 'outlier' | 'excluded' | 'false_norm' | 'false_average' | 'unverified' | null;
  tokens: number | null;
  steps: number | null;
  skipped?: number | null;
  train_loss: number | null;
  norm: number | null;
  max_abs: number | null;
  nonfinite: number | null;
  weight: number | null;
  clip_factor: number | null;
  digest: string | null;
  anchor_digest: string | null;
  bytes_sent: number;
  bytes_received: number;
  phases: ContributionPhases;
}

export interface RoundSeconds {
  train: number | null;
  reduce: number | null;
  vote: number | null;
  apply: number | null;
  total: number | null;
}

export interface Round {
  round: number;
  epoch: number;
  state: 'open' | 'frozen' | 'reducing' | 'voting' | 'committed' | 'aborted';
  attempt: number;
  aborts: number;
  abort_reason: 'attempts_spent' | 'time_spent' | 'no_usable_contribution' | 'below_min_replicas' | null;
  from_step: number;
  to_step: number;
  outer_lr: number | null;
  share: number | null;
  digest: string | null;
  anchor_digest: string | null;
  momentum_digest: string | null;
  reduces?: Reduce[];
  opened_at: string | null;
  frozen_at: string | null;
  committed_at: string | null;
  seconds: RoundSeconds;
  compute_utilisation: number | null;
  tokens: number;
  train_loss: number | null;
  validation_loss: number | null;
  bytes_sent: number;
  bytes_received: number;
  contributions: Contribution[];
}

export interface Replica {
  id: string;
  job: string;
  agent: string | null;
  incarnation: number;
  device: number;
  stage: number;
  state: 'assigned' | 'loading' | 'serving' | 'averaging' | 'absent' | 'released' | 'failed';
  failure: 'trainer_exited' | 'out_of_memory' | 'device_lost' | 'non_finite_loss' | 'data_missing' | 'data_invalid' | 'model_does_not_fit' | 'source_lost' | 'digest_mismatch' | 'stale' | 'agent_lost' | 'agent_restarted' | 'peer_unreachable' | 'unresponsive' | 'internal' | 'too_slow' | null;
  detail: string;
  source: {
    kind: 'seed' | 'peer' | 'checkpoint';
    round: number;
    replica: string | null;
    checkpoint: string | null;
  };
  address: string | null;
  epoch: number;
  held_round: number | null;
  anchor_digest: string | null;
  live: {
    at: string;
    round: number;
    inner_step: number;
    tokens: number;
    train_loss: number | null;
    gradient_norm: number | null;
    learning_rate: number | null;
    tokens_per_second: number | null;
  } | null;
  load?: {
    at: string;
    done_bytes: number;
    total_bytes: number | null;
    bytes_per_second: number | null;
    share: number;
    left_s: number | null;
  } | null;
  speed_ratio?: number | null;
  copies?: {
    stage: number;
    round: number | null;
  }[];
  created_at: string | null;
  updated_at: string | null;
}

export interface FileEntry {
  path: string;
  size: number;
  sha256: string;
  role?: string;
}

export interface Checkpoint {
  id: string;
  job: string;
  epoch: number;
  round: number;
  state: 'writing' | 'uploading' | 'stored' | 'failed' | 'deleted';
  final: boolean;
  pinned?: boolean;
  job_name?: string;
  owner?: string;
  step: number;
  tokens: number;
  anchor_digest: string | null;
  momentum_digest: string | null;
  writer: string | null;
  parts: {
    state: 'writing' | 'uploading' | 'stored' | 'failed' | 'deleted';
    writer: string | null;
    files: number;
    anchor_digest: string | null;
    momentum_digest: string | null;
  }[];
  detail: string;
  sample?: string;
  bytes: number;
  files: FileEntry[];
  created_at: string | null;
  updated_at: string | null;
}

export interface Verification {
  checkpoint: string;
  ok: boolean;
  files: VerifiedFile[];
}

export interface VerifiedFile {
  path: string;
  size: number;
  sha256: string;
  ok: boolean;
  problem: string | null;
}

export interface Example {
  name: string;
  summary: string;
  toml: string;
}

export interface Join {
  grpc: string;
  token_file: string;
}

export interface Device {
  index: number;
  kind: 'cpu' | 'cuda' | 'reducer';
  name: string;
  memory_bytes: number;
  gflops: number | null;
  bf16: boolean;
  uuid?: string;
  total_bytes?: number;
  grouped?: number;
}

export interface Agent {
  id: string;
  uid: string;
  name: string;
  version: string;
  host: string;
  relay?: string;
  incarnation: number;
  state: 'joining' | 'idle' | 'syncing' | 'active' | 'draining' | 'gone';
  gone_reason: 'none' | 'left' | 'lost' | null;
  role?: 'trainer' | 'reducer' | 'relay';
  cordoned?: boolean;
  drained?: boolean;
  quarantine?: {
    until: string;
    reason: 'none' | 'non_finite' | 'no_tokens' | 'not_reported' | 'joiner' | 'outlier' | 'excluded' | 'false_norm' | 'false_average' | 'unverified';
    count: number;
  } | null;
  violations?: number;
  memory_refusals?: {
    device: number;
    needed_bytes: number;
    at: string;
    code?: string;
  }[];
  cordoned_devices?: {
    device: number;
    at: string;
    job: string | null;
    code: string;
    reasons: string[];
    uuid?: string;
    fault?: 'none' | 'lost' | 'recovery_action' | 'remap_failed' | 'remap_pending' | 'xid' | 'uncorrected';
    ends?: string;
  }[];
  device_failures?: {
    device: number;
    reason: string;
  }[];
  device_samples?: {
    uuid: string;
    answer: 'unknown' | 'whole' | 'partial' | 'silent' | 'lost';
    age_s: number;
    error: string;
    use: {
      busy: number;
      stolen: number;
      used_here_bytes: number;
      used_elsewhere_bytes: number;
      busy_elsewhere?: number;
    } | null;
    climate: {
      celsius: number;
      watts: number;
      watts_limit: number;
      mhz: number;
      mhz_max: number;
      throttled: string[];
    } | null;
    errors: {
      ecc_corrected: number;
      ecc_uncorrected: number;
      rows_remapped: number;
      remap_pending: boolean;
      remap_failed: boolean;
      pcie_replays: number;
      nvlink_errors: number;
      recovery: 'none' | 'reset_gpu' | 'reboot_host' | 'drain_p2p' | 'drain_and_reset';
      xids: {
        xid: number;
        count: number;
        ago_s: number;
      }[];
    } | null;
  }[];
  device_troubles?: {
    device: number;
    uuid: string;
    trouble: 'cordoned' | 'trainer_fails' | 'lost' | 'silent' | 'partial';
    reason: string;
  }[];
  losses?: number;
  availability?: number | null;
  health: 'green' | 'yellow' | 'red';
  health_reason?: string;
  slow_replicas?: number;
  late?: boolean;
  last_seen_at: string | null;
  resident_bytes: number | null;
  devices: Device[];
  labels: Record<string, string>;
  joined_at: string | null;
  updated_at: string | null;
  runs_programs?: boolean;
  code_from?: string[];
  program_limits?: 'none' | 'cgroup' | 'watched';
}

export interface Event {
  seq: number;
  at: string;
  severity: 'info' | 'warning' | 'error';
  kind: string;
  job: string | null;
  agent: string | null;
  replica: string | null;
  round: number | null;
  message: string;
}

export interface SeriesLine {
  replica: string | null;
  x: (number | null)[];
  y: (number | null)[];
  y_min: (number | null)[];
  y_max: (number | null)[];
  time?: (number | null)[];
}

export interface Series {
  job: string;
  name: string;
  x: string;
  by: string;
  series: SeriesLine[];
}

export interface Version {
  version: string;
  api_level: number;
  min_api_level: number;
  agent_protocol: number;
  min_agent_protocol: number;
  boot_epoch: number;
}

export interface LogLine {
  id: string;
  at: string;
  level: 'debug' | 'info' | 'warning' | 'error';
  agent: string;
  agent_name: string;
  source: string;
  replica: string | null;
  text: string;
}

export interface LogPage {
  items: LogLine[];
  next_cursor: string;
  missing: {
    agent: string;
    agent_name: string;
    problem: string;
  }[];
}

export interface Network {
  items: NetworkLink[];
}

export interface NetworkLink {
  from: string;
  to: string;
  reached: boolean;
  way?: 'unknown' | 'direct' | 'reverse' | 'relayed' | 'unreachable';
  round_trip_s: number | null;
  bytes_per_second: number | null;
  at_least?: boolean;
  measured_at: string;
  age_s: number;
}

export interface Reduce {
  attempt: number;
  digest: string | null;
  anchor_digest: string | null;
  momentum_digest: string | null;
  topology?: 'butterfly' | 'allgather' | 'ring' | 'param_server' | 'moshpit' | 'gossip' | 'auto' | null;
  given_up?: boolean;
  topology_reason?: string | null;
  entropy_coding?: boolean | null;
}

export interface JoinToken {
  id: string;
  state: 'works' | 'used_up' | 'expired' | 'revoked';
  uses: number;
  uses_max: number;
  created_at: string;
  expires_at: string;
}

export interface NewJoinToken {
  token: string;
}

export interface Authority {
  fingerprint: string;
  cluster: string;
  issues: boolean;
  machines: number;
  since: string;
  trusted_until: string;
}

export interface Certificate {
  agent: string;
  cluster: string;
  chain: string;
  roots: string;
}

export interface Principal {
  name: string;
  scope: string;
  token_id: string;
  expires_at_ms: number;
  grants: Record<string, string>;
}

export interface ApiToken {
  id: string;
  name: string;
  scope: string;
  state: 'works' | 'expired' | 'revoked';
  created_at: string;
  expires_at: string;
}

export interface NewApiToken {
  token: string;
  id: string;
  name: string;
  scope: string;
  state: 'works' | 'expired' | 'revoked';
  created_at: string;
  expires_at: string;
}

export interface Ticket {
  ticket: string;
  expires_at: string;
}

export interface Audit {
  id: number;
  at: string;
  principal: string;
  token: string;
  action: string;
  object: string;
  before: string;
  after: string;
}

export interface StoredFile {
  sha256: string;
  size: number;
  received: number;
  complete: boolean;
  owner: string;
  created_at: string;
  used_by?: string;
}

export interface Dataset {
  name: string;
  manifest: string;
  owner: string;
  created_at: string;
  kind: 'bytes' | 'uint16' | 'uint32';
  tokens: number;
  size: number;
  shards: number;
  chunk_bytes: number;
  max_token: number;
  tokenizer: string | null;
  jobs: string[];
}

export interface Shard {
  name: string;
  size: number;
  sha256: string;
  chunks: string;
  url: string;
  max_token: number;
}

export interface Space {
  parts: {
    what: string;
    bytes: number;
  }[];
  checkpoint_budget: number | null;
  tables: {
    name: string;
    rows: number;
    bytes: number;
  }[];
  jobs: {
    job: string;
    name: string;
    owner: string;
    phase: 'queued' | 'gathering' | 'warming' | 'training' | 'stalled' | 'finalizing' | 'paused' | 'completed' | 'cancelled' | 'failed' | null;
    checkpoints: number;
    history: number;
    series: number;
  }[];
}

export interface DeviceHistory {
  uuid: string;
  index: number;
  name: string;
  points: {
    at: string;
    busy: number;
    used_here_bytes: number;
    used_elsewhere_bytes: number;
    celsius: number;
    watts: number;
    mhz: number;
    throttled: number;
  }[];
}
