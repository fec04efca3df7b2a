//! The registry: small versioned documents.

use crate::error::Error;
use async_trait::async_trait;

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its name, such as a queue's.
    pub name: String,
    /// Its content, in JSON.
    pub body: String,
    /// Grows with every change, from 1. No two documents of a kind and a name have the same one, even if the first was removed.
    pub version: u64,
}

/// The outcome of a conditional put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutIf {
    /// It was stored with this version.
    Stored(u64),
    /// The document has another version (0: there is none); nothing changed.
    Mismatch(u64),
}

/// The kind of the highest versions of removed documents, by their kinds, from which new ones go on. Stores keep it for
/// themselves.
pub const REMOVED: &str = "removed";

/// Keeps documents by kind (`queue`, say) and name.
#[async_trait]
pub trait Registry: Send + Sync {
    /// One document.
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error>;

    /// All documents of a kind, by name.
    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error>;

    /// Stores a document if the stored one has this version; 0 means that there is none. After a lost reply, an SQL server
    /// takes an equal body in the next version for its own. If only one of two callers may be told that it stored
    /// the document, their bodies must differ.
    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error>;

    /// Removes a document, of this version if one is given; returns whether there was such a document.
    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error>;
}
