-- Which job gets devices first; it may change while a job runs. And the job that another one gives its devices up for, 0 for none.
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 50;
ALTER TABLE jobs ADD COLUMN yields_to INTEGER NOT NULL DEFAULT 0;
