-- An operator may keep an agent from getting new replicas; that outlives restarts.
ALTER TABLE agents ADD COLUMN cordoned INTEGER NOT NULL DEFAULT 0 CHECK (cordoned IN (0, 1));
