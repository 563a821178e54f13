-- Checkpoints that no rule deletes, and jobs that were removed: of those this row stays, everything else goes.
ALTER TABLE checkpoints ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));
ALTER TABLE jobs ADD COLUMN removed_at_ns INTEGER NOT NULL DEFAULT 0;
