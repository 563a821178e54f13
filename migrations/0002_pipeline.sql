-- A job has stages: what was one value per job, round or checkpoint is now one per stage, in a JSON list.
-- What is there so far has one stage, which holds the whole model (blocks, embedding and head).

ALTER TABLE jobs ADD COLUMN stages TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(stages));
ALTER TABLE jobs ADD COLUMN view INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET stages = json_array(json_object(
  'units', json_array(0, json_extract(spec, '$.model.layers') + 2),
  'value_count', value_count, 'anchor', anchor, 'momentum', momentum));
ALTER TABLE jobs DROP COLUMN anchor;
ALTER TABLE jobs DROP COLUMN momentum;
ALTER TABLE jobs DROP COLUMN value_count;

ALTER TABLE rounds ADD COLUMN stages TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(stages));
UPDATE rounds SET stages = json_array(json_object(
  'attempt', attempt, 'attempt_started_at_ns', attempt_started_at_ns,
  'average', average, 'anchor', anchor, 'momentum', momentum));
ALTER TABLE rounds DROP COLUMN attempt;
ALTER TABLE rounds DROP COLUMN attempt_started_at_ns;
ALTER TABLE rounds DROP COLUMN average;
ALTER TABLE rounds DROP COLUMN anchor;
ALTER TABLE rounds DROP COLUMN momentum;

ALTER TABLE contributions ADD COLUMN stage INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contributions ADD COLUMN report_drawn INTEGER NOT NULL DEFAULT 0;
UPDATE contributions SET report_drawn = report_tokens;

ALTER TABLE checkpoints ADD COLUMN parts TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(parts));
UPDATE checkpoints SET parts = json_array(json_object(
  'writer', writer, 'state', state, 'anchor', anchor, 'momentum', momentum, 'files', json(files)));
ALTER TABLE checkpoints DROP COLUMN writer;
ALTER TABLE checkpoints DROP COLUMN anchor;
ALTER TABLE checkpoints DROP COLUMN momentum;
ALTER TABLE checkpoints DROP COLUMN files;
