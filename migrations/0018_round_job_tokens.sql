-- A round says where it brought its job, so that its points in the series can be told again. Of older rounds
-- only the last committed one is: the others were told when they were committed.
ALTER TABLE rounds ADD COLUMN job_tokens INTEGER NOT NULL DEFAULT 0;
UPDATE rounds SET job_tokens = j.committed_tokens FROM jobs AS j
  WHERE j.id = rounds.job AND j.lineage = rounds.lineage AND j.committed_round = rounds.round
  AND rounds.state = 'committed';
