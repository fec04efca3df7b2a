//! What is sent to MySQL or MariaDB. Many rows travel in statements for a few numbers of them, so that there are few
//! texts to prepare. Locked rows are changed by an insert that finds them there: a list of values is parsed and run several
//! times as fast as a table of parameters to join with.

use std::fmt::Write;

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
        "j.id, COALESCE(j.bucket, 0), j.due_at, j.state, j.lease_until IS NOT NULL, j.queue, j.kind, \
         LENGTH(j.payload) + COALESCE(LENGTH(j.result), 0)"
    };
}

/// Rows of one statement, the largest first.
pub(super) const SIZES: [usize; 11] = [250, 100, 50, 32, 20, 12, 8, 5, 3, 2, 1];

/// A statement with places for rows: `{}` stands for them.
pub(super) struct Bulk {
    text: &'static str,
    /// Of one row.
    row: &'static str,
    between: &'static str,
}

impl Bulk {
    /// The text for so many rows.
    pub(super) fn text(&self, rows: usize) -> String {
        let (before, after) = self.text.split_once("{}").unwrap_or((self.text, ""));
        let mut text = before.to_owned();
        for row in 0..rows {
            let between = if row == 0 { "" } else { self.between };
            // Text takes all.
            let _ = write!(text, "{between}{}", self.row);
        }
        text + after
    }
}

const UNION: &str = " UNION ALL ";

pub(super) const INSERT: Bulk = Bulk {
    text: "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, version, epoch, \
     created_at, updated_at, started_at, finished_at, lease_until, lease_ms, expires_ms, state, key_until, \
     cancel_asked, queue, kind, job_key, options, tags, errors, message, result, payload, progress, \
     bucket, urgency, live_key) VALUES {}",
    row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    between: ", ",
};

/// Of rows that are [plain](crate::sql::Inserted::is_plain).
pub(super) const INSERT_PLAIN: Bulk = Bulk {
    text: "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, version, created_at, updated_at, queue, kind, \
     payload, bucket, urgency, attempt, crashes, epoch, state, key_until, cancel_asked) VALUES {}",
    row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 1, 0, 0)",
    between: ", ",
};

macro_rules! change {
    () => {
        "due_at = VALUES(due_at), first_due_at = VALUES(first_due_at), priority = VALUES(priority), \
         attempt = VALUES(attempt), crashes = VALUES(crashes), version = VALUES(version), epoch = VALUES(epoch), \
         updated_at = VALUES(updated_at), started_at = VALUES(started_at), finished_at = VALUES(finished_at), \
         state = VALUES(state)"
    };
}

/// Of rows with a [plain end](crate::sql::Inserted::is_plain_end), which are there.
pub(super) const END: Bulk = Bulk {
    text: concat!(
        "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, version, epoch, updated_at, \
         started_at, finished_at, state, created_at, key_until, cancel_asked, queue, kind, payload) VALUES {} \
         ON DUPLICATE KEY UPDATE ",
        change!(),
        ", lease_until = NULL, cancel_asked = 0, errors = NULL, message = NULL, result = NULL, progress = NULL, \
         bucket = NULL, urgency = NULL, live_key = NULL"
    ),
    row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, '', '', '')",
    between: ", ",
};

/// Of rows that are there.
pub(super) const CHANGE: Bulk = Bulk {
    text: concat!(
        "INSERT INTO duetime_jobs (id, due_at, first_due_at, priority, attempt, crashes, version, epoch, updated_at, \
         started_at, finished_at, state, lease_until, cancel_asked, errors, message, result, progress, bucket, urgency, live_key, \
         created_at, key_until, queue, kind, payload) VALUES {} ON DUPLICATE KEY UPDATE ",
        change!(),
        ", lease_until = VALUES(lease_until), cancel_asked = VALUES(cancel_asked), errors = VALUES(errors), \
         message = VALUES(message), result = VALUES(result), progress = VALUES(progress), bucket = VALUES(bucket), \
         urgency = VALUES(urgency), live_key = VALUES(live_key)"
    ),
    row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '', '', '')",
    between: ", ",
};

pub(super) const REWRITE: &str = "UPDATE duetime_jobs SET tags = ?, payload = ? WHERE id = ?";

