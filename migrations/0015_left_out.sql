-- That an owner averaged its part without this contribution, as its vote says.
ALTER TABLE contributions ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
