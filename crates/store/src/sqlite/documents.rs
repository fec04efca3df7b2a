//! The registry's documents, and blocks of ids.

use super::fault::Fault;
use super::number::{Number, Numbers};
use duetime_core::model::id::{SEQUENCE_END, block_start};
use duetime_core::ports::{Document, PutIf, REMOVED};
use duetime_core::{Error, Millis};
use rusqlite::{Connection, OptionalExtension, Row};
use std::ops::Range;

/// One document.
pub(super) fn document(connection: &Connection, kind: &str, name: &str) -> Result<Option<Document>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT name, body, version FROM duetime_registry WHERE kind = ?1 AND name = ?2")?;
    Ok(statement.query_row([kind, name], read).optional()?)
}

/// All documents of a kind, by name.
pub(super) fn documents(connection: &Connection, kind: &str) -> Result<Vec<Document>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT name, body, version FROM duetime_registry WHERE kind = ?1 ORDER BY name")?;
    let rows = statement.query_map([kind], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Document> {
    Ok(Document { name: row.get(0)?, body: row.get(1)?, version: row.number(2)? })
}

/// Stores a document if the stored one has this version.
pub(super) fn put_if(
    connection: &Connection,
    kind: &str,
    name: &str,
    body: &str,
    version: u64,
) -> Result<PutIf, Fault> {
    let stored = document(connection, kind, name)?.map_or(0, |document| document.version);
    if stored != version {
        return Ok(PutIf::Mismatch(stored));
    }
    let last =
        if stored == 0 { document(connection, REMOVED, kind)?.map_or(0, |removed| removed.version) } else { stored };
    let new = last + 1;
    put(connection, kind, name, body, new)?;
    Ok(PutIf::Stored(new))
}

fn put(connection: &Connection, kind: &str, name: &str, body: &str, version: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO duetime_registry (kind, name, body, version) VALUES (?1, ?2, ?3, ?4)")?
        .execute((kind, name, body, Number(version)))?;
    Ok(())
}

/// Removes a document, of this version if one is given; returns whether there was such a document.
pub(super) fn remove(connection: &Connection, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Fault> {
    let stored = document(connection, kind, name)?.map(|document| document.version);
    let Some(stored) = stored.filter(|&stored| version.is_none_or(|version| version == stored)) else {
        return Ok(false);
    };
    connection.prepare_cached("DELETE FROM duetime_registry WHERE kind = ?1 AND name = ?2")?.execute((kind, name))?;
    let highest = document(connection, REMOVED, kind)?.map_or(0, |removed| removed.version);
    put(connection, REMOVED, kind, "", highest.max(stored))?;
    Ok(true)
}

/// Allots a unique block of sequences.
pub(super) fn allot(connection: &Connection, count: u64, now: Millis) -> Result<Range<u64>, Fault> {
    let last_end = connection
        .prepare_cached("SELECT value FROM duetime_meta WHERE name = 'sequence_end'")?
        .query_row([], |row| row.number(0))
        .optional()?;
    let start = block_start(last_end.unwrap_or(0), now);
    let end = start.checked_add(count).filter(|&end| end <= SEQUENCE_END);
    let end = end.ok_or_else(|| Error::invalid("count", "a block of sequences below 2^45", count))?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO duetime_meta (name, value) VALUES ('sequence_end', ?1)")?
        .execute([Number(end)])?;
    Ok(start..end)
}
