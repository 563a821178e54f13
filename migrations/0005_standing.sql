-- What an agent's past says about it: rejected contributions and quarantines, devices that ran out of memory,
-- how long it stays. And the confirmations of the rebalancing, which outlive a restart of the coordinator.
ALTER TABLE agents ADD COLUMN strikes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN struck_at_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN strike_reason TEXT NOT NULL DEFAULT 'none';
ALTER TABLE agents ADD COLUMN quarantines INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN quarantined_until_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN refusals TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(refusals));
ALTER TABLE agents ADD COLUMN present_since_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN present_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
UPDATE agents SET present_since_ns = joined_at_ns;

ALTER TABLE jobs ADD COLUMN balance_at_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN balance_confirmed INTEGER NOT NULL DEFAULT 0;
