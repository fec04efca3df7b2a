//! The statements of a server, for tests of its query plans.

use super::statements::{self, Bulk, numbered};

/// Number of rows of each statement.
const ROWS: usize = 50;

/// Returns the statements for the kind of server that a URL names: a name, the text for 50 rows, and the index that it must
/// use. An empty index means the primary key.
pub fn questions(url: &str) -> Vec<(&'static str, String, &'static str)> {
    let Ok(dialect) = super::server::dialect(url) else { return Vec::new() };
    let sql = &dialect.statements;
    let over = if sql.has_urgency { "duetime_jobs_pending" } else { "duetime_jobs_overflow" };
    let bulks = [
        ("known", &statements::KNOWN, ""),
        ("heads", &statements::HEADS, ""),
        ("jobs", &statements::JOBS, ""),
        ("holders", &sql.holders, "duetime_jobs_key"),
        ("origins", &sql.origins, "duetime_jobs_origin"),
        ("rewrite", &sql.rewrite, ""),
        ("mark_loaded", &sql.mark_loaded, ""),
        ("mark_not_loaded", &sql.mark_not_loaded, ""),
        ("mark_overflow", &sql.mark_overflow, ""),
        ("delete_rows", &statements::DELETE, ""),
        ("untag", &sql.untag, ""),
        ("inbox_rows", &sql.inbox_rows, ""),
        ("lock_inbox", &statements::LOCK_INBOX, ""),
        ("delete_inbox", &statements::DELETE_INBOX, ""),
        ("refuse_inbox", &sql.refuse_inbox, ""),
    ];
    let plain = [
        ("past", statements::PAST, "duetime_jobs_finished"),
        ("everything", statements::ALL, ""),
        ("open_in", sql.open_in, "duetime_jobs_queue"),
        ("ended", sql.ended, "duetime_jobs_finished"),
        ("ended_in", sql.ended_in, "duetime_jobs_queue"),
        ("parked", sql.parked, "duetime_jobs_finished"),
        ("holder", sql.holder, "duetime_jobs_key"),
        ("by_key", sql.by_key, "duetime_jobs_key"),
        ("by_tag", statements::BY_TAG, ""),
        ("waiting_in", sql.waiting_in, "duetime_jobs_pending"),
        ("waiting_behind", sql.waiting_behind, "duetime_jobs_pending"),
        ("step_end", statements::STEP_END, ""),
        ("due", statements::DUE, ""),
        ("failed", statements::FAILED, "duetime_jobs_finished"),
        ("level", sql.level, over),
        ("over", sql.over, over),
        ("overflowing", sql.overflowing, over),
        ("over_due", sql.over_due, over),
        ("inbox_hits", sql.inbox_hits, "duetime_inbox_waiting"),
    ];
    let versions = sql.versions.iter().map(|bulk| ("versions", bulk, ""));
    // Statements without a list of values are updates.
    let changes = [("change", &sql.change, ""), ("end_rows", &sql.end, "")];
    let changes = changes.into_iter().filter(|(_, bulk, _)| bulk.row.is_empty());
    // PostgreSQL takes a list as one array.
    let is_mysql = sql.has_urgency;
    let text = |text: &'static str| if is_mysql { text.to_owned() } else { numbered(text).into_owned() };
    let bulk = |bulk: &Bulk| if is_mysql { bulk.text(ROWS) } else { numbered(bulk.text).into_owned() };
    let bulks = bulks.into_iter().chain(versions).chain(changes);
    let bulks = bulks.map(|(name, statement, index)| (name, bulk(statement), index));
    bulks.chain(plain.map(|(name, statement, index)| (name, text(statement), index))).collect()
}
