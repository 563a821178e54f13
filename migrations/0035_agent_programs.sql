-- What programs an agent runs, as it said when it came: those in a folder of its host, and the uploaded code of these owners.
ALTER TABLE agents ADD COLUMN runs_programs INTEGER NOT NULL DEFAULT 0 CHECK (runs_programs IN (0, 1));
ALTER TABLE agents ADD COLUMN code_from TEXT NOT NULL DEFAULT '[]';
