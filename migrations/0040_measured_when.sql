-- When a peer was reached last, apart from when its line was measured: reaching it renews no rate. And whether traffic has
-- shown the rate, which is then a lower bound. Rates of earlier versions may be as old as the hills: they are forgotten.
ALTER TABLE links ADD COLUMN reached_at_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE links ADD COLUMN at_least INTEGER NOT NULL DEFAULT 0;
UPDATE links SET reached_at_ns = measured_at_ns;

-- How long each device took for a block of a model, before a pipeline of it was cut.
ALTER TABLE agents ADD COLUMN blocks TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(blocks));

-- Whether a job is placed anew after its round (swarm.recut), and when that was decided last.
ALTER TABLE jobs ADD COLUMN recuts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN recut_at_ns INTEGER NOT NULL DEFAULT 0;
