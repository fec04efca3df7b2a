//! Names that many jobs share, kept once.

use std::collections::HashMap;
use std::sync::Arc;

/// Beyond this many pairs the cache is cleared: their number is unbounded, since they come from outside.
const LABELS_MAX: usize = 4_096;

/// A job's queue and kind in one allocation, so a job needs one pointer for both.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) queue: Arc<str>,
    pub(super) kind: Arc<str>,
}

/// Known pairs of queue and kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    known: HashMap<(Arc<str>, Arc<str>), Arc<Label>>,
    /// The last one asked for: most batches are of one queue and kind.
    last: Option<Arc<Label>>,
}

impl Names {
    /// The shared label of this queue and kind.
    pub(super) fn share(&mut self, queue: &Arc<str>, kind: &Arc<str>) -> Arc<Label> {
        if let Some(last) = &self.last
            && last.queue == *queue
            && last.kind == *kind
        {
            return last.clone();
        }
        if self.known.len() >= LABELS_MAX {
            self.known = HashMap::new();
        }
        let new = || Arc::new(Label { queue: queue.clone(), kind: kind.clone() });
        let label = self.known.entry((queue.clone(), kind.clone())).or_insert_with(new).clone();
        self.last = Some(label.clone());
        label
    }
}
