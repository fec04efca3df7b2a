//! Tables, and how older ones come to be the present ones: numbered migrations, of which the database remembers the
//! last. All that are missing run in one transaction, under a lock: of nodes that start at the same time one migrates,
//! and the others wait for it. A released migration is never edited.

use super::pool::Server;
use super::session::Connection;
use crate::sql::{Database, Fault, Schema, Session, denied, number};
use duetime_core::Error;
use std::time::Duration;

/// The migrations; the first is number 1.
pub const MIGRATIONS: [&str; 3] =
    [include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql"), include_str!("migrations/0003.sql")];
/// Whose turn it is to migrate: "duetime" in bytes.
const LOCK: i64 = 0x64_7565_7469_6d65;
/// The oldest version that is tried.
const VERSION_MIN: i32 = 130_000;
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
    session.batch("SET statement_timeout = 0; SET lock_timeout = 0").await?;
    // Before the transaction begins: one that has begun may not see tables that were made since.
    session.ask("SELECT pg_advisory_lock($1)", &[&LOCK]).await?;
    session.begin().await?;
    // Another node may have been faster.
    let schema = found(session, shown).await?;
    for (number, migration) in (1..).zip(MIGRATIONS).skip(schema.found) {
        session.batch(migration).await.map_err(denied)?;
        session.batch(&recorded(number)).await.map_err(denied)?;
        tracing::info!(store = shown, number, "migrated");
    }
    session.commit().await?;
    Ok(schema)
}

/// The migrations as SQL for who runs them by hand: all of them, or nothing.
pub(super) fn script() -> String {
    let script = crate::sql::script("PostgreSQL", &MIGRATIONS, recorded);
    let (head, rest) = script.split_once("\n").unwrap_or((&script, ""));
    format!("{head}\nBEGIN;\n{rest}\nCOMMIT;\n")
}

/// That a migration has run.
fn recorded(number: usize) -> String {
    format!("UPDATE duetime_meta SET value = {number} WHERE name = 'schema'")
}

pub(super) async fn found(session: &mut Connection, shown: &str) -> Result<Schema, Fault> {
    let known = MIGRATIONS.len();
    let is_there = session.ask("SELECT to_regclass('duetime_meta') IS NOT NULL", &[]).await?;
    if !is_there.first().is_some_and(|row| row.get(0)) {
        return Ok(Schema { found: 0, known });
    }
    let rows = session.ask("SELECT value FROM duetime_meta WHERE name = 'schema'", &[]).await?;
    let row = rows.first().ok_or_else(|| Fault::damaged("the schema's number", "nothing"))?;
    let found = usize::try_from(number(row.try_get(0)?)?).unwrap_or(usize::MAX);
    if found > known {
        return Err(Fault::Told(Error::Unusable(format!(
            "{shown} has the schema {found}, newer than this program knows ({known}): run the version of Duetime that \
             wrote it, or a later one"
        ))));
    }
    Ok(Schema { found, known })
}

pub(super) async fn fit(session: &mut Connection, may_lose: bool) -> Result<(), Fault> {
    let settings = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), \
                    current_setting('synchronous_commit'), current_setting('fsync')";
    let rows = session.ask(settings, &[]).await?;
    let row = rows.first().ok_or_else(|| Fault::damaged("the settings", "nothing"))?;
    let (version, encoding): (i32, &str) = (row.try_get(0)?, row.try_get(1)?);
    if version < VERSION_MIN {
        let got = format!("PostgreSQL 13 or later is needed, this is {}.{}", version / 10_000, version % 10_000);
        return Err(Fault::Told(Error::Unusable(got)));
    }
    if encoding != "UTF8" {
        let got = format!("the database has the encoding {encoding}: create one with UTF8");
        return Err(Fault::Told(Error::Unusable(got)));
    }
    for (column, name) in [(2, "synchronous_commit"), (3, "fsync")] {
        if row.try_get::<_, &str>(column)? == "off" && !may_lose {
            return Err(Fault::Told(Error::Unusable(format!(
                "{name} is off in PostgreSQL: a crash of its machine would lose what was acknowledged; set it on, or \
                 allow that"
            ))));
        }
    }
    Ok(())
}
