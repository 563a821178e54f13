-- An inner step of a pipeline keeps its size when routers go: the most that a round had.
ALTER TABLE jobs ADD COLUMN routers INTEGER NOT NULL DEFAULT 0;
