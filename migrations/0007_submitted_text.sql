-- What each job was submitted as, byte for byte. Jobs from before have none.
CREATE TABLE submitted_texts (
  job        INTEGER PRIMARY KEY,
  media_type TEXT NOT NULL,
  text       TEXT NOT NULL
) STRICT;
