-- What few jobs have. Where it is NULL a row says so in its head: nothing is looked for behind the payload.
ALTER TABLE duetime_jobs ADD COLUMN progress TEXT;  -- JSON: {"percent": …, "note": …, "at": …}
