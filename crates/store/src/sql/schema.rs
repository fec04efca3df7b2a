//! Tables and their numbered migrations; the database stores the number of the last one. Migrations run under a lock: if
//! several nodes start at once, one migrates and the others wait. If the server supports transactions for tables, all
//! missing migrations run in one. Otherwise each can be run again from its beginning. A released migration is never edited.

use super::connection::{Connection, Database, Dialect};
use super::fault::Fault;
use duetime_core::Error;
use std::fmt::Write;
use std::time::Duration;

/// Time limit of a whole migration, including the wait for another node's.
pub(super) const MIGRATE_MAX: Duration = Duration::from_secs(600);

/// Which migrations have run, and which this version needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The number of the last migration that ran; 0 for none.
    pub found: usize,
    /// The number of the last migration of this version.
    pub known: usize,
}

/// Checks that the server is suitable and which migrations have run. Runs missing ones if `migrates` is set.
pub(super) async fn prepare(database: &dyn Database, may_lose: bool, migrates: bool) -> Result<Schema, Fault> {
    let mut connection = database.connection().await?;
    // This connection is closed afterwards, which frees all its locks.
    connection.hold(true);
    let work = async {
        connection.fit(may_lose).await?;
        let schema = found(&mut *connection, database).await?;
        if migrates && schema.found < schema.known { run(&mut *connection, database).await } else { Ok(schema) }
    };
    let schema = tokio::time::timeout(MIGRATE_MAX, work).await;
    schema.unwrap_or_else(|_| Err(Fault::Lost(format!("not finished within {} s", MIGRATE_MAX.as_secs()))))
}

async fn run(connection: &mut dyn Connection, database: &dyn Database) -> Result<Schema, Fault> {
    connection.lock_schema().await?;
    connection.send("START TRANSACTION").await?;
    // Another node may have migrated meanwhile.
    let schema = found(connection, database).await?;
    for (number, migration) in (1..).zip(database.dialect().migrations).skip(schema.found) {
        connection.send(migration).await.map_err(denied)?;
        connection.send(&recorded(number)).await.map_err(denied)?;
        tracing::info!(store = database.shown(), number, "migrated");
    }
    connection.send("COMMIT").await?;
    Ok(schema)
}

/// The version of the tables.
pub(super) async fn found(connection: &mut dyn Connection, database: &dyn Database) -> Result<Schema, Fault> {
    let Dialect { migrations, has_tables, .. } = database.dialect();
    let none = Schema { found: 0, known: migrations.len() };
    if connection.ask(has_tables).await?.first().is_none_or(|row| !matches!(row.whole(0), Ok(1))) {
        return Ok(none);
    }
    let rows = connection.ask("SELECT value FROM duetime_meta WHERE name = 'schema'").await?;
    // An interrupted first migration has left no number.
    let Some(row) = rows.first() else { return Ok(none) };
    let schema = Schema { found: usize::try_from(row.number(0)?).unwrap_or(usize::MAX), ..none };
    if schema.found > schema.known {
        return Err(Fault::Known(Error::Unusable(format!(
            "{} has schema {}, which is newer than this program ({}): use the version of Duetime that wrote it, or a later \
             one",
            database.shown(),
            schema.found,
            schema.known
        ))));
    }
    Ok(schema)
}

/// Records that a migration has run.
fn recorded(number: usize) -> String {
    format!("UPDATE duetime_meta SET value = {number} WHERE name = 'schema' AND value < {number}")
}

/// All migrations as one text for running by hand, each followed by its bookkeeping.
pub(super) fn script(dialect: &Dialect) -> String {
    let Dialect { name, migrations, is_transactional, .. } = *dialect;
    let mut text = format!(
        "-- Tables of Duetime {} in {name}, as `duetime migrate` creates and records them.\n",
        env!("CARGO_PKG_VERSION")
    );
    if is_transactional {
        text += "BEGIN;\n";
    }
    for (number, migration) in (1..).zip(migrations) {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n-- Migration {number} of {}. Skip it if it has already run: SELECT value FROM duetime_meta WHERE name = \
             'schema' returns the number of the last one.\n{}\n\n{};\n",
            migrations.len(),
            migration.trim_end(),
            recorded(number)
        );
    }
    if is_transactional {
        text += "\nCOMMIT;\n";
    }
    text
}

/// Adds advice for a user who may not change tables.
fn denied(fault: Fault) -> Fault {
    match fault {
        Fault::Known(Error::Unusable(text)) => Fault::Known(Error::Unusable(format!(
            "{text}, or have an administrator run what `duetime migrate --print-sql` prints"
        ))),
        other => other,
    }
}
