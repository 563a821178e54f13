-- Whether the frames of a reduce are entropy coded, which follows from the lines as their size does.
UPDATE rounds SET stages = (
  SELECT json_group_array(json_set(value, '$.entropy_coding', json('false'))) FROM json_each(rounds.stages));
