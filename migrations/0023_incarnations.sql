-- The starts of agents that are counted after a backup was put back get numbers above this one, so that none is given
-- twice: the history that the backup ended may have counted on.
ALTER TABLE counters ADD COLUMN incarnation_floor INTEGER NOT NULL DEFAULT 0;
