-- Stages know the lengths of their fragments: so far there was one, the whole vector. Reports say how long a replica stood still.
UPDATE jobs SET stages = (
  SELECT json_group_array(json_set(value, '$.fragments', json_array())) FROM json_each(jobs.stages));
ALTER TABLE contributions ADD COLUMN report_stood_s REAL DEFAULT 0;
