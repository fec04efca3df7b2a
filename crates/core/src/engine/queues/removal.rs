//! The end of a queue's settings.
//!
//! They become the defaults first, in a new version, and are removed in that version. So a process that is slow to pass on the
//! limits of older settings changes nothing any more, and one that dies in between leaves a queue with default settings, to be
//! deleted again.

use super::Settings;
use super::changes::Change;
use super::documents::KIND;
use crate::error::Error;
use crate::ports::{Limits, PutIf};
use crate::request::{Configured, QueueSettings};
use std::sync::Arc;

impl Settings {
    /// Removes the settings of a queue, in all processes; returns the last version that they had, 0 if there were none.
    pub(in crate::engine) async fn remove(&self, queue: &Arc<str>) -> Result<u64, Error> {
        let _one_at_a_time = self.configuring.lock().await;
        self.announce(Change::Deleted { deleted: queue.clone() }).await?;
        let usual = Configured::new(queue.clone(), QueueSettings::default());
        let usual = serde_json::to_string(&usual).expect("settings have only string keys");
        let mut last = 0;
        // Another process may set them, or remove them, at the same time.
        while let Some(document) = self.registry.document(KIND, queue).await? {
            if let PutIf::Stored(version) = self.registry.put_if(KIND, queue, &usual, document.version).await? {
                self.broker.limit(queue, Limits::default(), version).await?;
                self.set(queue.clone(), QueueSettings::default());
                self.registry.remove(KIND, queue, Some(version)).await?;
                last = version;
            }
        }
        self.unset(queue);
        self.forget(queue);
        Ok(last)
    }

    /// Forgets what this process remembers of a queue that is deleted.
    pub(super) fn forget(&self, queue: &Arc<str>) {
        self.names.remove(queue);
        self.metrics.remove(queue);
    }
}
