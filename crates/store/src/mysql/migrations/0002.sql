-- How far a job has come: JSON with percent, note and at. Added only where it is not there: not every server knows IF NOT EXISTS of columns.
SET @duetime = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'duetime_jobs' AND column_name = 'progress'
    ),
    'DO 0',
    'ALTER TABLE duetime_jobs ADD COLUMN progress TEXT'
);
PREPARE duetime_add FROM @duetime;
EXECUTE duetime_add;
DEALLOCATE PREPARE duetime_add;
