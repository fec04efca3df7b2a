//! Tables and their numbered migrations, each in its own transaction. The file stores the number of the last one in
//! `user_version`. A released migration is never edited.

use super::fault;
use duetime_core::Error;
use rusqlite::{Connection, TransactionBehavior};

/// The migrations; the first is number 1.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001.sql")];

/// Marks a file as a Duetime store (`application_id`): "Duet".
const APPLICATION_ID: i32 = 0x4475_6574;

/// Checks that a file is new or a store, and not newer than this program. Returns its schema version.
pub(super) fn check(connection: &Connection, store: &str) -> Result<usize, Error> {
    let told = |error: rusqlite::Error| fault::explain(&error, store);
    let found: u32 = number(connection, "PRAGMA user_version").map_err(told)?;
    let found = found as usize;
    let application_id: i32 = number(connection, "PRAGMA application_id").map_err(told)?;
    let tables: u32 = number(connection, "SELECT count(*) FROM sqlite_schema").map_err(told)?;
    judge(found, application_id, tables > 0, store)?;
    Ok(found)
}

/// The schema version of this program.
pub(super) fn known() -> usize {
    MIGRATIONS.len()
}

/// Whether these marks belong to a store with tables.
pub(super) fn is_ours(found: usize, application_id: i32) -> bool {
    application_id == APPLICATION_ID && found > 0
}

/// Checks that a file with these marks is new or a store, and not newer than this program.
pub(super) fn judge(found: usize, application_id: i32, has_tables: bool, store: &str) -> Result<(), Error> {
    if application_id != APPLICATION_ID && (has_tables || found > 0 || application_id != 0) {
        return Err(Error::Unusable(format!("{store} is the database of another program: name another file")));
    }
    if found > MIGRATIONS.len() {
        return Err(Error::Unusable(format!(
            "{store} has schema {found}, which is newer than this program ({}): use the version of Duetime that wrote it, or \
             a later one",
            MIGRATIONS.len()
        )));
    }
    Ok(())
}

/// Migrates a file to the current schema.
pub(super) fn migrate(connection: &mut Connection, store: &str) -> Result<(), Error> {
    let found = check(connection, store)?;
    run(connection, store, &MIGRATIONS, found)
}

/// Runs the migrations after this one.
fn run(connection: &mut Connection, store: &str, migrations: &[&str], found: usize) -> Result<(), Error> {
    let told = |error: rusqlite::Error| fault::explain(&error, store);
    for (number, migration) in (1..).zip(migrations).skip(found) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(told)?;
        transaction.execute_batch(migration).map_err(told)?;
        transaction
            .execute_batch(&format!("PRAGMA user_version = {number}; PRAGMA application_id = {APPLICATION_ID};"))
            .map_err(told)?;
        transaction.commit().map_err(told)?;
        tracing::info!(store, number, "migrated");
    }
    Ok(())
}

fn number<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> rusqlite::Result<T> {
    connection.query_row(sql, [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::json::Timestamp;

    #[test]
    fn a_newer_file_is_refused_and_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "it").unwrap();
        connection.execute_batch("PRAGMA user_version = 99").unwrap();
        let error = migrate(&mut connection, "it").unwrap_err();
        assert_eq!(error.code(), "store_unusable");
        assert!(error.to_string().contains("newer"), "{error}");
        assert_eq!(number::<i32>(&connection, "PRAGMA user_version").unwrap(), 99);
    }

    #[test]
    fn another_programs_file_is_refused_and_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE theirs (a)").unwrap();
        let error = migrate(&mut connection, "it").unwrap_err();
        assert_eq!(error.code(), "store_unusable");
        assert_eq!(number::<i32>(&connection, "SELECT count(*) FROM sqlite_schema").unwrap(), 1);
    }

    #[test]
    fn an_older_file_keeps_its_jobs() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "it").unwrap();
        let insert = "INSERT INTO duetime_jobs (id, queue, kind, due_at, first_due_at, priority, version, created_at, \
                      updated_at, payload) VALUES (1, 'q', 'k', 5, 5, 0, 1, 1, 1, x'ff')";
        connection.execute_batch(insert).unwrap();
        let known = MIGRATIONS.len();
        let next = [&MIGRATIONS[..], &["ALTER TABLE duetime_jobs ADD COLUMN later TEXT"]].concat();
        run(&mut connection, "it", &next, known).unwrap();
        assert_eq!(number::<u32>(&connection, "PRAGMA user_version").unwrap() as usize, known + 1);
        let job = super::super::read::one(&connection, duetime_core::JobId::new(1).unwrap()).unwrap().unwrap();
        assert_eq!((job.due_at, &*job.payload, job.options, job.progress), (Timestamp(5), &[0xff][..], None, None));
    }

    #[test]
    fn a_second_time_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "it").unwrap();
        migrate(&mut connection, "it").unwrap();
    }
}
