-- A contribution that is late in an asynchronous round, or that had nothing to contribute, is no longer called
-- rejected: that word is kept for what somebody should look at.
UPDATE contributions SET state = 'followed' WHERE state = 'rejected' AND reject_reason IN ('joiner', 'no_tokens');
UPDATE contributions SET state = 'late' WHERE state = 'rejected' AND reject_reason = 'not_reported'
  AND job IN (SELECT id FROM jobs WHERE json_extract(spec, '$.sync.algorithm') = 'async');
