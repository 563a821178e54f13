-- Rounds in groups: the group of a contribution, groups that gave up, and the momentum of each replica, which is nobody
-- else's there. Reducers are a kind of their own, no longer contributions that were rejected.
ALTER TABLE replicas ADD COLUMN momentum TEXT NOT NULL DEFAULT '';
ALTER TABLE contributions ADD COLUMN group_index INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contributions ADD COLUMN reducer INTEGER NOT NULL DEFAULT 0;
UPDATE contributions SET reducer = 1, reject_reason = 'none',
  state = CASE state WHEN 'rejected' THEN 'served' ELSE state END
  WHERE reject_reason = 'reducer';
UPDATE rounds SET stages = (
  SELECT json_group_array(json_set(value, '$.given_up', json('false'))) FROM json_each(rounds.stages));
