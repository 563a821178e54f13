-- Copies of other stages of its job that a replica was given to keep (checkpoint.buddies), as a list in JSON. What
-- they hold is not stored: their trainers say it.
ALTER TABLE replicas ADD COLUMN copies TEXT NOT NULL DEFAULT '[]';
