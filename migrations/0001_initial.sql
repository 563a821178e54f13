-- The coordinator's state, one table per record of coordinator/core/records.h. Times end in _ns (Unix
-- nanoseconds, 0: not yet), digests are 32 hex characters ('' : none), lists are JSON, enums are words.
-- A REAL column holds NULL where the value is not a number.

CREATE TABLE counters (
  id              INTEGER PRIMARY KEY CHECK (id = 1),
  next_job        INTEGER NOT NULL,
  next_agent      INTEGER NOT NULL,
  next_replica    INTEGER NOT NULL,
  next_checkpoint INTEGER NOT NULL,
  next_event      INTEGER NOT NULL,
  boot_epoch      INTEGER NOT NULL
) STRICT;

CREATE TABLE jobs (
  id               INTEGER PRIMARY KEY,
  name             TEXT NOT NULL AS (json_extract(spec, '$.name')) STORED,
  spec             TEXT NOT NULL CHECK (json_valid(spec)),
  phase            TEXT NOT NULL,
  desired          TEXT NOT NULL,
  reason           TEXT NOT NULL,
  detail           TEXT NOT NULL,
  created_at_ns    INTEGER NOT NULL,
  updated_at_ns    INTEGER NOT NULL,
  started_at_ns    INTEGER NOT NULL,
  finished_at_ns   INTEGER NOT NULL,
  lineage          INTEGER NOT NULL,
  committed_round  INTEGER NOT NULL,
  committed_at_ns  INTEGER NOT NULL,
  committed_step   INTEGER NOT NULL,
  committed_tokens INTEGER NOT NULL,
  anchor           TEXT NOT NULL,
  momentum         TEXT NOT NULL,
  value_count      INTEGER NOT NULL,
  next_sequence    INTEGER NOT NULL,
  returned         TEXT NOT NULL CHECK (json_valid(returned)),
  train_loss       REAL,
  validation_loss  REAL,
  validation_round INTEGER NOT NULL,
  bytes_sent       INTEGER NOT NULL,
  failures_in_row  INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_by_name ON jobs (name, id);

CREATE TABLE agents (
  id           INTEGER PRIMARY KEY,
  uid          TEXT NOT NULL,
  name         TEXT NOT NULL,
  version      TEXT NOT NULL,
  host         TEXT NOT NULL,
  incarnation  INTEGER NOT NULL,
  state        TEXT NOT NULL,
  gone         TEXT NOT NULL,
  devices      TEXT NOT NULL CHECK (json_valid(devices)),
  labels       TEXT NOT NULL CHECK (json_valid(labels)),
  joined_at_ns INTEGER NOT NULL,
  updated_at_ns INTEGER NOT NULL
) STRICT;

-- History: every start of every agent. Written by the two triggers below and by nobody else.
CREATE TABLE incarnations (
  agent         INTEGER NOT NULL,
  incarnation   INTEGER NOT NULL,
  version       TEXT NOT NULL,
  host          TEXT NOT NULL,
  started_at_ns INTEGER NOT NULL,
  ended_at_ns   INTEGER NOT NULL DEFAULT 0,
  ended_as      TEXT NOT NULL DEFAULT 'none',
  PRIMARY KEY (agent, incarnation)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER agents_inserted AFTER INSERT ON agents BEGIN
  INSERT INTO incarnations (agent, incarnation, version, host, started_at_ns)
  VALUES (new.id, new.incarnation, new.version, new.host, new.updated_at_ns)
  ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER agents_updated AFTER UPDATE ON agents
  WHEN new.incarnation <> old.incarnation OR new.gone <> old.gone BEGIN
  UPDATE incarnations SET ended_at_ns = new.updated_at_ns, ended_as = 'superseded'
  WHERE agent = new.id AND incarnation < new.incarnation AND ended_at_ns = 0;
  INSERT INTO incarnations (agent, incarnation, version, host, started_at_ns)
  VALUES (new.id, new.incarnation, new.version, new.host, new.updated_at_ns)
  ON CONFLICT DO NOTHING;
  UPDATE incarnations
  SET ended_at_ns = CASE new.gone WHEN 'none' THEN 0 ELSE new.updated_at_ns END, ended_as = new.gone
  WHERE agent = new.id AND incarnation = new.incarnation;
END;

CREATE TABLE replicas (
  id            INTEGER PRIMARY KEY,
  job           INTEGER NOT NULL,
  agent         INTEGER NOT NULL,
  incarnation   INTEGER NOT NULL,
  device        INTEGER NOT NULL,
  stage         INTEGER NOT NULL,
  state         TEXT NOT NULL,
  failure       TEXT NOT NULL,
  detail        TEXT NOT NULL,
  source        TEXT NOT NULL CHECK (json_valid(source)),
  address       TEXT NOT NULL,
  lineage       INTEGER NOT NULL,
  held_round    INTEGER NOT NULL,
  anchor        TEXT NOT NULL,
  created_at_ns INTEGER NOT NULL,
  updated_at_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX replicas_by_job ON replicas (job, id);
CREATE INDEX replicas_live ON replicas (id) WHERE state NOT IN ('released', 'failed');

CREATE TABLE rounds (
  job                   INTEGER NOT NULL,
  lineage               INTEGER NOT NULL,
  round                 INTEGER NOT NULL,
  state                 TEXT NOT NULL,
  attempt               INTEGER NOT NULL,
  aborts                INTEGER NOT NULL,
  abort_reason          TEXT NOT NULL,
  from_step             INTEGER NOT NULL,
  to_step               INTEGER NOT NULL,
  opened_at_ns          INTEGER NOT NULL,
  sealed_at_ns          INTEGER NOT NULL,
  committed_at_ns       INTEGER NOT NULL,
  attempt_started_at_ns INTEGER NOT NULL,
  average               TEXT NOT NULL,
  anchor                TEXT NOT NULL,
  momentum              TEXT NOT NULL,
  tokens                INTEGER NOT NULL,
  train_loss            REAL,
  validation_loss       REAL,
  validation_tokens     INTEGER NOT NULL,
  validation_sum        REAL,
  eval_slices           INTEGER NOT NULL,
  PRIMARY KEY (job, lineage, round)
) STRICT, WITHOUT ROWID;
CREATE INDEX rounds_unfinished ON rounds (job, lineage, round) WHERE state <> 'committed';

CREATE TABLE contributions (
  job               INTEGER NOT NULL,
  lineage           INTEGER NOT NULL,
  round             INTEGER NOT NULL,
  replica           INTEGER NOT NULL,
  agent             INTEGER NOT NULL,
  state             TEXT NOT NULL,
  reject_reason     TEXT NOT NULL,
  leases            TEXT NOT NULL CHECK (json_valid(leases)),
  report_job        INTEGER NOT NULL,
  report_lineage    INTEGER NOT NULL,
  report_round      INTEGER NOT NULL,
  report_tokens     INTEGER NOT NULL,
  report_steps      INTEGER NOT NULL,
  report_train_loss REAL,
  report_norm       REAL,
  report_max_abs    REAL,
  report_nonfinite  INTEGER NOT NULL,
  report_compute_s  REAL,
  reported_at_ns    INTEGER NOT NULL,
  voted_at_ns       INTEGER NOT NULL,
  applied_at_ns     INTEGER NOT NULL,
  weight            REAL,
  clip_factor       REAL,
  member_index      INTEGER NOT NULL,
  part_first        INTEGER NOT NULL,
  part_count        INTEGER NOT NULL,
  average           TEXT NOT NULL,
  anchor            TEXT NOT NULL,
  bytes_sent        INTEGER NOT NULL,
  bytes_received    INTEGER NOT NULL,
  reduce_s          REAL,
  eval_slice        INTEGER NOT NULL,
  evaluated         INTEGER NOT NULL,
  PRIMARY KEY (job, lineage, round, replica)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  id            INTEGER PRIMARY KEY,
  job           INTEGER NOT NULL,
  lineage       INTEGER NOT NULL,
  round         INTEGER NOT NULL,
  state         TEXT NOT NULL,
  final         INTEGER NOT NULL,
  writer        INTEGER NOT NULL,
  step          INTEGER NOT NULL,
  tokens        INTEGER NOT NULL,
  anchor        TEXT NOT NULL,
  momentum      TEXT NOT NULL,
  next_sequence INTEGER NOT NULL,
  returned      TEXT NOT NULL CHECK (json_valid(returned)),
  files         TEXT NOT NULL CHECK (json_valid(files)),
  detail        TEXT NOT NULL,
  created_at_ns INTEGER NOT NULL,
  updated_at_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX checkpoints_by_job ON checkpoints (job, id);

CREATE TABLE events (
  seq      INTEGER PRIMARY KEY,
  at_ns    INTEGER NOT NULL,
  severity TEXT NOT NULL,
  kind     TEXT NOT NULL,
  job      INTEGER NOT NULL,
  agent    INTEGER NOT NULL,
  replica  INTEGER NOT NULL,
  round    INTEGER NOT NULL,
  message  TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_job ON events (job, seq);
CREATE INDEX events_by_agent ON events (agent, seq);
