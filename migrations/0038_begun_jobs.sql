-- Of a job that continues a checkpoint: the inner steps and the tokens that were there when it began. 0 for all others.
ALTER TABLE jobs ADD COLUMN begun_step INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN begun_tokens INTEGER NOT NULL DEFAULT 0;
