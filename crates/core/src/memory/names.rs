//! Names that many jobs share, kept once.

use std::collections::HashSet;
use std::sync::Arc;

/// Beyond so many different names further ones are not shared: they can come from outside without end.
const NAMES_MAX: usize = 4_096;

/// Queues and kinds.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashSet<Arc<str>>,
    /// The last one asked for: most batches are of one queue and kind.
    last: Option<Arc<str>>,
}

impl Names {
    /// The shared name that is equal to this one.
    pub(super) fn share(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(last) = &self.last
            && last == name
        {
            return last.clone();
        }
        let shared = match self.known.get(name) {
            Some(shared) => shared.clone(),
            None => {
                if self.known.len() < NAMES_MAX {
                    self.known.insert(name.clone());
                }
                name.clone()
            }
        };
        self.last = Some(shared.clone());
        shared
    }
}
