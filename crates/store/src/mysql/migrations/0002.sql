-- What few jobs have: extras is JSON with target, trace and hops, progress is JSON with percent, note and at. Both are added in
-- one statement, and only where they are not there: not every server knows IF NOT EXISTS of columns.
SET @duetime = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'duetime_jobs' AND column_name = 'extras'
    ),
    'DO 0',
    'ALTER TABLE duetime_jobs ADD COLUMN extras MEDIUMTEXT, ADD COLUMN progress TEXT'
);
PREPARE duetime_add FROM @duetime;
EXECUTE duetime_add;
DEALLOCATE PREPARE duetime_add;
