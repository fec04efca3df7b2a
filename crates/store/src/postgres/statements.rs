//! What is sent to PostgreSQL. Many rows travel as arrays, one for each column, so that a statement's text is always the
//! same and is prepared once.

macro_rules! columns {
    () => {
        "j.id, j.due_at, j.first_due_at, j.priority, j.attempt, j.crashes, j.version, j.epoch, j.created_at, \
         j.updated_at, j.started_at, j.finished_at, j.lease_until, j.lease_ms, j.expires_ms, j.state, j.key_until, \
         j.cancel_asked, j.queue, j.kind, j.job_key, j.options, j.tags, j.errors, j.message, j.result, j.payload, \
         j.progress"
    };
}

macro_rules! hit {
    () => {
        "j.id, j.bucket, j.due_at, j.state, j.lease_until IS NOT NULL, j.queue, j.kind, \
         octet_length(j.payload) + coalesce(octet_length(j.result), 0)"
    };
}

pub(super) const INSERT: &str = "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, \
     version, epoch, created_at, updated_at, started_at, finished_at, lease_until, lease_ms, expires_ms, state, \
     key_until, cancel_asked, queue, kind, job_key, options, tags, errors, message, result, payload, progress, bucket, \
     live_key) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
     $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], \
     $14::bigint[], $15::bigint[], $16::smallint[], $17::smallint[], $18::boolean[], $19::text[], $20::bytea[], \
     $21::bytea[], $22::text[], $23::text[], $24::text[], $25::bytea[], $26::bytea[], $27::bytea[], $28::text[], \
     $29::text[], $30::bigint[], $31::bytea[]) ON CONFLICT DO NOTHING";

/// Of rows that are [plain](crate::sql::Inserted::is_plain).
pub(super) const INSERT_PLAIN: &str = "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, \
     version, epoch, created_at, updated_at, state, key_until, cancel_asked, queue, kind, payload, bucket) \
     SELECT id, due_at, due_at, priority, 0, 0, version, 0, version, version, 1, 0, false, queue, kind, payload, bucket \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::bytea[], \
     $8::bigint[]) AS u (id, due_at, priority, version, queue, kind, payload, bucket) ON CONFLICT DO NOTHING";

/// Of rows with a [plain end](crate::sql::Inserted::is_plain_end).
pub(super) const END: &str = "UPDATE duetime_jobs j SET due_at = u.due_at, first_due_at = u.first_due_at, \
     priority = u.priority, attempt = u.attempt, crashes = u.crashes, version = u.version, epoch = u.epoch, \
     updated_at = u.updated_at, started_at = u.started_at, finished_at = u.finished_at, lease_until = NULL, \
     state = u.state, cancel_asked = false, errors = NULL, message = NULL, result = NULL, progress = NULL, bucket = 0, live_key = NULL \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::smallint[]) AS u (id, due_at, first_due_at, \
     priority, attempt, crashes, version, epoch, updated_at, started_at, finished_at, state) WHERE j.id = u.id";

pub(super) const CHANGE: &str = "UPDATE duetime_jobs j SET due_at = u.due_at, first_due_at = u.first_due_at, \
     priority = u.priority, attempt = u.attempt, crashes = u.crashes, version = u.version, epoch = u.epoch, \
     updated_at = u.updated_at, started_at = u.started_at, finished_at = u.finished_at, \
     lease_until = u.lease_until, state = u.state, cancel_asked = u.cancel_asked, errors = u.errors, \
     message = u.message, result = u.result, progress = u.progress, bucket = u.bucket, live_key = u.live_key \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::smallint[], $14::boolean[], \
     $15::text[], $16::bytea[], $17::bytea[], $18::text[], $19::bigint[], $20::bytea[]) AS u (id, due_at, first_due_at, priority, \
     attempt, crashes, version, epoch, updated_at, started_at, finished_at, lease_until, state, cancel_asked, errors, \
     message, result, progress, bucket, live_key) WHERE j.id = u.id";

pub(super) const REWRITE: &str = "UPDATE duetime_jobs j SET tags = u.tags, payload = u.payload \
     FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS u (id, tags, payload) WHERE j.id = u.id";

