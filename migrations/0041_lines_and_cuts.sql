-- The line of each agent's host, as the coordinator measured it over the agent's stream: bytes per second from and to
-- the host, the round trip, whether the rates are lower bounds, and when. 0: not measured.
ALTER TABLE agents ADD COLUMN line_up_bytes_per_s REAL NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN line_down_bytes_per_s REAL NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN line_round_trip_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN line_at_least INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN line_measured_at_ns INTEGER NOT NULL DEFAULT 0;
-- The checkpoint of another cut of the model that the stages of a job are loaded from (swarm.recut); 0: none.
ALTER TABLE jobs ADD COLUMN recut_from INTEGER NOT NULL DEFAULT 0;
