-- Files that people have uploaded, by their content, and the datasets that are made of them.
CREATE TABLE files (
  sha256     TEXT PRIMARY KEY,
  size       INTEGER NOT NULL,
  owner      TEXT NOT NULL,     -- who uploaded it first
  created_ns INTEGER NOT NULL,
  complete   INTEGER NOT NULL   -- 0: it is still being uploaded
) STRICT;

CREATE TABLE datasets (
  name       TEXT PRIMARY KEY,
  manifest   TEXT NOT NULL,     -- SHA-256 of a file that lists its shards
  owner      TEXT NOT NULL,
  created_ns INTEGER NOT NULL
) STRICT;