pub(super) const LEASE: &str = "UPDATE duetime_jobs j SET version = u.version, epoch = u.epoch, attempt = u.attempt, \
     lease_until = u.lease_until, started_at = u.started_at, updated_at = u.updated_at, \
     progress = NULL, live_key = CASE WHEN u.frees_key THEN NULL ELSE j.live_key END \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::boolean[]) AS u (id, version, epoch, attempt, lease_until, started_at, updated_at, frees_key) \
     WHERE j.id = u.id AND j.version < u.version AND j.state = 1";

pub(super) const KNOWN: &str = "SELECT id FROM duetime_jobs WHERE id = ANY($1)";
pub(super) const HEADS: &str = "SELECT id, version, epoch, queue, state, live_key, tags FROM duetime_jobs \
     WHERE id = ANY($1) ORDER BY id FOR UPDATE";
pub(super) const JOBS: &str = concat!("SELECT ", columns!(), " FROM duetime_jobs j WHERE id = ANY($1)");
pub(super) const JOBS_LOCKED: &str =
    concat!("SELECT ", columns!(), " FROM duetime_jobs j WHERE id = ANY($1) ORDER BY id FOR UPDATE");
pub(super) const HOLDERS: &str = "SELECT j.queue, j.live_key, j.id FROM unnest($1::text[], $2::bytea[]) AS u (queue, key) \
     JOIN duetime_jobs j ON j.queue = u.queue AND j.live_key = u.key";

pub(super) const FILE_NEAR: &str = "UPDATE duetime_jobs j SET bucket = 0 \
     FROM unnest($1::bigint[], $2::bigint[]) u (id, version) \
     WHERE j.id = u.id AND j.version = u.version AND j.state = 1 AND j.bucket <> 0";
pub(super) const FILE_BY_DUE: &str = "UPDATE duetime_jobs SET bucket = greatest(1, due_at / $2::bigint) \
     WHERE id = ANY ($1::bigint[]) AND state = 1 AND bucket = 0";
pub(super) const FILE_OVER: &str =
    "UPDATE duetime_jobs SET bucket = -1 WHERE id = ANY ($1::bigint[]) AND state = 1 AND bucket <> -1";

pub(super) const DELETE: &str = "DELETE FROM duetime_jobs WHERE id = ANY($1)";
pub(super) const TAG: &str = "INSERT INTO duetime_tags (tag, job_id) SELECT * FROM unnest($1::bytea[], $2::bigint[]) \
     ON CONFLICT DO NOTHING";
pub(super) const UNTAG: &str = "DELETE FROM duetime_tags t USING unnest($1::bytea[], $2::bigint[]) AS u (tag, job_id) \
     WHERE t.tag = u.tag AND t.job_id = u.job_id";
pub(super) const PAST: &str = "SELECT id, version, epoch, queue, state, live_key, tags FROM duetime_jobs \
     WHERE state = $1 AND finished_at IS NOT NULL AND finished_at <= $2 ORDER BY finished_at LIMIT $3 \
     FOR UPDATE SKIP LOCKED";

pub(super) const TALLY: &str = "INSERT INTO duetime_tallies AS t (queue, slot, pending, succeeded, failed, cancelled, \
     total_pushed, total_succeeded, total_failed, total_cancelled) \
     SELECT u.queue, pg_backend_pid() % 16, u.a, u.b, u.c, u.d, u.e, u.f, u.g, u.h \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[]) AS u (queue, a, b, c, d, e, f, g, h) \
     ON CONFLICT (queue, slot) DO UPDATE SET pending = t.pending + excluded.pending, \
     succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed, \
     cancelled = t.cancelled + excluded.cancelled, total_pushed = t.total_pushed + excluded.total_pushed, \
     total_succeeded = t.total_succeeded + excluded.total_succeeded, \
     total_failed = t.total_failed + excluded.total_failed, \
     total_cancelled = t.total_cancelled + excluded.total_cancelled";
