-- Where an agent relays, and in which way one agent reaches another, in place of whether it could dial it.
ALTER TABLE agents ADD COLUMN relay TEXT NOT NULL DEFAULT '';
ALTER TABLE links ADD COLUMN way TEXT NOT NULL DEFAULT 'unknown';
UPDATE links SET way = CASE dialled WHEN 'yes' THEN 'direct' WHEN 'in_vain' THEN 'unreachable' ELSE 'unknown' END;
ALTER TABLE links DROP COLUMN dialled;
