//! The registry's documents, and blocks of ids.

use super::call::Verb;
use super::fault::Fault;
use super::row;
use super::session::Session;
use async_trait::async_trait;
use duetime_core::model::id::{SEQUENCE_END, block_start};
use duetime_core::ports::{Document, PutIf, REMOVED};
use duetime_core::{Error, Millis};
use std::ops::Range;

impl Session {
    /// The end of the last block of ids; locks it.
    pub(super) async fn sequence_end(&mut self) -> Result<u64, Fault> {
        let ends = self
            .ask("SELECT value FROM duetime_meta WHERE name = 'sequence_end' FOR UPDATE", Vec::new(), |row| {
                row.number(0)
            })
            .await?;
        ends.first().copied().ok_or_else(|| Fault::damaged("sequence_end", "nothing"))
    }

    /// Sets the end of the last block of ids.
    pub(super) async fn set_sequence_end(&mut self, end: u64) -> Result<(), Fault> {
        self.connection
            .run("UPDATE duetime_meta SET value = ? WHERE name = 'sequence_end'", vec![end.into()])
            .await
            .map(drop)
    }

    /// A document; locked if it will be changed.
    pub(super) async fn document(&mut self, kind: &str, name: &str, locks: bool) -> Result<Option<Document>, Fault> {
        let statement = if locks {
            "SELECT name, body, version FROM duetime_registry WHERE kind = ? AND name = ? FOR UPDATE"
        } else {
            "SELECT name, body, version FROM duetime_registry WHERE kind = ? AND name = ?"
        };
        Ok(self.ask(statement, vec![kind.into(), name.into()], row::document).await?.pop())
    }

    /// All documents of a kind, by name.
    pub(super) async fn documents(&mut self, kind: &str) -> Result<Vec<Document>, Fault> {
        self.ask(
            "SELECT name, body, version FROM duetime_registry WHERE kind = ? ORDER BY name",
            vec![kind.into()],
            row::document,
        )
        .await
    }

    /// The highest version of the removed documents of a kind; locks it.
    async fn removed(&mut self, kind: &str) -> Result<Option<u64>, Fault> {
        Ok(self.document(REMOVED, kind, true).await?.map(|removed| removed.version))
    }

    /// Stores a document: a new one, or one that is locked.
    async fn put_document(&mut self, kind: &str, document: &Document, by: u64, is_new: bool) -> Result<(), Fault> {
        let Document { name, body, version } = document;
        let statement = if is_new {
            "INSERT INTO duetime_registry (body, version, put_by, kind, name) VALUES (?, ?, ?, ?, ?)"
        } else {
            "UPDATE duetime_registry SET body = ?, version = ?, put_by = ? WHERE kind = ? AND name = ?"
        };
        let values = vec![body.as_str().into(), (*version).into(), by.into(), kind.into(), name.as_str().into()];
        self.connection.run(statement, values).await.map(drop)
    }

    /// Removes a document, of this version if one is given; returns whether there was such a document.
    async fn remove_document(&mut self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Fault> {
        let stored = self.document(kind, name, true).await?.map(|document| document.version);
        let Some(stored) = stored.filter(|&stored| version.is_none_or(|version| version == stored)) else {
            return Ok(false);
        };
        let removed = self.removed(kind).await?;
        let highest =
            Document { name: kind.to_owned(), body: String::new(), version: stored.max(removed.unwrap_or(0)) };
        self.put_document(REMOVED, &highest, 0, removed.is_none()).await?;
        let statement = "DELETE FROM duetime_registry WHERE kind = ? AND name = ?";
        self.connection.run(statement, vec![kind.into(), name.into()]).await?;
        Ok(true)
    }
}

/// Allots a unique block of sequences.
pub(super) struct Allot {
    pub(super) count: u64,
    pub(super) now: Millis,
}

#[async_trait]
impl Verb for Allot {
    type Answer = Range<u64>;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<Range<u64>, Fault> {
        let start = block_start(session.sequence_end().await?, self.now);
        let end = start.checked_add(self.count).filter(|&end| end <= SEQUENCE_END);
        let end = end.ok_or_else(|| Error::invalid("count", "a block of sequences below 2^45", self.count))?;
        session.set_sequence_end(end).await?;
        Ok(start..end)
    }
}

/// Stores a document if the stored one has this version.
pub(super) struct Put {
    pub(super) kind: String,
    pub(super) version: u64,
    pub(super) document: Document,
    /// The name of this call, by which its repeat is known.
    pub(super) call: u64,
}

impl Put {
    pub(super) fn new(kind: &str, document: Document, version: u64) -> Self {
        // Below 2^63, as columns are, and not 0, which is nobody's.
        let call = getrandom::u64().expect("the system gives random numbers") >> 1 | 1;
        Self { kind: kind.to_owned(), version, document, call }
    }
}

#[async_trait]
impl Verb for Put {
    type Answer = PutIf;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<PutIf, Fault> {
        let stored = session.document(&self.kind, &self.document.name, true).await?;
        let version = stored.as_ref().map_or(0, |document| document.version);
        if version != self.version {
            let by = "SELECT put_by FROM duetime_registry WHERE kind = ? AND name = ?";
            let values = vec![self.kind.as_str().into(), self.document.name.as_str().into()];
            let is_own = session.ask(by, values, |row| row.number(0)).await?.contains(&self.call);
            return Ok(if is_own { PutIf::Stored(version) } else { PutIf::Mismatch(version) });
        }
        let last = if stored.is_none() { session.removed(&self.kind).await?.unwrap_or(0) } else { version };
        self.document.version = last + 1;
        session.put_document(&self.kind, &self.document, self.call, stored.is_none()).await?;
        Ok(PutIf::Stored(self.document.version))
    }

    fn unsure(&mut self) -> bool {
        true
    }
}

/// Removes a document.
pub(super) struct Remove {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) version: Option<u64>,
}

#[async_trait]
impl Verb for Remove {
    type Answer = bool;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<bool, Fault> {
        session.remove_document(&self.kind, &self.name, self.version).await
    }

    /// A repeated removal would report that there was no document.
    fn unsure(&mut self) -> bool {
        false
    }
}
