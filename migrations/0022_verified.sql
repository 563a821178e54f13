-- What the owners of parts saw of what each member sent, what an audit disputes, and the norm of what is sent.
ALTER TABLE contributions ADD COLUMN report_sent_norm REAL NOT NULL DEFAULT 0;
ALTER TABLE contributions ADD COLUMN squares TEXT NOT NULL DEFAULT '[]';
ALTER TABLE contributions ADD COLUMN disputed TEXT NOT NULL DEFAULT '[]';
