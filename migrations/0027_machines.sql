-- Who takes part: the CAs of the cluster, the tokens that hosts join with, and the machines that have joined. An agent
-- has the id of its machine; those that were known before get theirs when they join.
CREATE TABLE authorities (
  fingerprint TEXT PRIMARY KEY,  -- SHA-256 of its certificate
  cluster     TEXT NOT NULL,     -- the name, which all of them share
  since_ns    INTEGER NOT NULL,
  until_ns    INTEGER NOT NULL   -- 0: the one that issues
) STRICT;

CREATE TABLE join_tokens (
  id          INTEGER PRIMARY KEY,
  secret_hash TEXT NOT NULL,     -- SHA-256; the secret itself is not kept
  uses_most   INTEGER NOT NULL,
  uses        INTEGER NOT NULL,
  created_ns  INTEGER NOT NULL,
  expires_ns  INTEGER NOT NULL,
  revoked     INTEGER NOT NULL
) STRICT;

CREATE TABLE machines (
  id             INTEGER PRIMARY KEY,  -- of the agent
  uid            TEXT NOT NULL,        -- of its data folder
  name           TEXT NOT NULL,        -- when it joined
  key_hash       TEXT NOT NULL,        -- SHA-256 of its public key
  serial         TEXT NOT NULL,        -- of its newest certificate
  authority      TEXT NOT NULL,        -- which issued that
  enrolled_at_ns INTEGER NOT NULL,
  expires_at_ns  INTEGER NOT NULL,     -- of its newest certificate
  revoked_at_ns  INTEGER NOT NULL      -- 0: it is not
) STRICT;
