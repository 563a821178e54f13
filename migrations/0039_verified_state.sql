-- When a replica loaded this checkpoint or its content was compared with the committed anchor. 0: never.
ALTER TABLE checkpoints ADD COLUMN verified_at_ns INTEGER NOT NULL DEFAULT 0;
-- How the agent bounds the programs that it runs: none, cgroup, watched.
ALTER TABLE agents ADD COLUMN program_limits TEXT NOT NULL DEFAULT 'none';
-- Entries of earlier versions: one made by a program has a need computed from the defaults of a model that the program
-- does not use, and cannot be told from one of the built-in trainer. The built-in trainer learns its own again.
UPDATE agents SET refusals = '[]';
