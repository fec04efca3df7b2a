CREATE TABLE IF NOT EXISTS duetime_inbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    queue      TEXT    NOT NULL DEFAULT 'default',
    kind       TEXT    NOT NULL DEFAULT 'default',
    payload    BLOB    NOT NULL,               -- text or bytes
    due_at     INTEGER,                        -- or delay_ms; neither means now
    delay_ms   INTEGER,                        -- from created_at
    job_key    TEXT,
    tags       TEXT,                           -- JSON: ["a", "b"]
    priority   INTEGER,                        -- 0 is the most urgent, 1024 the default
    options    TEXT,                           -- JSON: the other options of a push over HTTP
    -- In milliseconds. SQLite's clock and this calculation may both be one too low.
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 2),
    origin     TEXT    NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    error      TEXT                            -- why the job was refused; set it to NULL to retry
);
