//! Tests of query plans: no query scans a whole table or sorts.

use super::{file, find, overflow, prune, read, reports, schema, tally};
use rusqlite::Connection;

fn empty() -> Connection {
    let mut connection = file::memory().unwrap();
    schema::migrate(&mut connection, "memory").unwrap();
    connection
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = statement.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>();
    steps.unwrap()
}

#[test]
fn every_question_has_its_index() {
    let connection = empty();
    let key = "SEARCH j USING INTEGER PRIMARY KEY";
    let index = |name: &str, terms: &str| format!("SEARCH j USING INDEX {name} ({terms})");
    let covering = |name: &str, terms: &str| format!("SEARCH j USING COVERING INDEX {name} ({terms})");
    for (sql, expected) in [
        (read::ONE, vec![format!("{key} (rowid=?)")]),
        (read::LEASED, vec!["SEARCH j USING INDEX duetime_jobs_leased (lease_until>?)".to_owned()]),
        (read::PENDING_IN, vec![index("duetime_jobs_pending", "bucket=? AND rowid>?")]),
        (read::PENDING_BEHIND, vec![index("duetime_jobs_pending", "bucket>? AND bucket<?")]),
        (overflow::LEVEL, vec![covering("duetime_jobs_overflow", "queue=? AND priority>?")]),
        (overflow::OVER, vec![index("duetime_jobs_overflow", "queue=? AND priority=? AND due_at>? AND due_at<?")]),
        (overflow::OVERFLOWING, vec![covering("duetime_jobs_overflow", "queue>?")]),
        (overflow::DUE, vec![covering("duetime_jobs_overflow", "queue=?")]),
        (reports::FAILED, vec![index("duetime_jobs_finished", "state=? AND finished_at>?")]),
        (reports::DUE, vec![format!("{key} (rowid>?)")]),
        (find::ALL, vec![format!("{key} (rowid>?)")]),
        (find::OPEN_IN, vec![index("duetime_jobs_queue", "queue=? AND state=? AND finished_at=? AND rowid>?")]),
        (find::BUCKET, vec![index("duetime_jobs_pending", "bucket=? AND rowid>?")]),
        (find::HOLDER, vec![index("duetime_jobs_key", "key_entry=? AND key_order=? AND rowid>?")]),
        (find::PAST, vec![index("duetime_jobs_key", "key_entry=? AND key_order>?")]),
        (find::TAG, vec!["SEARCH t USING PRIMARY KEY (tag=? AND job_id>?)".to_owned(), format!("{key} (rowid=?)")]),
        (find::ENDED, vec![index("duetime_jobs_finished", "state=? AND finished_at<?")]),
        (find::ENDED_IN, vec![index("duetime_jobs_queue", "queue=? AND state=? AND finished_at<?")]),
        (find::PARKED, vec![index("duetime_jobs_finished", "state=? AND finished_at=? AND rowid>?")]),
        (tally::ONE, vec!["SEARCH duetime_tallies USING PRIMARY KEY (queue=?)".to_owned()]),
        (tally::FROM, vec!["SEARCH duetime_tallies USING PRIMARY KEY (queue>?)".to_owned()]),
        (
            prune::FINISHED,
            vec![
                "SEARCH duetime_jobs USING INDEX duetime_jobs_finished (state=? AND finished_at>? AND finished_at<?)"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(plan(&connection, sql), expected, "{sql}");
    }
}

#[test]
fn no_other_statement_scans() {
    let connection = empty();
    for sql in [
        "SELECT id FROM duetime_jobs WHERE key_entry = ?1 AND key_order = 0",
        "UPDATE duetime_jobs SET state = 10 WHERE id = ?1 AND version < ?2 AND state = 1",
        "DELETE FROM duetime_tags WHERE tag = ?1 AND job_id = ?2",
        "DELETE FROM duetime_tallies WHERE queue = ?1 AND pending = 0",
        "SELECT name, body, version FROM duetime_registry WHERE kind = ?1 ORDER BY name",
    ] {
        for step in plan(&connection, sql) {
            assert!(step.starts_with("SEARCH"), "{sql}: {step}");
        }
    }
}

#[test]
fn the_view_reads_for_people() {
    let connection = empty();
    connection
        .execute_batch(
            "INSERT INTO duetime_jobs (id, queue, kind, due_at, first_due_at, priority, version, created_at, updated_at, \
             payload, lease_until) VALUES (7, 'q', 'k', 1000000000123, 1, 1, 1, 1, 1, CAST('{}' AS BLOB), 5)",
        )
        .unwrap();
    let shown = connection.query_row("SELECT state, due_at, payload, finished_at FROM duetime_readable", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get(3)?))
    });
    let shown: (String, String, String, Option<String>) = shown.unwrap();
    assert_eq!(shown, ("running".into(), "2001-09-09 01:46:40.123".into(), "{}".into(), None));
}
