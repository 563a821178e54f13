-- A short text that the model of a checkpoint wrote, for people.
ALTER TABLE checkpoints ADD COLUMN sample TEXT NOT NULL DEFAULT '';
