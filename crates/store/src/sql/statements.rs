//! Which statements there are; each kind of server has its own text for them.

use std::fmt::Write;

/// Every column of a job but those of its indexes, in the order in which [`job`](super::row::job) takes them.
macro_rules! columns {
    () => {
        "j.id, j.due_at, j.first_due_at, j.priority, j.attempt, j.crashes, j.version, j.epoch, j.created_at, \
         j.updated_at, j.started_at, j.finished_at, j.lease_until, j.lease_ms, j.expires_ms, j.state, j.key_until, \
         j.cancel_asked, j.queue, j.kind, j.job_key, j.options, j.tags, j.errors, j.message, j.result, j.payload, \
         j.progress, j.origin"
    };
}
pub(super) use columns;

/// What is looked at of a row before it is read; with the name of the function for the length of bytes.
macro_rules! hit {
    ($length:literal) => {
        concat!(
            "j.id, COALESCE(j.bucket, 0), j.due_at, j.state, j.lease_until IS NOT NULL, j.queue, j.kind, ",
            $length,
            "(j.payload) + COALESCE(",
            $length,
            "(j.result), 0)"
        )
    };
}
pub(super) use hit;

/// A statement for many rows. Where servers take rows as lists of values, `{}` stands for these; without it the statement
/// is run for each row.
pub(super) struct Bulk {
    pub(super) text: &'static str,
    /// The places of one row.
    pub(super) row: &'static str,
    pub(super) between: &'static str,
}

impl Bulk {
    /// One that takes ids or names.
    pub(super) const fn list(text: &'static str) -> Self {
        Self { text, row: "?", between: ", " }
    }

    /// The text for so many rows.
    pub(super) fn text(&self, rows: usize) -> String {
        let Some((before, after)) = self.text.split_once("{}") else { return self.text.to_owned() };
        let mut text = before.to_owned();
        for row in 0..rows {
            let between = if row == 0 { "" } else { self.between };
            // Text takes all.
            let _ = write!(text, "{between}{}", self.row);
        }
        text + after
    }
}

/// The statements, and which values they take. Those about rows that a transaction has locked change nothing else.
pub(super) struct Statements {
    /// Whether rows of the overflow are ordered by one column, [`urgency`](super::row::urgency), and not by queue, priority
    /// and `due_at`.
    pub(super) has_urgency: bool,

    /// Whole rows, as [`insert`](super::row::insert) has them.
    pub(super) insert: Bulk,
    /// [Plain](super::row::Inserted::is_plain) rows.
    pub(super) insert_plain: Bulk,
    /// Rows with a [plain end](super::row::Inserted::is_plain_end).
    pub(super) end: Bulk,
    /// All but what [`rewrite`](Self::rewrite) writes.
    pub(super) change: Bulk,
    /// tags, payload, options, id.
    pub(super) rewrite: Bulk,

    /// ids.
    pub(super) known: Bulk,
    /// ids.
    pub(super) heads: Bulk,
    /// ids.
    pub(super) jobs: Bulk,
    /// ids.
    pub(super) jobs_locked: Bulk,
    /// queue, key.
    pub(super) holders: Bulk,
    /// queue, origin.
    pub(super) origins: Bulk,

    /// Where it is asked first which rows have which version: ids.
    pub(super) versions: Option<Bulk>,
    /// ids, or where that is not asked, ids and versions.
    pub(super) mark_loaded: Bulk,
    /// ids.
    pub(super) mark_not_loaded: Bulk,
    /// ids.
    pub(super) mark_overflow: Bulk,
    /// ids.
    pub(super) delete: Bulk,
    /// tag, id.
    pub(super) tag: Bulk,
    /// tag, id.
    pub(super) untag: Bulk,
    /// state, finished_at, limit.
    pub(super) past: &'static str,

    /// queue, and eight numbers.
    pub(super) tally: Bulk,
    /// queues.
    pub(super) tallies: Bulk,
    /// queue, limit.
    pub(super) tallies_from: &'static str,
    /// queues.
    pub(super) tallies_locked: Bulk,
    /// queue, slot.
    pub(super) drop_tally: Bulk,