pub(super) const LEASE: Bulk = Bulk {
    text: "UPDATE ({}) u STRAIGHT_JOIN duetime_jobs j ON j.id = u.id SET j.epoch = u.epoch, j.attempt = u.attempt, \
     j.lease_until = u.lease_until, j.started_at = u.started_at, j.updated_at = u.updated_at, \
     j.progress = NULL, j.live_key = IF(u.frees_key, NULL, j.live_key), j.version = u.version WHERE j.version < u.version AND j.state = 1",
    row: "SELECT CAST(? AS SIGNED) AS id, CAST(? AS SIGNED) AS version, CAST(? AS SIGNED) AS epoch, \
     CAST(? AS SIGNED) AS attempt, CAST(? AS SIGNED) AS lease_until, CAST(? AS SIGNED) AS started_at, \
     CAST(? AS SIGNED) AS updated_at, CAST(? AS SIGNED) AS frees_key",
    between: UNION,
};

pub(super) const VERSIONS: Bulk =
    by_ids("SELECT id, version FROM duetime_jobs WHERE id IN ({}) AND state = 1 ORDER BY id FOR UPDATE");
pub(super) const FILE_NEAR: Bulk = by_ids("UPDATE duetime_jobs SET bucket = 0, urgency = NULL WHERE id IN ({})");
/// By the width of buckets that is fixed for all ledgers.
pub(super) const FILE_BY_DUE: Bulk = by_ids(
    "UPDATE duetime_jobs SET bucket = GREATEST(1, due_at DIV 600000), urgency = NULL WHERE id IN ({}) AND state = 1",
);
/// As [`urgency`](super::rows::urgency) has it.
pub(super) const FILE_OVER: Bulk = by_ids(
    "UPDATE duetime_jobs SET bucket = -1, urgency = CONCAT(queue, UNHEX('00'), UNHEX(LPAD(HEX(priority), 8, '0')), \
     UNHEX(LPAD(HEX(due_at), 16, '0'))) WHERE id IN ({}) AND state = 1",
);

const fn by_ids(text: &'static str) -> Bulk {
    Bulk { text, row: "?", between: ", " }
}

pub(super) const KNOWN: Bulk = by_ids("SELECT id FROM duetime_jobs WHERE id IN ({})");
pub(super) const HEADS: Bulk = by_ids(
    "SELECT id, version, epoch, queue, state, live_key, tags FROM duetime_jobs WHERE id IN ({}) ORDER BY id FOR UPDATE",
);
pub(super) const JOBS: Bulk = by_ids(concat!("SELECT ", columns!(), " FROM duetime_jobs j WHERE id IN ({})"));
pub(super) const JOBS_LOCKED: Bulk =
    by_ids(concat!("SELECT ", columns!(), " FROM duetime_jobs j WHERE id IN ({}) ORDER BY id FOR UPDATE"));
pub(super) const DELETE: Bulk = by_ids("DELETE FROM duetime_jobs WHERE id IN ({})");

pub(super) const HOLDERS: Bulk = Bulk {
    text: "SELECT j.queue, j.live_key, j.id FROM ({}) u STRAIGHT_JOIN duetime_jobs j ON j.queue = u.queue \
     AND j.live_key = u.live_key",
    row: "SELECT CAST(? AS BINARY) AS queue, CAST(? AS BINARY) AS live_key",
    between: UNION,
};

pub(super) const TAG: Bulk = Bulk {
    text: "INSERT INTO duetime_tags (tag, job_id) VALUES {} ON DUPLICATE KEY UPDATE job_id = VALUES(job_id)",
    row: "(?, ?)",
    between: ", ",
};
pub(super) const UNTAG: Bulk = Bulk {
    text: "DELETE t FROM ({}) u STRAIGHT_JOIN duetime_tags t ON t.tag = u.tag AND t.job_id = u.job_id",
    row: "SELECT CAST(? AS BINARY) AS tag, CAST(? AS SIGNED) AS job_id",
    between: UNION,
};
pub(super) const PAST: &str = "SELECT id, version, epoch, queue, state, live_key, tags FROM duetime_jobs \
     FORCE INDEX (duetime_jobs_finished) WHERE state = ? AND finished_at IS NOT NULL AND finished_at <= ? \
     ORDER BY finished_at LIMIT ? FOR UPDATE SKIP LOCKED";

