//! Checks whether a server could use a database, without changing it.

use super::connection::Database;
use super::fault::Fault;
use super::schema::{Schema, found};
use duetime_core::Millis;
use duetime_core::ports::BROKER;

/// The document that names the ledger. A Redis that holds jobs of one ledger is not used beside another.
pub(crate) const NAME: &str = "name";

/// The result of a probe.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProbeReport {
    /// A description with its location, without user and password.
    pub shown: String,
    /// The version of its tables.
    pub schema: Schema,
    /// Its clock.
    pub clock: Millis,
    /// The name of the ledger; `None` if it has none yet.
    pub name: Option<String>,
    /// Rights that a server needs and the user lacks, such as `INSERT on duetime_jobs`. Empty if there are no tables yet.
    pub missing_rights: Vec<String>,
}

/// The rights that a server needs on each table, and a column of it.
const RIGHTS: [(&str, &str, &str); 6] = [
    ("duetime_jobs", "id", "SELECT INSERT UPDATE DELETE"),
    ("duetime_tags", "tag", "SELECT INSERT DELETE"),
    ("duetime_tallies", "queue", "SELECT INSERT UPDATE DELETE"),
    ("duetime_registry", "name", "SELECT INSERT UPDATE DELETE"),
    ("duetime_meta", "value", "SELECT UPDATE"),
    ("duetime_inbox", "error", "SELECT UPDATE DELETE"),
];

/// Each right with a statement that is refused to a user without the right, and has no effect for a user with it.
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

/// Checks suitability, the version of the tables, the clock, and missing rights of the user.
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
    let name = match schema.found == schema.known && missing_rights.is_empty() {
        true => {
            let named = format!("SELECT body FROM duetime_registry WHERE kind = '{BROKER}' AND name = '{NAME}'");
            connection.ask(&named).await?.first().map(|row| row.text(0)).transpose()?.map(|name| name.to_string())
        }
        false => None,
    };
    Ok(ProbeReport { shown: database.shown().to_owned(), schema, clock, name, missing_rights })
}
