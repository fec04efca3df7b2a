//! Its documents, and its inbox from outside.

use super::ModelLedger;
use crate::error::Error;
use crate::ports::{Document, InboxRow, PutIf, REMOVED, Registry};
use crate::testing::ledger_suite::inbox::Application;
use async_trait::async_trait;

#[async_trait]
impl Registry for ModelLedger {
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        Ok(self.documents(kind).await?.into_iter().find(|document| document.name == name))
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        let rows = self.rows();
        let of_kind = rows.documents.iter().filter(|((of, _), _)| of == kind);
        let document = |((_, name), (body, version)): (&(String, String), &(String, u64))| Document {
            name: name.clone(),
            body: body.clone(),
            version: *version,
        };
        Ok(of_kind.map(document).collect())
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        let mut rows = self.there()?;
        let known = rows.documents.get(&(kind.to_owned(), name.to_owned())).map_or(0, |known| known.1);
        if known != version {
            return Ok(PutIf::Mismatch(known));
        }
        let removed = rows.documents.get(&(REMOVED.to_owned(), kind.to_owned())).map_or(0, |removed| removed.1);
        let new = if known == 0 { removed } else { known } + 1;
        rows.documents.insert((kind.to_owned(), name.to_owned()), (body.to_owned(), new));
        Ok(PutIf::Stored(new))
    }

    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error> {
        let (mut rows, key) = (self.there()?, (kind.to_owned(), name.to_owned()));
        let is_such =
            rows.documents.get(&key).is_some_and(|(_, known)| version.is_none_or(|version| version == *known));
        let removed = if is_such { rows.documents.remove(&key) } else { None };
        if let Some((_, version)) = &removed {
            let highest = &mut rows.documents.entry((REMOVED.to_owned(), key.0)).or_default().1;
            *highest = (*highest).max(*version);
        }
        Ok(removed.is_some())
    }
}

#[async_trait]
impl Application for ModelLedger {
    async fn insert(&self, row: InboxRow) {
        self.insert(row);
    }

    async fn rows(&self) -> Vec<(Vec<u8>, Option<String>)> {
        self.inbox_rows().into_iter().map(|(row, refused)| (row.payload.to_vec(), refused)).collect()
    }
}
