-- When this copy of the database was made; 0: it is no copy. A coordinator that starts with a backup knows by it
-- that the cluster has gone on since.
ALTER TABLE counters ADD COLUMN backup_at_ns INTEGER NOT NULL DEFAULT 0;