macro_rules! tallies {
    ($which:literal) => {
        concat!(
            "SELECT queue, sum(pending)::bigint, sum(succeeded)::bigint, sum(failed)::bigint, sum(cancelled)::bigint, \
             sum(total_pushed)::bigint, sum(total_succeeded)::bigint, sum(total_failed)::bigint, \
             sum(total_cancelled)::bigint FROM duetime_tallies WHERE ",
            $which
        )
    };
}
pub(super) const TALLIES: &str = tallies!("queue = ANY($1) GROUP BY queue ORDER BY queue");
pub(super) const TALLIES_FROM: &str = tallies!("queue >= $1 GROUP BY queue ORDER BY queue LIMIT $2");
// What is removed adds up to nothing, so it does not matter what is added meanwhile in another slot.
pub(super) const DROP_TALLIES: &str = "WITH locked AS (SELECT * FROM duetime_tallies WHERE queue = ANY($1) \
     ORDER BY queue, slot FOR UPDATE), empty AS (SELECT queue FROM locked GROUP BY queue HAVING sum(pending) = 0 \
     AND sum(succeeded) = 0 AND sum(failed) = 0 AND sum(cancelled) = 0) \
     DELETE FROM duetime_tallies t USING locked l, empty e \
     WHERE t.queue = l.queue AND t.slot = l.slot AND e.queue = l.queue";

pub(super) const ALL: &str = concat!("SELECT ", hit!(), " FROM duetime_jobs j WHERE j.id > $1 ORDER BY j.id LIMIT $2");
// Written as ranges of the index: with `queue = $3 ... ORDER BY id` a plan for any queue may read the whole table by id in
// the hope that most rows are of the queue.
pub(super) const QUEUE: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j WHERE (j.queue, j.state, j.id) > ($3, $4, $1) AND (j.queue, j.state) <= ($3, $4) \
     ORDER BY j.queue, j.state, j.id LIMIT $2"
);
pub(super) const KEY: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j WHERE (j.queue, j.job_key, j.id) > ($3, $4, $1) AND (j.queue, j.job_key) <= ($3, $4) \
     AND j.job_key IS NOT NULL ORDER BY j.queue, j.job_key, j.id LIMIT $2"
);
pub(super) const TAGGED: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM (SELECT job_id FROM duetime_tags WHERE job_id > $1 AND tag = $3 ORDER BY job_id LIMIT $2) t \
     JOIN duetime_jobs j ON j.id = t.job_id ORDER BY j.id"
);
pub(super) const WAITING: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j WHERE j.state = 1 AND (j.bucket, j.id) > ($1, $2) AND j.bucket <= $3 \
     ORDER BY j.bucket, j.id LIMIT $4"
);
// Written as ranges of the index, as above.
pub(super) const LEVEL: &str = "SELECT priority FROM duetime_jobs WHERE state = 1 AND bucket = -1 \
     AND (queue, priority) >= ($1, $2) AND queue <= $1 ORDER BY queue, priority LIMIT 1";
pub(super) const OVER: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j WHERE j.state = 1 AND j.bucket = -1 AND (j.queue, j.priority, j.due_at) >= ($1, $2, $3) \
     AND (j.queue, j.priority, j.due_at) <= ($1, $2, $4) AND j.lease_until IS NULL \
     ORDER BY j.queue, j.priority, j.due_at, j.id LIMIT $5"
);
pub(super) const OVERFLOWING: &str = "SELECT queue FROM duetime_jobs WHERE state = 1 AND bucket = -1 AND queue > $1 \
     ORDER BY queue LIMIT 1";
pub(super) const OVER_DUE: &str = "SELECT count(*), min(due_at) FROM duetime_jobs WHERE state = 1 AND bucket = -1 \
     AND queue = $1 AND due_at <= $2";
pub(super) const LEASED: &str = "SELECT id FROM duetime_jobs WHERE lease_until IS NOT NULL ORDER BY id";

/// Never refused, and by its index alone where there is none. What is beyond every limit is not read whole.
pub(super) const INBOX_HITS: &str = "SELECT id, coalesce(octet_length(payload), octet_length(payload_bytes), 0)::bigint \
     + coalesce(octet_length(options), 0) + coalesce(octet_length(tags), 0) + coalesce(octet_length(job_key), 0) \
     + octet_length(queue) + octet_length(kind) FROM duetime_inbox WHERE error IS NULL ORDER BY id LIMIT $1";
