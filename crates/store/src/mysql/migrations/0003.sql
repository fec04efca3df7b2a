-- How many jobs of a queue there ever were: beside the rows that are kept, in the same transactions. They begin with what is
-- kept, and only grow. A server of before goes on beside this, and counts nothing here. The columns are added in one
-- statement, and only where they are not there.
SET @duetime = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'duetime_tallies' AND column_name = 'total_pushed'
    ),
    'DO 0',
    'ALTER TABLE duetime_tallies ADD COLUMN total_pushed BIGINT NOT NULL DEFAULT 0, ADD COLUMN total_succeeded BIGINT NOT NULL DEFAULT 0, ADD COLUMN total_failed BIGINT NOT NULL DEFAULT 0, ADD COLUMN total_cancelled BIGINT NOT NULL DEFAULT 0'
);
PREPARE duetime_add FROM @duetime;
EXECUTE duetime_add;
DEALLOCATE PREPARE duetime_add;
UPDATE duetime_tallies SET total_pushed = pending + succeeded + failed + cancelled, total_succeeded = succeeded,
    total_failed = failed, total_cancelled = cancelled;
