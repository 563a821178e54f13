-- When a replica loaded this checkpoint or its content was compared with the committed anchor. 0: never.
ALTER TABLE checkpoints ADD COLUMN verified_at INTEGER NOT NULL DEFAULT 0;
-- How the agent bounds the programs that it runs: none, cgroup, watched.
ALTER TABLE agents ADD COLUMN program_limits TEXT NOT NULL DEFAULT 'none';
