-- What few jobs have. NULL takes no room.
ALTER TABLE duetime_jobs
    ADD COLUMN extras   text,  -- JSON: {"target": …, "trace": …, "hops": …}
    ADD COLUMN progress text;  -- JSON: {"percent": …, "note": …, "at": …}
