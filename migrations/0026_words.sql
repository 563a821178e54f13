-- Names that the field uses: what earlier versions stored under other ones is carried over.

-- How often a job went back to a checkpoint.
ALTER TABLE jobs RENAME COLUMN lineage TO epoch;
ALTER TABLE replicas RENAME COLUMN lineage TO epoch;
ALTER TABLE rounds RENAME COLUMN lineage TO epoch;
ALTER TABLE contributions RENAME COLUMN lineage TO epoch;
ALTER TABLE contributions RENAME COLUMN report_lineage TO report_epoch;
ALTER TABLE checkpoints RENAME COLUMN lineage TO epoch;
UPDATE replicas SET source = json_remove(json_set(source, '$.epoch', json_extract(source, '$.lineage')), '$.lineage')
  WHERE json_type(source, '$.lineage') IS NOT NULL;

-- The last phase of a job, the state of a round whose membership is fixed, and replicas that do not answer.
UPDATE jobs SET phase = 'finalizing' WHERE phase = 'sealing';
ALTER TABLE rounds RENAME COLUMN sealed_at_ns TO frozen_at_ns;
UPDATE rounds SET state = 'frozen' WHERE state = 'sealed';
UPDATE events SET kind = 'round_frozen' WHERE kind = 'round_sealed';
UPDATE replicas SET failure = 'unresponsive' WHERE failure = 'frozen';

-- What an agent did wrong.
ALTER TABLE agents RENAME COLUMN strikes TO violations;
ALTER TABLE agents RENAME COLUMN struck_at_ns TO last_violation_at_ns;
ALTER TABLE agents RENAME COLUMN strike_reason TO violation_reason;

-- How long a replica had nothing to train.
ALTER TABLE contributions RENAME COLUMN report_stood_s TO report_stall_s;

-- Members that an average was made without.
ALTER TABLE contributions RENAME COLUMN left_out TO excluded;
UPDATE contributions SET reject_reason = 'excluded' WHERE reject_reason = 'left_out';
UPDATE agents SET violation_reason = 'excluded' WHERE violation_reason = 'left_out';

-- A round has a reduce per stage, or per group.
ALTER TABLE rounds RENAME COLUMN stages TO reduces;

-- Where a replica gets its state from.
UPDATE replicas SET source = json_remove(
    json_set(source, '$.replica', json_extract(source, '$.donor'), '$.address', json_extract(source, '$.donor_address')),
    '$.donor', '$.donor_address')
  WHERE json_type(source, '$.donor') IS NOT NULL;
UPDATE replicas SET failure = 'source_lost' WHERE failure = 'donor_lost';
