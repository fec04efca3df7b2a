-- Jobs. Instants are milliseconds since 1970 UTC. Names given by users are stored as bytes, so that they compare byte by byte.
-- Each statement can be run again: these servers have no transactional DDL.
CREATE TABLE IF NOT EXISTS duetime_jobs (
    id           BIGINT         NOT NULL PRIMARY KEY,
    due_at       BIGINT         NOT NULL,
    first_due_at BIGINT         NOT NULL,
    bucket       BIGINT,                        -- of a pending row: -1 overflow, 0 loaded, else due_at / 10 min
    urgency      VARBINARY(213),                -- sort key of a row in the overflow: queue, 0, priority, due_at
    priority     BIGINT         NOT NULL,
    attempt      BIGINT         NOT NULL,
    crashes      BIGINT         NOT NULL,
    version      BIGINT         NOT NULL,
    epoch        BIGINT         NOT NULL,
    created_at   BIGINT         NOT NULL,
    updated_at   BIGINT         NOT NULL,
    started_at   BIGINT,
    finished_at  BIGINT,
    lease_until  BIGINT,
    lease_ms     BIGINT,
    expires_ms   BIGINT,
    state        TINYINT        NOT NULL,       -- 1 pending, 10 succeeded, 20 failed, 30 cancelled
    key_until    TINYINT        NOT NULL,       -- 0 finished, 1 started
    cancel_asked TINYINT        NOT NULL,
    queue        VARBINARY(200) NOT NULL,
    kind         VARBINARY(128) NOT NULL,
    job_key      VARBINARY(255),
    key_order    BIGINT,                        -- with a key: 0 while the job holds it, then its id
    origin       VARBINARY(255),                -- identifies the push that made the job
    options      MEDIUMTEXT,                    -- JSON: rare options, such as a retry rule or a target
    tags         MEDIUMTEXT,                    -- JSON, indexed by duetime_tags
    errors       MEDIUMTEXT,                    -- JSON
    message      MEDIUMBLOB,
    result       LONGBLOB,
    payload      LONGBLOB       NOT NULL,
    progress     TEXT,                          -- JSON with percent, note and at
    KEY duetime_jobs_pending (bucket, urgency),
    KEY duetime_jobs_queue (queue, state, finished_at),
    KEY duetime_jobs_finished (state, finished_at),
    UNIQUE KEY duetime_jobs_key (queue, job_key, key_order),
    UNIQUE KEY duetime_jobs_origin (queue, origin)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS duetime_tags (
    tag    VARBINARY(255) NOT NULL,
    job_id BIGINT         NOT NULL,
    PRIMARY KEY (tag, job_id)
) ENGINE = InnoDB;

-- Jobs that applications insert in their own transactions. After the commit they become rows of duetime_jobs. An
-- application needs only the INSERT privilege.
CREATE TABLE IF NOT EXISTS duetime_inbox (
    id         BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    queue      VARCHAR(1000) NOT NULL DEFAULT 'default',
    kind       VARCHAR(1000) NOT NULL DEFAULT 'default',
    payload    LONGBLOB      NOT NULL,          -- text or bytes
    due_at     BIGINT,                          -- or delay_ms, neither means now
    delay_ms   BIGINT,                          -- from created_at
    job_key    VARCHAR(1000),
    tags       MEDIUMTEXT,                      -- JSON: ["a", "b"]
    priority   BIGINT,                          -- 0 is the most urgent, 1024 the default
    options    MEDIUMTEXT,                      -- JSON: the other options of a push over HTTP
    created_at BIGINT        NOT NULL
        DEFAULT ((TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 999) DIV 1000),
    error      VARCHAR(700),                    -- why the job was refused, set it to NULL to retry
    KEY duetime_inbox_waiting (error)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ROW_FORMAT = DYNAMIC;

-- Rows of duetime_jobs by queue and state, and all-time totals, updated in the same transactions. The counts of a queue
-- are the sums over all its slots. Several slots keep transactions on one queue from waiting for each other.
CREATE TABLE IF NOT EXISTS duetime_tallies (
    queue           VARBINARY(200) NOT NULL,
    slot            SMALLINT       NOT NULL,
    pending         BIGINT         NOT NULL,
    succeeded       BIGINT         NOT NULL,
    failed          BIGINT         NOT NULL,
    cancelled       BIGINT         NOT NULL,
    total_pushed    BIGINT         NOT NULL,
    total_succeeded BIGINT         NOT NULL,
    total_failed    BIGINT         NOT NULL,
    total_cancelled BIGINT         NOT NULL,
    PRIMARY KEY (queue, slot)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS duetime_registry (
    kind    VARBINARY(64)  NOT NULL,
    name    VARBINARY(255) NOT NULL,
    body    LONGTEXT       NOT NULL,
    version BIGINT         NOT NULL,
    -- The call that stored it.
    put_by  BIGINT         NOT NULL,
    PRIMARY KEY (kind, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Single numbers by name: schema is the version of these tables, sequence_end the end of the last block of ids.
CREATE TABLE IF NOT EXISTS duetime_meta (
    name  VARBINARY(64) NOT NULL PRIMARY KEY,
    value BIGINT        NOT NULL
) ENGINE = InnoDB;

INSERT INTO duetime_meta (name, value) VALUES ('schema', 0), ('sequence_end', 0) ON DUPLICATE KEY UPDATE value = value;

-- For people: payload as text, instants as date-times in UTC, states as words.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW duetime_readable AS
SELECT id, CONVERT(queue USING utf8mb4) AS queue, CONVERT(kind USING utf8mb4) AS kind,
    CASE state
        WHEN 10 THEN 'succeeded' WHEN 20 THEN 'failed' WHEN 30 THEN 'cancelled'
        ELSE CASE
            WHEN lease_until IS NOT NULL THEN 'running'
            WHEN due_at <= UNIX_TIMESTAMP() * 1000 THEN 'ready'
            ELSE 'scheduled'
        END
    END AS state,
    TIMESTAMPADD(MICROSECOND, due_at * 1000, '1970-01-01') AS due_at,
    priority, attempt, crashes, CONVERT(job_key USING utf8mb4) AS job_key,
    CONVERT(origin USING utf8mb4) AS origin, tags,
    CONVERT(message USING utf8mb4) AS message, CONVERT(payload USING utf8mb4) AS payload,
    CONVERT(result USING utf8mb4) AS result,
    TIMESTAMPADD(MICROSECOND, lease_until * 1000, '1970-01-01') AS lease_until,
    TIMESTAMPADD(MICROSECOND, created_at * 1000, '1970-01-01') AS created_at,
    TIMESTAMPADD(MICROSECOND, updated_at * 1000, '1970-01-01') AS updated_at,
    TIMESTAMPADD(MICROSECOND, started_at * 1000, '1970-01-01') AS started_at,
    TIMESTAMPADD(MICROSECOND, finished_at * 1000, '1970-01-01') AS finished_at
FROM duetime_jobs;