pub(super) const TALLY: Bulk = Bulk {
    text: "INSERT INTO duetime_tallies (queue, slot, pending, succeeded, failed, cancelled, total_pushed, \
     total_succeeded, total_failed, total_cancelled) VALUES {} \
     ON DUPLICATE KEY UPDATE pending = pending + VALUES(pending), succeeded = succeeded + VALUES(succeeded), \
     failed = failed + VALUES(failed), cancelled = cancelled + VALUES(cancelled), \
     total_pushed = total_pushed + VALUES(total_pushed), total_succeeded = total_succeeded + VALUES(total_succeeded), \
     total_failed = total_failed + VALUES(total_failed), total_cancelled = total_cancelled + VALUES(total_cancelled)",
    row: "(?, CONNECTION_ID() % 16, ?, ?, ?, ?, ?, ?, ?, ?)",
    between: ", ",
};
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
pub(super) const TALLIES: Bulk = by_ids(tallies!("queue IN ({}) GROUP BY queue ORDER BY queue"));
pub(super) const TALLIES_FROM: &str = tallies!("queue >= ? GROUP BY queue ORDER BY queue LIMIT ?");
pub(super) const TALLIES_LOCKED: &str =
    "SELECT slot, pending, succeeded, failed, cancelled FROM duetime_tallies WHERE queue = ? ORDER BY slot FOR UPDATE";
pub(super) const DROP_TALLY: &str = "DELETE FROM duetime_tallies WHERE queue = ? AND slot = ?";

pub(super) const ALL: &str = concat!("SELECT ", hit!(), " FROM duetime_jobs j WHERE j.id > ? ORDER BY j.id LIMIT ?");
pub(super) const QUEUE: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j FORCE INDEX (duetime_jobs_queue) WHERE j.queue = ? AND j.state = ? AND j.id > ? \
     ORDER BY j.id LIMIT ?"
);
pub(super) const KEY: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j FORCE INDEX (duetime_jobs_key) WHERE j.queue = ? AND j.job_key = ? AND j.id > ? \
     ORDER BY j.id LIMIT ?"
);
pub(super) const TAGGED: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM (SELECT job_id FROM duetime_tags WHERE tag = ? AND job_id > ? ORDER BY job_id LIMIT ?) t \
     STRAIGHT_JOIN duetime_jobs j ON j.id = t.job_id ORDER BY j.id"
);
/// The rest of the bucket where the last page ended.
pub(super) const WAITING_IN: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j FORCE INDEX (duetime_jobs_pending) WHERE j.bucket = ? AND j.urgency IS NULL AND j.id > ? \
     ORDER BY j.id LIMIT ?"
);
/// The buckets behind it.
pub(super) const WAITING_BEHIND: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j FORCE INDEX (duetime_jobs_pending) WHERE j.bucket > ? AND j.bucket <= ? \
     ORDER BY j.bucket, j.urgency, j.id LIMIT ?"
);
pub(super) const LEVEL: &str = "SELECT priority FROM duetime_jobs FORCE INDEX (duetime_jobs_pending) \
     WHERE bucket = -1 AND urgency >= ? AND urgency <= ? ORDER BY urgency LIMIT 1";
pub(super) const OVER: &str = concat!(
    "SELECT ",
    hit!(),
    " FROM duetime_jobs j FORCE INDEX (duetime_jobs_pending) WHERE j.bucket = -1 AND j.urgency >= ? AND j.urgency <= ? \
     AND j.lease_until IS NULL ORDER BY j.urgency, j.id LIMIT ?"
);
pub(super) const OVERFLOWING: &str = "SELECT queue FROM duetime_jobs FORCE INDEX (duetime_jobs_pending) \
     WHERE bucket = -1 AND urgency > ? ORDER BY urgency LIMIT 1";
/// By the index alone: the last eight bytes are `due_at`.
pub(super) const OVER_DUE: &str = "SELECT COUNT(*), CAST(CONV(HEX(MIN(RIGHT(urgency, 8))), 16, 10) AS SIGNED) \
     FROM duetime_jobs FORCE INDEX (duetime_jobs_pending) \
     WHERE bucket = -1 AND urgency >= ? AND urgency <= ? AND RIGHT(urgency, 8) <= ?";
/// Leases are those of pending rows. They have no index of their own: beside a broker that remembers them there are few.
pub(super) const LEASED: &str = "SELECT id FROM duetime_jobs FORCE INDEX (duetime_jobs_pending) \
     WHERE bucket IS NOT NULL AND lease_until IS NOT NULL";

/// By its index alone where there is none. What is beyond every limit is not read whole.
pub(super) const INBOX_HITS: &str = "SELECT id, LENGTH(payload) + COALESCE(LENGTH(options), 0) + COALESCE(LENGTH(tags), 0) FROM duetime_inbox FORCE INDEX (duetime_inbox_waiting) \
     WHERE error IS NULL ORDER BY id LIMIT ?";