    /// after, limit.
    pub(super) all: &'static str,
    /// queue, state, after, limit.
    pub(super) by_queue: &'static str,
    /// queue, key, after, limit.
    pub(super) by_key: &'static str,
    /// tag, after, limit.
    pub(super) by_tag: &'static str,
    /// The rest of the bucket where the last page ended: bucket, after, limit.
    pub(super) waiting_in: &'static str,
    /// The buckets behind it: bucket, last bucket, limit.
    pub(super) waiting_behind: &'static str,
    /// after.
    pub(super) step_end: &'static str,
    /// after, last.
    pub(super) due: &'static str,
    /// limit.
    pub(super) failed: &'static str,
    /// By urgency: from, to. Else queue, priority.
    pub(super) level: &'static str,
    /// By urgency: from, to, limit. Else queue, priority, from, to, limit.
    pub(super) over: &'static str,
    /// By urgency: after. Else queue.
    pub(super) overflowing: &'static str,
    /// By urgency: from, to, now as bytes. Else queue, now.
    pub(super) over_due: &'static str,

    /// limit.
    pub(super) inbox_hits: &'static str,
    /// numbers.
    pub(super) inbox_rows: Bulk,
    /// numbers.
    pub(super) lock_inbox: Bulk,
    /// numbers.
    pub(super) delete_inbox: Bulk,
    /// reason, number.
    pub(super) refuse_inbox: Bulk,

    /// Nothing.
    pub(super) sequence: &'static str,
    /// end.
    pub(super) set_sequence: &'static str,
    /// kind, name.
    pub(super) document: &'static str,
    /// kind, name.
    pub(super) document_locked: &'static str,
    /// kind.
    pub(super) documents: &'static str,
    /// body, version, kind, name.
    pub(super) new_document: &'static str,
    /// body, version, kind, name.
    pub(super) put_document: &'static str,
    /// kind, name.
    pub(super) remove_document: &'static str,
}

impl Statements {
    /// What is asked: a name, the text for so many rows, and the index that it is to use, of rows without one the primary
    /// key. For the tests of that.
    pub(super) fn questions(&self, rows: usize) -> Vec<(&'static str, String, &'static str)> {
        let over = if self.has_urgency { "duetime_jobs_pending" } else { "duetime_jobs_overflow" };
        let bulks = [
            ("known", &self.known, ""),
            ("heads", &self.heads, ""),
            ("jobs", &self.jobs, ""),
            ("holders", &self.holders, "duetime_jobs_live_key"),
            ("origins", &self.origins, "duetime_jobs_origin"),
            ("rewrite", &self.rewrite, ""),
            ("mark_loaded", &self.mark_loaded, ""),
            ("mark_not_loaded", &self.mark_not_loaded, ""),
            ("mark_overflow", &self.mark_overflow, ""),
            ("delete_rows", &self.delete, ""),
            ("untag", &self.untag, ""),
            ("inbox_rows", &self.inbox_rows, ""),
            ("lock_inbox", &self.lock_inbox, ""),
            ("delete_inbox", &self.delete_inbox, ""),
            ("refuse_inbox", &self.refuse_inbox, ""),
        ];
        let plain = [
            ("past", self.past, "duetime_jobs_finished"),
            ("everything", self.all, ""),
            ("by_queue", self.by_queue, "duetime_jobs_queue"),
            ("by_key", self.by_key, "duetime_jobs_key"),
            ("by_tag", self.by_tag, ""),
            ("waiting_in", self.waiting_in, "duetime_jobs_pending"),
            ("waiting_behind", self.waiting_behind, "duetime_jobs_pending"),
            ("step_end", self.step_end, ""),
            ("due", self.due, ""),
            ("failed", self.failed, "duetime_jobs_finished"),
            ("level", self.level, over),
            ("over", self.over, over),
            ("overflowing", self.overflowing, over),
            ("over_due", self.over_due, over),
            ("inbox_hits", self.inbox_hits, "duetime_inbox_waiting"),
        ];
        let versions = self.versions.iter().map(|bulk| ("versions", bulk, ""));
        // Where there is no list of values these are updates.
        let changes = [("change", &self.change, ""), ("end_rows", &self.end, "")];
        let changes = changes.into_iter().filter(|(_, bulk, _)| bulk.row.is_empty());
        let bulks =
            bulks.into_iter().chain(versions).chain(changes).map(|(name, bulk, index)| (name, bulk.text(rows), index));
        bulks.chain(plain.map(|(name, text, index)| (name, text.to_owned(), index))).collect()
    }
}
