-- How many jobs of a queue there ever were: beside the rows that are kept, in the same transactions. They begin with what is
-- kept, and only grow.
ALTER TABLE duetime_tallies ADD COLUMN total_pushed    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duetime_tallies ADD COLUMN total_succeeded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duetime_tallies ADD COLUMN total_failed    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duetime_tallies ADD COLUMN total_cancelled INTEGER NOT NULL DEFAULT 0;
UPDATE duetime_tallies SET total_pushed = pending + succeeded + failed + cancelled, total_succeeded = succeeded,
    total_failed = failed, total_cancelled = cancelled;
