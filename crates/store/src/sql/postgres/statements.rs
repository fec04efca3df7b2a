//! Statements for PostgreSQL. Rows are sent as arrays, one for each column, so a statement's text is always the same and is
//! prepared once.

use crate::sql::statements::{Bulk, Statements, hits};

const _: () = assert!(duetime_core::ports::BUCKET_MS == 600_000);
const _: () = assert!(duetime_core::limits::PAYLOAD_BYTES_MAX + 1 == 67_108_865);
const _: () = assert!(duetime_core::ports::INBOX_TEXT_MAX + 1 == 1_048_577);

const fn bulk(text: &'static str) -> Bulk {
    Bulk { text, row: "", between: "" }
}

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

pub(super) const STATEMENTS: Statements = Statements {
    has_urgency: false,
    begin_reading: "START TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    insert: bulk(
        "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, \
     version, epoch, created_at, updated_at, started_at, finished_at, lease_until, lease_ms, expires_ms, state, \
     key_until, cancel_asked, queue, kind, job_key, options, tags, errors, message, result, payload, progress, bucket, \
     key_order, origin) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
     $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], \
     $14::bigint[], $15::bigint[], $16::smallint[], $17::smallint[], $18::boolean[], $19::text[], $20::bytea[], \
     $21::bytea[], $22::text[], $23::text[], $24::text[], $25::bytea[], $26::bytea[], $27::bytea[], $28::text[], \
     $29::bigint[], $30::bigint[], $31::bytea[]) ON CONFLICT DO NOTHING",
    ),
    insert_plain: bulk(
        "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, \
     version, epoch, created_at, updated_at, state, key_until, cancel_asked, queue, kind, payload, bucket, origin, options) \
     SELECT id, due_at, due_at, priority, 0, 0, version, 0, version, version, 1, 0, false, queue, kind, payload, bucket, \
     origin, options \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::bytea[], \
     $8::bigint[], $9::bytea[], $10::text[]) AS u (id, due_at, priority, version, queue, kind, payload, bucket, origin, options) \
     ON CONFLICT DO NOTHING",
    ),
    end: bulk(
        "UPDATE duetime_jobs j SET due_at = u.due_at, first_due_at = u.first_due_at, \
     priority = u.priority, attempt = u.attempt, crashes = u.crashes, version = u.version, epoch = u.epoch, \
     updated_at = u.updated_at, started_at = u.started_at, finished_at = u.finished_at, lease_until = NULL, \
     state = u.state, cancel_asked = false, errors = NULL, message = NULL, result = NULL, progress = NULL, \
     bucket = NULL, key_order = CASE WHEN j.job_key IS NOT NULL THEN j.id END \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::smallint[]) AS u (id, due_at, first_due_at, \
     priority, attempt, crashes, version, epoch, updated_at, started_at, finished_at, state) WHERE j.id = u.id",
    ),
    change: bulk(
        "UPDATE duetime_jobs j SET due_at = u.due_at, first_due_at = u.first_due_at, \
     priority = u.priority, attempt = u.attempt, crashes = u.crashes, version = u.version, epoch = u.epoch, \
     updated_at = u.updated_at, started_at = u.started_at, finished_at = u.finished_at, \
     lease_until = u.lease_until, state = u.state, cancel_asked = u.cancel_asked, errors = u.errors, \
     message = u.message, result = u.result, progress = u.progress, bucket = u.bucket, key_order = u.key_order, options = u.options \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::smallint[], $13::bigint[], $14::boolean[], \
     $15::text[], $16::bytea[], $17::bytea[], $18::text[], $19::bigint[], $20::bigint[], $21::text[]) AS u (id, due_at, first_due_at, priority, \
     attempt, crashes, version, epoch, updated_at, started_at, finished_at, state, lease_until, cancel_asked, errors, \
     message, result, progress, bucket, key_order, options) WHERE j.id = u.id",
    ),
    rewrite: bulk(
        "UPDATE duetime_jobs j SET tags = u.tags, payload = u.payload, options = u.options, kind = u.kind, \
     lease_ms = u.lease_ms, expires_ms = u.expires_ms, key_until = u.key_until \
     FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::smallint[], $8::bigint[]) \
     AS u (tags, payload, options, kind, lease_ms, expires_ms, key_until, id) WHERE j.id = u.id",
    ),
    holders: bulk(
        "SELECT j.queue, j.job_key, j.id FROM unnest($1::text[], $2::bytea[]) AS u (queue, key) \
     JOIN duetime_jobs j ON j.queue = u.queue AND j.job_key = u.key AND j.key_order = 0",
    ),
    origins: bulk(
        "SELECT j.queue, j.origin, j.id FROM unnest($1::text[], $2::bytea[]) AS u (queue, origin) \
     JOIN duetime_jobs j ON j.queue = u.queue AND j.origin = u.origin",
    ),
    versions: None,
    mark_loaded: bulk(
        "UPDATE duetime_jobs j SET bucket = 0 \
     FROM unnest($1::bigint[], $2::bigint[]) u (id, version) \
     WHERE j.id = u.id AND j.version = u.version AND j.state = 1 AND j.bucket <> 0",
    ),
    mark_not_loaded: bulk(
        "UPDATE duetime_jobs SET bucket = greatest(1, due_at / 600000) \
     WHERE id = ANY ($1::bigint[]) AND state = 1 AND bucket = 0",
    ),
    mark_overflow: bulk(
        "UPDATE duetime_jobs SET bucket = -1 WHERE id = ANY ($1::bigint[]) AND state = 1 AND bucket <> -1",
    ),
    tag: bulk(
        "INSERT INTO duetime_tags (tag, job_id) SELECT * FROM unnest($1::bytea[], $2::bigint[]) \
     ON CONFLICT DO NOTHING",
    ),
    untag: bulk(
        "DELETE FROM duetime_tags t USING unnest($1::bytea[], $2::bigint[]) AS u (tag, job_id) \
     WHERE t.tag = u.tag AND t.job_id = u.job_id",
    ),
    tally: bulk(
        "INSERT INTO duetime_tallies AS t (queue, slot, pending, succeeded, failed, cancelled, \
     total_pushed, total_succeeded, total_failed, total_cancelled) \
     SELECT u.queue, pg_backend_pid() % 16, u.a, u.b, u.c, u.d, u.e, u.f, u.g, u.h \
     FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[]) AS u (queue, a, b, c, d, e, f, g, h) \
     ON CONFLICT (queue, slot) DO UPDATE SET pending = t.pending + excluded.pending, \
     succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed, \
     cancelled = t.cancelled + excluded.cancelled, total_pushed = t.total_pushed + excluded.total_pushed, \
     total_succeeded = t.total_succeeded + excluded.total_succeeded, \
     total_failed = t.total_failed + excluded.total_failed, \
     total_cancelled = t.total_cancelled + excluded.total_cancelled",
    ),
    tallies: bulk(tallies!("queue = ANY($1) GROUP BY queue ORDER BY queue")),
    tallies_from: tallies!("queue >= $1 GROUP BY queue ORDER BY queue LIMIT $2"),
    drop_tally: bulk(
        "DELETE FROM duetime_tallies t USING unnest($1::text[], $2::smallint[]) AS u (queue, slot) \
 WHERE t.queue = u.queue AND t.slot = u.slot",
    ),
    // Ordered by all columns of the index. With `ORDER BY id` a generic plan may read the whole table by id, in the hope that
    // most rows are of this queue.
    open_in: hits!(
        " FROM duetime_jobs j WHERE j.queue = $1 AND j.state = $2 AND j.finished_at IS NULL AND j.id > $3 \
     ORDER BY j.finished_at, j.id LIMIT $4"
    ),
    ended: hits!(
        " FROM duetime_jobs j WHERE j.state = $1 AND j.state <> 1 AND j.finished_at <= $2 \
     AND (j.finished_at, j.id) < ($3, $4) ORDER BY j.finished_at DESC, j.id DESC LIMIT $5"
    ),
    ended_in: hits!(
        " FROM duetime_jobs j WHERE j.queue = $1 AND j.state = $2 AND j.finished_at <= $3 \
     AND (j.finished_at, j.id) < ($4, $5) ORDER BY j.finished_at DESC, j.id DESC LIMIT $6"
    ),
    parked: hits!(
        " FROM duetime_jobs j WHERE j.state = $1 AND j.state <> 1 AND j.finished_at IS NULL AND j.id > $2 \
     ORDER BY j.finished_at, j.id LIMIT $3"
    ),
    holder: hits!(
        " FROM duetime_jobs j WHERE j.queue = $1 AND j.job_key = $2 AND j.key_order = 0 AND j.id > $3 LIMIT $4"
    ),
    by_key: hits!(
        " FROM duetime_jobs j WHERE (j.queue, j.job_key, j.key_order) > ($1, $2, $3) AND (j.queue, j.job_key) <= ($1, $2) \
     AND j.job_key IS NOT NULL ORDER BY j.queue, j.job_key, j.key_order LIMIT $4"
    ),
    // Written as ranges of the index.
    waiting_in: hits!(
        " FROM duetime_jobs j WHERE j.state = 1 AND (j.bucket, j.id) > ($1, $2) AND j.bucket <= $1 \
         ORDER BY j.bucket, j.id LIMIT $3"
    ),
    waiting_behind: hits!(
        " FROM duetime_jobs j WHERE j.state = 1 AND j.bucket > $1 AND j.bucket <= $2 ORDER BY j.bucket, j.id LIMIT $3"
    ),
    level: "SELECT priority FROM duetime_jobs WHERE state = 1 AND bucket = -1 \
     AND (queue, priority) >= ($1, $2) AND queue <= $1 ORDER BY queue, priority LIMIT 1",
    over: hits!(
        " FROM duetime_jobs j WHERE j.state = 1 AND j.bucket = -1 AND (j.queue, j.priority, j.due_at) >= ($1, $2, $3) \
     AND (j.queue, j.priority, j.due_at) <= ($1, $2, $4) AND j.lease_until IS NULL \
     ORDER BY j.queue, j.priority, j.due_at, j.id LIMIT $5"
    ),
    overflowing: "SELECT queue FROM duetime_jobs WHERE state = 1 AND bucket = -1 AND queue > $1 \
     ORDER BY queue LIMIT 1",
    over_due: "SELECT count(*), min(due_at) FROM duetime_jobs WHERE state = 1 AND bucket = -1 \
     AND queue = $1 AND due_at <= $2",
    // Rows that were never refused; uses the index alone if there are none. Values beyond every limit are not read in full.
    inbox_hits: "SELECT id, coalesce(octet_length(payload), octet_length(payload_bytes), 0)::bigint \
     + coalesce(octet_length(options), 0) + coalesce(octet_length(tags), 0) + coalesce(octet_length(job_key), 0) \
     + octet_length(queue) + octet_length(kind) FROM duetime_inbox WHERE error IS NULL AND id > $1 ORDER BY id LIMIT $2",
    inbox_rows: bulk(
        "SELECT id, \
     floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, created_at, left(queue, 1048577), left(kind, 1048577), \
     substr(coalesce(payload_bytes, convert_to(left(payload, 67108865), 'UTF8')), 1, 67108865), due_at, delay_ms, left(job_key, 1048577), \
     left(tags, 1048577), priority, left(options, 1048577) FROM duetime_inbox WHERE id = ANY($1)",
    ),
    refuse_inbox: bulk(
        "UPDATE duetime_inbox i SET error = u.error \
     FROM unnest($1::text[], $2::bigint[]) AS u (error, id) WHERE i.id = u.id",
    ),
};
