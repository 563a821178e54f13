-- The outer learning rate may change while a job runs: the job has the present one, each round the one it was sealed with.
ALTER TABLE jobs ADD COLUMN outer_lr REAL NOT NULL DEFAULT 0;
UPDATE jobs SET outer_lr = json_extract(spec, '$.sync.outer.lr');
ALTER TABLE rounds ADD COLUMN outer_lr REAL NOT NULL DEFAULT 0;
UPDATE rounds SET outer_lr = (SELECT jobs.outer_lr FROM jobs WHERE jobs.id = rounds.job)
  WHERE rounds.job IN (SELECT id FROM jobs);