pub(super) const INBOX_ROWS: Bulk = by_ids(
    "SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000, created_at, queue, kind, \
     SUBSTRING(payload, 1, 67108865), due_at, delay_ms, job_key, LEFT(tags, 1048577), priority, LEFT(options, 1048577) \
     FROM duetime_inbox WHERE id IN ({})",
);
pub(super) const LOCK_INBOX: Bulk = by_ids(
    "SELECT id FROM duetime_inbox FORCE INDEX (PRIMARY) WHERE id IN ({}) AND error IS NULL ORDER BY id \
     FOR UPDATE SKIP LOCKED",
);
pub(super) const DELETE_INBOX: Bulk = by_ids("DELETE FROM duetime_inbox WHERE id IN ({})");
pub(super) const REFUSE_INBOX: &str = "UPDATE duetime_inbox SET error = ? WHERE id = ?";

pub(super) const SEQUENCE: &str = "SELECT value FROM duetime_meta WHERE name = 'sequence_end' FOR UPDATE";
pub(super) const SET_SEQUENCE: &str = "UPDATE duetime_meta SET value = ? WHERE name = 'sequence_end'";
pub(super) const DOCUMENT: &str = "SELECT name, body, version FROM duetime_registry WHERE kind = ? AND name = ?";
pub(super) const DOCUMENT_LOCKED: &str =
    "SELECT name, body, version FROM duetime_registry WHERE kind = ? AND name = ? FOR UPDATE";
pub(super) const DOCUMENTS: &str = "SELECT name, body, version FROM duetime_registry WHERE kind = ? ORDER BY name";
pub(super) const NEW_DOCUMENT: &str = "INSERT INTO duetime_registry (body, version, kind, name) VALUES (?, ?, ?, ?)";
pub(super) const PUT_DOCUMENT: &str = "UPDATE duetime_registry SET body = ?, version = ? WHERE kind = ? AND name = ?";
pub(super) const REMOVE_DOCUMENT: &str = "DELETE FROM duetime_registry WHERE kind = ? AND name = ?";

/// What is asked, with the index that it is to use: for the test of that.
pub fn questions() -> Vec<(String, &'static str)> {
    const { assert!(duetime_core::ports::BUCKET_MS == 600_000) };
    const { assert!(duetime_core::limits::PAYLOAD_BYTES_MAX + 1 == 67_108_865) };
    const { assert!(duetime_core::ports::INBOX_TEXT_MAX + 1 == 1_048_577) };
    let bulks = [
        (KNOWN, "PRIMARY"),
        (HEADS, "PRIMARY"),
        (JOBS, "PRIMARY"),
        (HOLDERS, "duetime_jobs_live_key"),
        (VERSIONS, "PRIMARY"),
        (LEASE, "PRIMARY"),
        (DELETE, "PRIMARY"),
        (FILE_NEAR, "PRIMARY"),
        (FILE_BY_DUE, "PRIMARY"),
        (FILE_OVER, "PRIMARY"),
        (UNTAG, "PRIMARY"),
        (INBOX_ROWS, "PRIMARY"),
        (LOCK_INBOX, "PRIMARY"),
        (DELETE_INBOX, "PRIMARY"),
    ];
    let plain = [
        (REWRITE, "PRIMARY"),
        (PAST, "duetime_jobs_finished"),
        (ALL, "PRIMARY"),
        (QUEUE, "duetime_jobs_queue"),
        (KEY, "duetime_jobs_key"),
        (TAGGED, "PRIMARY"),
        (WAITING_IN, "duetime_jobs_pending"),
        (WAITING_BEHIND, "duetime_jobs_pending"),
        (LEVEL, "duetime_jobs_pending"),
        (OVER, "duetime_jobs_pending"),
        (OVERFLOWING, "duetime_jobs_pending"),
        (OVER_DUE, "duetime_jobs_pending"),
        (LEASED, "duetime_jobs_pending"),
        (INBOX_HITS, "duetime_inbox_waiting"),
        (REFUSE_INBOX, "PRIMARY"),
    ];
    let bulks = bulks.map(|(bulk, index)| (bulk.text(SIZES[2]), index));
    bulks.into_iter().chain(plain.map(|(text, index)| (text.to_owned(), index))).collect()
}
