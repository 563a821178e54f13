-- Replicas whose agents are out of reach, and what a job that waits for them needs; what replicas hold is told
-- from what others held by the same id before a backup was put back; digests of the data and of each outer step.
ALTER TABLE counters ADD COLUMN store INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN data TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN rollback_at_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE replicas ADD COLUMN store INTEGER NOT NULL DEFAULT 0;
ALTER TABLE replicas ADD COLUMN absent_since_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contributions ADD COLUMN report_skipped INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contributions ADD COLUMN momentum TEXT NOT NULL DEFAULT '';
ALTER TABLE contributions ADD COLUMN base TEXT NOT NULL DEFAULT '';
ALTER TABLE contributions ADD COLUMN base_momentum TEXT NOT NULL DEFAULT '';
ALTER TABLE contributions ADD COLUMN added TEXT NOT NULL DEFAULT '';
UPDATE rounds SET stages = (
  SELECT json_group_array(json_set(value, '$.base', '', '$.base_momentum', '')) FROM json_each(rounds.stages));
