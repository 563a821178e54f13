-- The reduce of a stage says which topology it took and why; so far there was one.
UPDATE rounds SET stages = (
  SELECT json_group_array(json_set(value, '$.topology', 'butterfly', '$.topology_reason', 'asked'))
  FROM json_each(rounds.stages));
