-- Jobs. Instants are milliseconds since 1970 UTC. Names given by users are stored as bytes: they compare byte by byte,
-- and may contain bytes that are invalid in PostgreSQL's text.
CREATE TABLE duetime_jobs (
    id           bigint   PRIMARY KEY,
    due_at       bigint   NOT NULL,
    first_due_at bigint   NOT NULL,
    bucket       bigint,                        -- of a pending row: -1 overflow, 0 loaded, else due_at / 10 min
    priority     bigint   NOT NULL,
    attempt      bigint   NOT NULL,
    crashes      bigint   NOT NULL,
    version      bigint   NOT NULL,
    epoch        bigint   NOT NULL,
    created_at   bigint   NOT NULL,
    updated_at   bigint   NOT NULL,
    started_at   bigint,
    finished_at  bigint,
    lease_until  bigint,
    lease_ms     bigint,
    expires_ms   bigint,
    state        smallint NOT NULL,             -- 1 pending, 10 succeeded, 20 failed, 30 cancelled
    key_until    smallint NOT NULL,             -- 0 finished, 1 started
    cancel_asked boolean  NOT NULL,
    queue        text     COLLATE "C" NOT NULL,
    kind         bytea    NOT NULL,
    job_key      bytea,
    key_order    bigint,                        -- with a key: 0 while the job holds it, then its id
    origin       bytea,                         -- identifies the push that made the job
    options      text,                          -- JSON: rare options, such as a retry rule or a target
    tags         text,                          -- JSON; indexed by duetime_tags
    errors       text,                          -- JSON
    message      bytea,
    result       bytea,
    payload      bytea    NOT NULL,
    progress     text                           -- JSON: {"percent": …, "note": …, "at": …}
) WITH (fillfactor = 90);

CREATE INDEX duetime_jobs_pending ON duetime_jobs (bucket, id) WHERE state = 1;
CREATE INDEX duetime_jobs_overflow ON duetime_jobs (queue, priority, due_at, id) WHERE state = 1 AND bucket = -1;
CREATE INDEX duetime_jobs_queue ON duetime_jobs (queue, state, finished_at, id);
CREATE INDEX duetime_jobs_finished ON duetime_jobs (state, finished_at, id) WHERE state <> 1;
CREATE UNIQUE INDEX duetime_jobs_key ON duetime_jobs (queue, job_key, key_order) WHERE job_key IS NOT NULL;
CREATE UNIQUE INDEX duetime_jobs_origin ON duetime_jobs (queue, origin) WHERE origin IS NOT NULL;

CREATE TABLE duetime_tags (
    tag    bytea  NOT NULL,
    job_id bigint NOT NULL,
    PRIMARY KEY (tag, job_id)
);

-- Jobs that applications insert in their own transactions. After the commit they become rows of duetime_jobs. An
-- application needs only the INSERT privilege.
CREATE TABLE duetime_inbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue         text   NOT NULL DEFAULT 'default',
    kind          text   NOT NULL DEFAULT 'default',
    payload       text,                         -- either this or payload_bytes
    payload_bytes bytea,
    due_at        bigint,                       -- or delay_ms; neither means now
    delay_ms      bigint,                       -- from created_at
    job_key       text,
    tags          text,                         -- JSON: ["a", "b"]
    priority      bigint,                       -- 0 is the most urgent, 1024 the default
    options       text,                         -- JSON: the other options of a push over HTTP
    created_at    bigint NOT NULL DEFAULT ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    error         text,                         -- why the job was refused; set it to NULL to retry
    CONSTRAINT duetime_inbox_payload CHECK (num_nonnulls(payload, payload_bytes) = 1)
);

CREATE INDEX duetime_inbox_waiting ON duetime_inbox (id) WHERE error IS NULL;

-- Rows of duetime_jobs by queue and state, and all-time totals, updated in the same transactions. The counts of a queue
-- are the sums over all its slots. Several slots keep transactions on one queue from waiting for each other.
CREATE TABLE duetime_tallies (
    queue           text     COLLATE "C" NOT NULL,
    slot            smallint NOT NULL,
    pending         bigint   NOT NULL,
    succeeded       bigint   NOT NULL,
    failed          bigint   NOT NULL,
    cancelled       bigint   NOT NULL,
    total_pushed    bigint   NOT NULL,
    total_succeeded bigint   NOT NULL,
    total_failed    bigint   NOT NULL,
    total_cancelled bigint   NOT NULL,
    PRIMARY KEY (queue, slot)
) WITH (fillfactor = 50);

CREATE TABLE duetime_registry (
    kind    text   COLLATE "C" NOT NULL,
    name    text   COLLATE "C" NOT NULL,
    body    text   NOT NULL,
    version bigint NOT NULL,
    -- The call that stored it.
    put_by  bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Single numbers by name: schema is the version of these tables, sequence_end the end of the last block of ids.
CREATE TABLE duetime_meta (
    name  text   COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

INSERT INTO duetime_meta (name, value) VALUES ('schema', 0), ('sequence_end', 0);

-- Readable bytes: as text if they are valid UTF-8, else escaped.
CREATE FUNCTION duetime_text(bytes bytea) RETURNS text LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN others THEN
    RETURN encode(bytes, 'escape');
END
$$;

-- For people: payload as text, instants as date-times, states as words.
CREATE VIEW duetime_readable AS
SELECT id, queue, duetime_text(kind) AS kind,
    CASE state
        WHEN 10 THEN 'succeeded' WHEN 20 THEN 'failed' WHEN 30 THEN 'cancelled'
        ELSE CASE
            WHEN lease_until IS NOT NULL THEN 'running'
            WHEN due_at <= extract(epoch FROM now()) * 1000 THEN 'ready'
            ELSE 'scheduled'
        END
    END AS state,
    to_timestamp(due_at / 1000.0) AS due_at,
    priority, attempt, crashes, duetime_text(job_key) AS key, duetime_text(origin) AS origin, tags,
    duetime_text(message) AS message, duetime_text(payload) AS payload, duetime_text(result) AS result,
    to_timestamp(lease_until / 1000.0) AS lease_until, to_timestamp(created_at / 1000.0) AS created_at,
    to_timestamp(updated_at / 1000.0) AS updated_at, to_timestamp(started_at / 1000.0) AS started_at,
    to_timestamp(finished_at / 1000.0) AS finished_at
FROM duetime_jobs;
