-- Rounds that wait for some of the replicas only: for how many of them the result stands, and the inner steps of
-- contributions that do not make one of every replica yet.
ALTER TABLE rounds ADD COLUMN share REAL NOT NULL DEFAULT 1;
ALTER TABLE rounds ADD COLUMN carried_steps INTEGER NOT NULL DEFAULT 0;
