-- Jobs. Instants are milliseconds since 1970 UTC. Small columns come first: to read a column behind a long payload,
-- SQLite follows the payload's overflow pages.
CREATE TABLE duetime_jobs (
    id           INTEGER PRIMARY KEY,
    queue        TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    state        INTEGER NOT NULL DEFAULT 1,  -- 1 pending, 10 succeeded, 20 failed, 30 cancelled
    bucket       INTEGER NOT NULL DEFAULT 0,  -- of a pending row: -1 overflow, 0 loaded, else due_at / 10 min
    due_at       INTEGER NOT NULL,
    first_due_at INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    attempt      INTEGER NOT NULL DEFAULT 0,
    crashes      INTEGER NOT NULL DEFAULT 0,
    version      INTEGER NOT NULL,
    epoch        INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    started_at   INTEGER,
    finished_at  INTEGER,
    lease_until  INTEGER,
    lease_ms     INTEGER,
    expires_ms   INTEGER,
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    key_until    INTEGER NOT NULL DEFAULT 0,  -- 0 finished, 1 started
    job_key      TEXT,
    key_entry    BLOB,                        -- with a key: queue and key, or a digest of both if they are long
    key_order    INTEGER,                     -- with a key: 0 while the job holds it, then its id
    origin       TEXT,                        -- identifies the push that made the job
    options      TEXT,                        -- JSON: rare options, such as a retry rule or a target
    tags         TEXT,                        -- JSON; indexed by duetime_tags
    message      TEXT,
    errors       TEXT,                        -- JSON
    result       BLOB,
    payload      BLOB    NOT NULL,
    -- Last, since a NULL is recorded in the row's header: no overflow pages are read for it.
    progress     TEXT                         -- JSON: {"percent": …, "note": …, "at": …}
);

CREATE INDEX duetime_jobs_pending ON duetime_jobs (bucket) WHERE state = 1;
CREATE INDEX duetime_jobs_overflow ON duetime_jobs (queue, priority, due_at) WHERE state = 1 AND bucket = -1;
CREATE INDEX duetime_jobs_leased ON duetime_jobs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX duetime_jobs_queue ON duetime_jobs (queue, state, finished_at);
CREATE INDEX duetime_jobs_finished ON duetime_jobs (state, finished_at) WHERE state <> 1;
CREATE UNIQUE INDEX duetime_jobs_key ON duetime_jobs (key_entry, key_order) WHERE key_entry IS NOT NULL;
CREATE UNIQUE INDEX duetime_jobs_origin ON duetime_jobs (queue, origin) WHERE origin IS NOT NULL;

CREATE TABLE duetime_tags (
    tag    TEXT    NOT NULL,
    job_id INTEGER NOT NULL,
    PRIMARY KEY (tag, job_id)
) WITHOUT ROWID;

-- Rows of duetime_jobs by queue and state, and all-time totals, updated in the same transactions.
CREATE TABLE duetime_tallies (
    queue           TEXT    NOT NULL PRIMARY KEY,
    pending         INTEGER NOT NULL,
    succeeded       INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    cancelled       INTEGER NOT NULL,
    total_pushed    INTEGER NOT NULL,
    total_succeeded INTEGER NOT NULL,
    total_failed    INTEGER NOT NULL,
    total_cancelled INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE duetime_registry (
    kind    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    body    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- Single numbers by name: sequence_end is the end of the last block of ids.
CREATE TABLE duetime_meta (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- For people: payload as text, instants as date-times in UTC, states as words.
CREATE VIEW duetime_readable AS
SELECT id, queue, kind,
    CASE state
        WHEN 10 THEN 'succeeded' WHEN 20 THEN 'failed' WHEN 30 THEN 'cancelled'
        ELSE CASE
            WHEN lease_until IS NOT NULL THEN 'running'
            WHEN due_at <= unixepoch('subsec') * 1000 THEN 'ready'
            ELSE 'scheduled'
        END
    END AS state,
    strftime('%Y-%m-%d %H:%M:%f', due_at / 1000.0, 'unixepoch') AS due_at,
    priority, attempt, crashes, job_key AS "key", origin, tags, message,
    CAST(payload AS TEXT) AS payload, CAST(result AS TEXT) AS result,
    strftime('%Y-%m-%d %H:%M:%f', lease_until / 1000.0, 'unixepoch') AS lease_until,
    strftime('%Y-%m-%d %H:%M:%f', created_at / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%d %H:%M:%f', updated_at / 1000.0, 'unixepoch') AS updated_at,
    strftime('%Y-%m-%d %H:%M:%f', started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%d %H:%M:%f', finished_at / 1000.0, 'unixepoch') AS finished_at
FROM duetime_jobs;
