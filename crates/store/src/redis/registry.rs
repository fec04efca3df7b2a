//! Small documents: each kind is a hash of `<version> <call> <body>` by name, with the call that stored it. The kind
//! [`REMOVED`] has only versions.

use super::call::Call;
use super::call::Text;
use super::handle::Redis;
use super::reply::Reply;
use super::scripts;
use async_trait::async_trait;
use duetime_core::Error;
use duetime_core::limits::SCHEDULE_PAYLOAD_BYTES_MAX;
use duetime_core::ports::{Document, PutIf, REMOVED, Registry};
use redis::Value;
use std::collections::BTreeMap;

/// Documents that Redis examines in one step at most.
const DOCUMENTS_AT_ONCE: usize = 500;
/// About the size of the largest document: a schedule with its payload in base64.
const DOCUMENT_BYTES_MAX: usize = 2 * SCHEDULE_PAYLOAD_BYTES_MAX;

impl Redis {
    fn documents_key(&self, kind: &str) -> String {
        self.partitions.keys.own(&format!("documents:{kind}"))
    }

    /// Stores a document if the stored one has this version. Without a body it is removed, in any version if none is given.
    async fn change_document(&self, kind: &str, name: &str, body: &str, version: Option<u64>) -> Result<PutIf, Error> {
        let mut call = Call { script: &scripts::DOCUMENT, keys: Text::default(), arguments: Text::default() };
        call.keys.push(self.documents_key(kind).as_bytes());
        call.keys.push(self.documents_key(REMOVED).as_bytes());
        call.arguments.push(name.as_bytes());
        call.arguments.push(version.map(|version| version.to_string()).unwrap_or_default().as_bytes());
        call.arguments.push(body.as_bytes());
        call.arguments.push(self.partitions.requests.unique().as_bytes());
        call.arguments.push(kind.as_bytes());
        let mut reply = Reply::new(self.partitions.link.call(&call).await?)?;
        let (stored, is_ours) = (reply.number()? as u64, reply.number()? != 0);
        Ok(if is_ours { PutIf::Stored(stored) } else { PutIf::Mismatch(stored) })
    }
}

#[async_trait]
impl Registry for Redis {
    async fn document(&self, kind: &str, name: &str) -> Result<Option<Document>, Error> {
        let mut command = redis::cmd("HGET");
        command.arg(self.documents_key(kind)).arg(name);
        match self.partitions.link.query(&command).await? {
            Value::Nil => Ok(None),
            Value::BulkString(stored) => read(name, &stored).map(Some),
            other => Err(Error::Damaged(format!("the {kind} {name:?} is {other:?}"))),
        }
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, Error> {
        // Read in steps: a document that changes meanwhile may be returned twice, and the later one counts.
        let (mut documents, mut cursor) = (BTreeMap::new(), b"0".to_vec());
        // The largest one so far; the first step reckons with large ones.
        let mut size = DOCUMENT_BYTES_MAX;
        loop {
            let scan = |bytes: usize| {
                let at_once = (bytes / size).clamp(1, DOCUMENTS_AT_ONCE);
                let mut command = redis::cmd("HSCAN");
                command.arg(self.documents_key(kind)).arg(&cursor).arg("COUNT").arg(at_once);
                command
            };
            let mut reply = Reply::new(self.partitions.link.query_within(scan).await?)?;
            cursor = reply.bytes()?;
            let mut pairs = reply.list()?;
            size = if documents.is_empty() { 1 } else { size };
            while pairs.len() > 0 {
                let (name, stored) = (pairs.text()?, pairs.bytes()?);
                size = size.max(name.len() + stored.len());
                documents.insert(name.clone(), read(&name, &stored)?);
            }
            if cursor == b"0" {
                return Ok(documents.into_values().collect());
            }
        }
    }

    async fn put_if(&self, kind: &str, name: &str, body: &str, version: u64) -> Result<PutIf, Error> {
        self.change_document(kind, name, body, Some(version)).await
    }

    async fn remove(&self, kind: &str, name: &str, version: Option<u64>) -> Result<bool, Error> {
        Ok(matches!(self.change_document(kind, name, "", version).await?, PutIf::Stored(_)))
    }
}

fn read(name: &str, stored: &[u8]) -> Result<Document, Error> {
    let text = std::str::from_utf8(stored).ok();
    let document = text.and_then(|text| {
        let (version, rest) = text.split_once(' ')?;
        let (_call, body) = rest.split_once(' ')?;
        Some(Document { name: name.to_owned(), body: body.to_owned(), version: version.parse().ok()? })
    });
    document.ok_or_else(|| Error::Damaged(format!("the document {name:?} in Redis cannot be read")))
}
