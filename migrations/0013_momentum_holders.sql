-- Who keeps what of sharded outer momentum, with the plan of a reduce.
UPDATE rounds SET stages = (
  SELECT json_group_array(json_set(value, '$.momentum_holders', json('[]'))) FROM json_each(rounds.stages));
