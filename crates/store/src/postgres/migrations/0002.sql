-- What few jobs have. NULL takes no room.
ALTER TABLE duetime_jobs
    ADD COLUMN progress text;  -- JSON: {"percent": …, "note": …, "at": …}
