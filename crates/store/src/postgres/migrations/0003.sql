-- How many jobs of a queue there ever were: beside the rows that are kept, in the same transactions. They begin with what is
-- kept, and only grow. A server of before goes on beside this, and counts nothing here.
ALTER TABLE duetime_tallies
    ADD COLUMN total_pushed    bigint NOT NULL DEFAULT 0,
    ADD COLUMN total_succeeded bigint NOT NULL DEFAULT 0,
    ADD COLUMN total_failed    bigint NOT NULL DEFAULT 0,
    ADD COLUMN total_cancelled bigint NOT NULL DEFAULT 0;
UPDATE duetime_tallies SET total_pushed = pending + succeeded + failed + cancelled, total_succeeded = succeeded,
    total_failed = failed, total_cancelled = cancelled;
