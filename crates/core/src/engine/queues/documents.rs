//! The settings of queues as the registry keeps them: a document for each queue.

use crate::error::Error;
use crate::ports::{Document, Registry};
use crate::request::{Configured, QueueSettings};
use std::sync::Arc;

/// The registry's kind of document for a queue's settings.
pub(super) const KIND: &str = "queue";

/// A queue's settings as they are stored, and their version.
pub(super) async fn read_one(registry: &dyn Registry, queue: &str) -> Result<Option<(QueueSettings, u64)>, Error> {
    let Some(document) = registry.document(KIND, queue).await? else { return Ok(None) };
    Ok(Some((parse(queue, &document.body)?, document.version)))
}

/// The settings of all queues that have some, by name, with their versions.
pub(in crate::engine) async fn read_settings(
    registry: &dyn Registry,
) -> Result<Vec<(Arc<str>, QueueSettings, u64)>, Error> {
    let documents = registry.documents(KIND).await?.into_iter();
    let read = |Document { name, body, version }: Document| Ok((Arc::from(&*name), parse(&name, &body)?, version));
    documents.map(read).collect()
}

fn parse(queue: &str, body: &str) -> Result<QueueSettings, Error> {
    let read = serde_json::from_str(body).map(Configured::into_settings);
    read.map_err(|error| Error::Damaged(format!("the settings of the queue {queue:?}: {error}")))
}
