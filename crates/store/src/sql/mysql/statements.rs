//! Statements for MySQL and MariaDB. Statements for many rows come in a few sizes, so that few texts have to be prepared.
//! Locked rows are changed by an insert that conflicts with them: a list of values is parsed and run several times as fast
//! as a join with a table of parameters.

use crate::sql::statements::{Bulk, Statements, hits};

const _: () = assert!(duetime_core::ports::BUCKET_MS == 600_000);
const _: () = assert!(duetime_core::limits::PAYLOAD_BYTES_MAX + 1 == 67_108_865);
const _: () = assert!(duetime_core::ports::INBOX_TEXT_MAX + 1 == 1_048_577);

const UNION: &str = " UNION ALL ";

macro_rules! change {
    () => {
        "due_at = VALUES(due_at), first_due_at = VALUES(first_due_at), priority = VALUES(priority), \
         attempt = VALUES(attempt), crashes = VALUES(crashes), version = VALUES(version), epoch = VALUES(epoch), \
         updated_at = VALUES(updated_at), started_at = VALUES(started_at), finished_at = VALUES(finished_at), \
         state = VALUES(state)"
    };
}

macro_rules! tallies {
    ($which:literal) => {
        concat!(
            "SELECT queue, CAST(SUM(pending) AS SIGNED), CAST(SUM(succeeded) AS SIGNED), CAST(SUM(failed) AS SIGNED), \
             CAST(SUM(cancelled) AS SIGNED), CAST(SUM(total_pushed) AS SIGNED), CAST(SUM(total_succeeded) AS SIGNED), \
             CAST(SUM(total_failed) AS SIGNED), CAST(SUM(total_cancelled) AS SIGNED) \
             FROM duetime_tallies FORCE INDEX (PRIMARY) WHERE ",
            $which
        )
    };
}

