//! A look at a database that changes nothing: whether a server could use it.

use super::connection::Database;
use super::fault::Fault;
use super::schema::{Schema, found};
use duetime_core::Millis;

/// What was seen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProbeReport {
    /// What it is and where, without user and password.
    pub shown: String,
    /// How far its tables have come.
    pub schema: Schema,
    /// Its clock.
    pub clock: Millis,
    /// What the user may not do and a server needs: `INSERT on duetime_jobs`. Empty where there are no tables yet.
    pub missing_rights: Vec<String>,
}

/// What a server does with each table, and a column that can be named.
const RIGHTS: [(&str, &str, &str); 6] = [
    ("duetime_jobs", "id", "SELECT INSERT UPDATE DELETE"),
    ("duetime_tags", "tag", "SELECT INSERT DELETE"),
    ("duetime_tallies", "queue", "SELECT INSERT UPDATE DELETE"),
    ("duetime_registry", "name", "SELECT INSERT UPDATE DELETE"),
    ("duetime_meta", "value", "SELECT UPDATE"),
    ("duetime_inbox", "error", "SELECT UPDATE DELETE"),
];

/// Each right, and a statement that is refused to who lacks it, and not carried out for who has it.
fn rights() -> impl Iterator<Item = (String, String)> {
    RIGHTS.iter().flat_map(|(table, column, verbs)| {
        verbs.split(' ').map(move |verb| {
            let statement = match verb {
                "SELECT" => format!("SELECT {column} FROM {table} WHERE 1 = 0"),
                "INSERT" => format!("INSERT INTO {table} ({column}) VALUES (NULL)"),
                "UPDATE" => format!("UPDATE {table} SET {column} = NULL WHERE 1 = 0"),
                _ => format!("DELETE FROM {table} WHERE 1 = 0"),
            };
            (format!("{verb} on {table}"), format!("EXPLAIN {statement}"))
        })
    })
}

/// Whether the server is fit, how far its tables are, its clock, and what its user may not do.
pub(super) async fn probe(database: &dyn Database, may_lose: bool) -> Result<ProbeReport, Fault> {
    let mut connection = database.connection().await?;
    connection.hold(true);
    connection.fit(may_lose).await?;
    let schema = found(&mut *connection, database).await?;
    let rows = connection.ask(database.dialect().clock).await?;
    let clock = rows.first().ok_or_else(|| Fault::damaged("the time", "nothing"))?.number(0)?;
    let mut missing_rights = Vec::new();
    if schema.found == schema.known {
        for (right, statement) in rights() {
            match connection.ask(&statement).await {
                Ok(_) => {}
                Err(fault @ Fault::Lost(_)) => return Err(fault),
                Err(_) => missing_rights.push(right),
            }
        }
    }
    Ok(ProbeReport { shown: database.shown().to_owned(), schema, clock, missing_rights })
}
