//! How far a database's tables have come.

use super::fault::Fault;
use duetime_core::Error;
use std::fmt::Write;

/// Which migrations have run, and which this version needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The number of the last migration that ran; 0 for none.
    pub found: usize,
    /// The number of the last that this version knows.
    pub known: usize,
}

/// All migrations as one text for people, each with what `recorded` says of its number behind it.
pub(crate) fn script(server: &str, migrations: &[&str], recorded: impl Fn(usize) -> String) -> String {
    let mut text = format!(
        "-- Tables of Duetime {} in {server}, with what `duetime migrate` would record of them.\n",
        env!("CARGO_PKG_VERSION")
    );
    for (number, migration) in (1..).zip(migrations) {
        // Text takes all.
        let _ = write!(
            text,
            "\n-- Migration {number} of {}. Leave it out where it has run: SELECT value FROM duetime_meta WHERE name = \
             'schema' answers the number of the last one.\n{}\n\n{};\n",
            migrations.len(),
            migration.trim_end(),
            recorded(number)
        );
    }
    text
}

/// What is told to who may not change tables.
pub(crate) fn denied(fault: Fault) -> Fault {
    match fault {
        Fault::Told(Error::Unusable(text)) => Fault::Told(Error::Unusable(format!(
            "{text}, or have an administrator run what `duetime migrate --print-sql` prints"
        ))),
        other => other,
    }
}