pub(super) const INBOX_ROWS: &str = "SELECT id, \
     floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, created_at, left(queue, $3), left(kind, $3), \
     substr(coalesce(payload_bytes, convert_to(left(payload, $2), 'UTF8')), 1, $2::int), due_at, delay_ms, left(job_key, $3), \
     left(tags, $3), priority, left(options, $3) FROM duetime_inbox WHERE id = ANY($1)";
pub(super) const LOCK_INBOX: &str = "SELECT id FROM duetime_inbox WHERE id = ANY($1) AND error IS NULL ORDER BY id \
     FOR UPDATE SKIP LOCKED";
pub(super) const DELETE_INBOX: &str = "DELETE FROM duetime_inbox WHERE id = ANY($1)";
pub(super) const REFUSE_INBOX: &str = "UPDATE duetime_inbox i SET error = u.error \
     FROM unnest($1::bigint[], $2::text[]) AS u (id, error) WHERE i.id = u.id";

pub(super) const SEQUENCE: &str = "SELECT value FROM duetime_meta WHERE name = 'sequence_end' FOR UPDATE";
pub(super) const SET_SEQUENCE: &str = "UPDATE duetime_meta SET value = $1 WHERE name = 'sequence_end'";
pub(super) const DOCUMENT: &str = "SELECT name, body, version FROM duetime_registry WHERE kind = $1 AND name = $2";
pub(super) const DOCUMENT_LOCKED: &str =
    "SELECT name, body, version FROM duetime_registry WHERE kind = $1 AND name = $2 FOR UPDATE";
pub(super) const DOCUMENTS: &str = "SELECT name, body, version FROM duetime_registry WHERE kind = $1 ORDER BY name";
pub(super) const NEW_DOCUMENT: &str =
    "INSERT INTO duetime_registry (kind, name, body, version) VALUES ($1, $2, $3, $4)";
pub(super) const PUT_DOCUMENT: &str =
    "UPDATE duetime_registry SET body = $3, version = $4 WHERE kind = $1 AND name = $2";
pub(super) const REMOVE_DOCUMENT: &str = "DELETE FROM duetime_registry WHERE kind = $1 AND name = $2";

/// What is asked, by a name, with an index that it is to use: for the test of that.
pub const QUESTIONS: [(&str, &str, &str); 29] = [
    ("known", KNOWN, "duetime_jobs_pkey"),
    ("heads", HEADS, "duetime_jobs_pkey"),
    ("jobs", JOBS, "duetime_jobs_pkey"),
    ("holders", HOLDERS, "duetime_jobs_live_key"),
    ("past", PAST, "duetime_jobs_finished"),
    ("everything", ALL, "duetime_jobs_pkey"),
    ("by_queue", QUEUE, "duetime_jobs_queue"),
    ("by_key", KEY, "duetime_jobs_key"),
    ("by_tag", TAGGED, "duetime_tags_pkey"),
    ("waiting", WAITING, "duetime_jobs_pending"),
    ("leased", LEASED, "duetime_jobs_leased"),
    ("change", CHANGE, "duetime_jobs_pkey"),
    ("end_rows", END, "duetime_jobs_pkey"),
    ("rewrite", REWRITE, "duetime_jobs_pkey"),
    ("lease", LEASE, "duetime_jobs_pkey"),
    ("untag", UNTAG, "duetime_tags_pkey"),
    ("delete_rows", DELETE, "duetime_jobs_pkey"),
    ("file_near", FILE_NEAR, "duetime_jobs_pkey"),
    ("file_by_due", FILE_BY_DUE, "duetime_jobs_pkey"),
    ("file_over", FILE_OVER, "duetime_jobs_pkey"),
    ("level", LEVEL, "duetime_jobs_overflow"),
    ("over", OVER, "duetime_jobs_overflow"),
    ("overflowing", OVERFLOWING, "duetime_jobs_overflow"),
    ("over_due", OVER_DUE, "duetime_jobs_overflow"),
    ("inbox_hits", INBOX_HITS, "duetime_inbox_waiting"),
    ("inbox_rows", INBOX_ROWS, "duetime_inbox_pkey"),
    ("lock_inbox", LOCK_INBOX, "duetime_inbox_"),
    ("delete_inbox", DELETE_INBOX, "duetime_inbox_pkey"),
    ("refuse_inbox", REFUSE_INBOX, "duetime_inbox_pkey"),
];
