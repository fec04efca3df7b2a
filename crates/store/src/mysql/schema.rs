//! Tables, and how older ones come to be the present ones: numbered migrations, of which the database remembers the
//! last. They run under a lock: of nodes that start at the same time one migrates, and the others wait for it. These
//! servers commit each change of a table by itself, so a migration can be run again from its beginning where it was cut
//! off. A released one is never edited.

use super::pool::Server;
use super::rows::whole;
use super::session::Connection;
use crate::sql::{Database, Fault, Schema, Session, denied, number};
use duetime_core::Error;
use std::time::Duration;

/// The migrations; the first is number 1. Statements end with `;` at the end of a line.
pub const MIGRATIONS: [&str; 3] =
    [include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql"), include_str!("migrations/0003.sql")];
/// Whose turn it is to migrate this database, in a server with others.
const LOCK: &str = "CONCAT('duetime.', SHA1(DATABASE()))";
/// How long a whole migration may take, with the wait for another node's.
const MIGRATE_MAX: Duration = Duration::from_secs(600);

/// Looks whether the server is fit, and which migrations have run.
pub(super) async fn check(server: &Server, may_lose: bool) -> Result<Schema, Error> {
    held(server, may_lose, false).await
}

/// Brings the tables to the present schema; answers how they were before.
pub(super) async fn migrate(server: &Server, may_lose: bool) -> Result<Schema, Error> {
    held(server, may_lose, true).await
}

async fn held(server: &Server, may_lose: bool, migrates: bool) -> Result<Schema, Error> {
    let mut session = server.session().await.map_err(Fault::told)?;
    // It is closed afterwards, and whatever it has locked is free.
    session.hold();
    let work = async {
        fit(&mut session, may_lose).await?;
        let schema = found(&mut session, &server.shown).await?;
        if migrates && schema.found < schema.known { run(&mut session, &server.shown).await } else { Ok(schema) }
    };
    let schema = tokio::time::timeout(MIGRATE_MAX, work).await;
    let schema = schema.unwrap_or_else(|_| Err(Fault::Lost(format!("no end within {} s", MIGRATE_MAX.as_secs()))));
    schema.map_err(Fault::told)
}

async fn run(session: &mut Connection, shown: &str) -> Result<Schema, Fault> {
    let locked = session.ask(&format!("SELECT GET_LOCK({LOCK}, {})", MIGRATE_MAX.as_secs())).await?;
    if locked.first().is_none_or(|row| whole(row, 0).ok() != Some(1)) {
        return Err(Fault::Lost("MySQL: another node is migrating the database for long".into()));
    }
    // Another node may have been faster.
    let schema = found(session, shown).await?;
    for (number, migration) in (1..).zip(MIGRATIONS).skip(schema.found) {
        for statement in statements(migration) {
            session.send(statement).await.map_err(denied)?;
        }
        session.send(&recorded(number)).await.map_err(denied)?;
        tracing::info!(store = shown, number, "migrated");
    }
    session.ask(&format!("SELECT RELEASE_LOCK({LOCK})")).await?;
    Ok(schema)
}

/// The migrations as SQL for who runs them by hand. Where it was cut off it may be run again.
pub(super) fn script() -> String {
    crate::sql::script("MySQL or MariaDB", &MIGRATIONS, recorded)
}

/// That a migration has run; a repeat of an earlier one takes nothing back.
fn recorded(number: usize) -> String {
    format!(
        "INSERT INTO duetime_meta (name, value) VALUES ('schema', {number}) \
         ON DUPLICATE KEY UPDATE value = GREATEST(value, {number})"
    )
}

/// The statements of a migration.
fn statements(migration: &str) -> impl Iterator<Item = &str> {
    migration.split(";\n").map(str::trim).filter(|statement| !statement.is_empty())
}

pub(super) async fn found(session: &mut Connection, shown: &str) -> Result<Schema, Fault> {
    let known = MIGRATIONS.len();
    let tables = "SELECT COUNT(*) FROM information_schema.tables \
                  WHERE table_schema = DATABASE() AND table_name = 'duetime_meta'";
    if session.ask(tables).await?.first().is_none_or(|row| whole(row, 0).ok() == Some(0)) {
        return Ok(Schema { found: 0, known });
    }
    let rows = session.ask("SELECT value FROM duetime_meta WHERE name = 'schema'").await?;
    // A first migration that was cut off has left no number.
    let Some(row) = rows.first() else { return Ok(Schema { found: 0, known }) };
    let found = usize::try_from(number(whole(row, 0)?)?).unwrap_or(usize::MAX);
    if found > known {
        return Err(Fault::Told(Error::Unusable(format!(
            "{shown} has the schema {found}, newer than this program knows ({known}): run the version of Duetime that \
             wrote it, or a later one"
        ))));
    }
    Ok(Schema { found, known })
}

pub(super) async fn fit(session: &mut Connection, may_lose: bool) -> Result<(), Fault> {
    let unusable = |text: String| Err(Fault::Told(Error::Unusable(text)));
    let rows = session.ask("SELECT VERSION()").await?;
    let version = rows.first().map(|row| super::rows::shared(row, 0)).transpose()?.unwrap_or_default();
    if !is_new_enough(&version) {
        return unusable(format!("MySQL 8.0 or MariaDB 10.6, or a later one, is needed, this is {version}"));
    }
    let rows = session.ask("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit").await?;
    let flush = rows.first().map(|row| whole(row, 0)).transpose()?;
    if flush != Some(1) && !may_lose {
        return unusable(format!(
            "innodb_flush_log_at_trx_commit is {}: a crash of its machine would lose what was acknowledged; set it to \
             1, or allow that",
            flush.unwrap_or_default()
        ));
    }
    Ok(())
}

fn is_new_enough(version: &str) -> bool {
    // Some servers of MariaDB say 5.5.5- first.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found >= if version.contains("MariaDB") { (10, 6) } else { (8, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        for fit in ["8.0.36", "8.4.0-log", "10.6.0-MariaDB", "10.11.6-MariaDB-0+deb12u1", "5.5.5-11.4.2-MariaDB"] {
            assert!(is_new_enough(fit), "{fit}");
        }
        for old in ["5.7.44", "10.5.9-MariaDB", "5.5.5-10.3.0-MariaDB", ""] {
            assert!(!is_new_enough(old), "{old}");
        }
    }

    #[test]
    fn a_migration_is_read_statement_by_statement() {
        assert_eq!(statements("-- a;b\nONE;\n\nTWO\n;\n").collect::<Vec<_>>(), ["-- a;b\nONE", "TWO"]);
    }
}