pub(super) const STATEMENTS: Statements = Statements {
    has_urgency: true,
    begin_reading: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION READ ONLY",
    insert: Bulk {
        text: "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, version, epoch, \
     created_at, updated_at, started_at, finished_at, lease_until, lease_ms, expires_ms, state, key_until, \
     cancel_asked, queue, kind, job_key, options, tags, errors, message, result, payload, progress, \
     bucket, urgency, key_order, origin) VALUES {}",
        row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        between: ", ",
    },
    insert_plain: Bulk {
        text: "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, version, created_at, updated_at, queue, kind, \
         payload, bucket, origin, options, urgency, attempt, crashes, epoch, state, key_until, cancel_asked) VALUES {}",
        row: "(?, ?, due_at, ?, ?, version, version, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 1, 0, 0)",
        between: ", ",
    },
    end: Bulk {
        text: concat!(
            "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, version, epoch, updated_at, \
         started_at, finished_at, state, created_at, key_until, cancel_asked, queue, kind, payload) VALUES {} \
         ON DUPLICATE KEY UPDATE ",
            change!(),
            ", lease_until = NULL, cancel_asked = 0, errors = NULL, message = NULL, result = NULL, progress = NULL, \
         bucket = NULL, urgency = NULL, key_order = IF(job_key IS NULL, NULL, id)"
        ),
        row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, '', '', '')",
        between: ", ",
    },
    change: Bulk {
        text: concat!(
            "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, version, epoch, updated_at, \
         started_at, finished_at, state, lease_until, cancel_asked, errors, message, result, progress, bucket, urgency, key_order, \
         options, created_at, key_until, queue, kind, payload) VALUES {} ON DUPLICATE KEY UPDATE ",
            change!(),
            ", lease_until = VALUES(lease_until), cancel_asked = VALUES(cancel_asked), errors = VALUES(errors), \
         message = VALUES(message), result = VALUES(result), progress = VALUES(progress), bucket = VALUES(bucket), \
         urgency = VALUES(urgency), key_order = VALUES(key_order), options = VALUES(options)"
        ),
        row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '', '', '')",
        between: ", ",
    },
    rewrite: Bulk {
        text: "UPDATE duetime_jobs SET tags = ?, payload = ?, options = ?, kind = ?, lease_ms = ?, expires_ms = ?, key_until = ? \
     WHERE id = ?",
        row: "",
        between: "",
    },
    holders: Bulk {
        text: "SELECT j.queue, j.job_key, j.id FROM ({}) u STRAIGHT_JOIN duetime_jobs j ON j.queue = u.queue \
     AND j.job_key = u.job_key AND j.key_order = 0",
        row: "SELECT CAST(? AS BINARY) AS queue, CAST(? AS BINARY) AS job_key",
        between: UNION,
    },
    origins: Bulk {
        text: "SELECT j.queue, j.origin, j.id FROM ({}) u STRAIGHT_JOIN duetime_jobs j ON j.queue = u.queue \
     AND j.origin = u.origin",
        row: "SELECT CAST(? AS BINARY) AS queue, CAST(? AS BINARY) AS origin",
        between: UNION,
    },
    versions: Some(Bulk::list(
        "SELECT id, version FROM duetime_jobs WHERE id IN ({}) AND state = 1 ORDER BY id FOR UPDATE",
    )),
    mark_loaded: Bulk::list("UPDATE duetime_jobs SET bucket = 0, urgency = NULL WHERE id IN ({})"),
    // Uses the width of buckets, which is fixed for all ledgers.
    mark_not_loaded: Bulk::list(
        "UPDATE duetime_jobs SET bucket = GREATEST(1, due_at DIV 600000), urgency = NULL WHERE id IN ({}) AND state = 1",
    ),
    // Matches `row::urgency`.
    mark_overflow: Bulk::list(
        "UPDATE duetime_jobs SET bucket = -1, urgency = CONCAT(queue, UNHEX('00'), UNHEX(LPAD(HEX(priority), 8, '0')), \
     UNHEX(LPAD(HEX(due_at), 16, '0'))) WHERE id IN ({}) AND state = 1",
    ),
    tag: Bulk {
        text: "INSERT INTO duetime_tags (tag, job_id) VALUES {} ON DUPLICATE KEY UPDATE job_id = VALUES(job_id)",
        row: "(?, ?)",
        between: ", ",
    },
    untag: Bulk {
        text: "DELETE t FROM ({}) u STRAIGHT_JOIN duetime_tags t ON t.tag = u.tag AND t.job_id = u.job_id",
        row: "SELECT CAST(? AS BINARY) AS tag, CAST(? AS SIGNED) AS job_id",
        between: UNION,
    },
    tally: Bulk {
        text: "INSERT INTO duetime_tallies (queue, slot, pending, succeeded, failed, cancelled, total_pushed, \
     total_succeeded, total_failed, total_cancelled) VALUES {} \
     ON DUPLICATE KEY UPDATE pending = pending + VALUES(pending), succeeded = succeeded + VALUES(succeeded), \
     failed = failed + VALUES(failed), cancelled = cancelled + VALUES(cancelled), \
     total_pushed = total_pushed + VALUES(total_pushed), total_succeeded = total_succeeded + VALUES(total_succeeded), \
     total_failed = total_failed + VALUES(total_failed), total_cancelled = total_cancelled + VALUES(total_cancelled)",
        row: "(?, CONNECTION_ID() % 16, ?, ?, ?, ?, ?, ?, ?, ?)",
        between: ", ",
    },
    tallies: Bulk::list(tallies!("queue IN ({}) GROUP BY queue ORDER BY queue")),
    tallies_from: tallies!("queue >= ? GROUP BY queue ORDER BY queue LIMIT ?"),
    drop_tally: Bulk {
        text: "DELETE t FROM ({}) u STRAIGHT_JOIN duetime_tallies t ON t.queue = u.queue AND t.slot = u.slot",
        row: "SELECT CAST(? AS BINARY) AS queue, CAST(? AS SIGNED) AS slot",
        between: UNION,
    },
    open_in: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_queue) WHERE j.queue = ? AND j.state = ? AND j.finished_at IS NULL \
     AND j.id > ? ORDER BY j.id LIMIT ?"
    ),
    ended: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_finished) WHERE j.state = ? \
     AND (j.finished_at < ? OR (j.finished_at = ? AND j.id < ?)) ORDER BY j.finished_at DESC, j.id DESC LIMIT ?"
    ),
    ended_in: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_queue) WHERE j.queue = ? AND j.state = ? \
     AND (j.finished_at < ? OR (j.finished_at = ? AND j.id < ?)) ORDER BY j.finished_at DESC, j.id DESC LIMIT ?"
    ),
    parked: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_finished) WHERE j.state = ? AND j.finished_at IS NULL \
     AND j.id > ? ORDER BY j.id LIMIT ?"
    ),
    holder: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_key) WHERE j.queue = ? AND j.job_key = ? AND j.key_order = 0 \
     AND j.id > ? LIMIT ?"
    ),
    by_key: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_key) WHERE j.queue = ? AND j.job_key = ? AND j.key_order > ? \
     ORDER BY j.key_order LIMIT ?"
    ),
    waiting_in: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_pending) WHERE j.bucket = ? AND j.urgency IS NULL AND j.id > ? \
     ORDER BY j.id LIMIT ?"
    ),
    waiting_behind: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_pending) WHERE j.bucket > ? AND j.bucket <= ? \
     ORDER BY j.bucket, j.urgency, j.id LIMIT ?"
    ),
    level: "SELECT priority FROM duetime_jobs FORCE INDEX (duetime_jobs_pending) \
     WHERE bucket = -1 AND urgency >= ? AND urgency <= ? ORDER BY urgency LIMIT 1",
    over: hits!(
        " FROM duetime_jobs j FORCE INDEX (duetime_jobs_pending) WHERE j.bucket = -1 AND j.urgency >= ? AND j.urgency <= ? \
     AND j.lease_until IS NULL ORDER BY j.urgency, j.id LIMIT ?"
    ),
    overflowing: "SELECT queue FROM duetime_jobs FORCE INDEX (duetime_jobs_pending) \
     WHERE bucket = -1 AND urgency > ? ORDER BY urgency LIMIT 1",
    // Uses the index alone: its last eight bytes are `due_at`.
    over_due: "SELECT COUNT(*), CAST(CONV(HEX(MIN(RIGHT(urgency, 8))), 16, 10) AS SIGNED) \
     FROM duetime_jobs FORCE INDEX (duetime_jobs_pending) \
     WHERE bucket = -1 AND urgency >= ? AND urgency <= ? AND RIGHT(urgency, 8) <= ?",
    // Uses the index alone if there is no such row. Values beyond every limit are not read in full.
    inbox_hits: "SELECT id, LENGTH(payload) + COALESCE(LENGTH(options), 0) + COALESCE(LENGTH(tags), 0) FROM duetime_inbox FORCE INDEX (duetime_inbox_waiting) \
     WHERE error IS NULL AND id > ? ORDER BY id LIMIT ?",
    inbox_rows: Bulk::list(
        "SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000, created_at, queue, kind, \
     SUBSTRING(payload, 1, 67108865), due_at, delay_ms, job_key, LEFT(tags, 1048577), priority, LEFT(options, 1048577) \
     FROM duetime_inbox WHERE id IN ({})",
    ),
    refuse_inbox: Bulk { text: "UPDATE duetime_inbox SET error = ? WHERE id = ?", row: "", between: "" },
};
