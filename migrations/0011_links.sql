-- What was measured of the lines between agents, and the frame size of a reduce, which follows from them.
CREATE TABLE links (
  from_agent     INTEGER NOT NULL,
  to_agent       INTEGER NOT NULL,
  round_trip_ns  INTEGER NOT NULL,
  bytes_per_s    REAL NOT NULL,
  dialled        TEXT NOT NULL,
  measured_at_ns INTEGER NOT NULL,
  PRIMARY KEY (from_agent, to_agent)
) STRICT, WITHOUT ROWID;
UPDATE rounds SET stages = (
  SELECT json_group_array(json_set(value, '$.frame_values', 262144)) FROM json_each(rounds.stages));
