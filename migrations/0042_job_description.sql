-- The description of a job, for searches in lists. NULL: the job was stored before there were any.
ALTER TABLE jobs ADD COLUMN description TEXT AS (json_extract(spec, '$.description')) VIRTUAL;
