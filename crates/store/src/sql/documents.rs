//! The registry's documents, and blocks of ids.

use super::call::Verb;
use super::fault::Fault;
use super::session::Session;
use async_trait::async_trait;
use duetime_core::model::id::{SEQUENCE_END, block_start};
use duetime_core::ports::{Document, PutIf};
use duetime_core::{Error, Millis};
use std::ops::Range;

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

/// Stores a document if the stored one has the version before this one's.
pub(super) struct Put {
    pub(super) kind: String,
    /// With its new version.
    pub(super) document: Document,
    /// Whether an earlier attempt may have stored it.
    pub(super) is_unsure: bool,
}

#[async_trait]
impl Verb for Put {
    type Answer = PutIf;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<PutIf, Fault> {
        let stored = session.document(&self.kind, &self.document.name, true).await?;
        let version = stored.as_ref().map_or(0, |document| document.version);
        if self.is_unsure && stored.as_ref() == Some(&self.document) {
            return Ok(PutIf::Stored(version));
        }
        if version + 1 != self.document.version {
            return Ok(PutIf::Mismatch(version));
        }
        session.put_document(&self.kind, &self.document).await?;
        Ok(PutIf::Stored(self.document.version))
    }

    fn unsure(&mut self) -> bool {
        self.is_unsure = true;
        true
    }
}

/// Removes a document.
pub(super) struct Remove {
    pub(super) kind: String,
    pub(super) name: String,
}

#[async_trait]
impl Verb for Remove {
    type Answer = bool;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, _: bool) -> Result<bool, Fault> {
        session.remove_document(&self.kind, &self.name).await
    }

    /// A repeated removal would report that there was no document.
    fn unsure(&mut self) -> bool {
        false
    }
}
