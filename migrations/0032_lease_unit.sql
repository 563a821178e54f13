-- How many sequences of a job one replica is best leased at once: those of few chunks of its datasets.
ALTER TABLE jobs ADD COLUMN lease_unit INTEGER NOT NULL DEFAULT 0;
