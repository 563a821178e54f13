-- People: the tokens with which they and their programs ask, the browsers that have logged in, and what was changed by
-- whom. Of a secret only the SHA-256 is kept.
CREATE TABLE api_tokens (
  id          INTEGER PRIMARY KEY,
  owner       TEXT NOT NULL,
  secret_hash TEXT NOT NULL,
  scopes      INTEGER NOT NULL,  -- bit i: the i-th of admin, operator, submitter, viewer, metrics
  created_ns  INTEGER NOT NULL,
  expires_ns  INTEGER NOT NULL,
  revoked     INTEGER NOT NULL
) STRICT;

-- A row is used again once its session is over.
CREATE TABLE sessions (
  id          INTEGER PRIMARY KEY,
  token       INTEGER NOT NULL,  -- that it was begun with
  secret_hash TEXT NOT NULL,     -- empty: it is over
  expires_ns  INTEGER NOT NULL
) STRICT;

CREATE TABLE audit (
  seq          INTEGER PRIMARY KEY,
  at_ns        INTEGER NOT NULL,
  principal    TEXT NOT NULL,  -- the owner of the token; for a host that joins, the token
  token        TEXT NOT NULL,  -- its id
  action       TEXT NOT NULL,
  object       TEXT NOT NULL,  -- id of what was changed; may be empty
  before_value TEXT NOT NULL,
  after_value  TEXT NOT NULL
) STRICT;

ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
