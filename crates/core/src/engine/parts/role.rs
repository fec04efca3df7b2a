//! The role of the leader.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Whether this process leads, and under which name.
#[derive(Debug, Default)]
pub(crate) struct Role {
    pub(crate) leads: AtomicBool,
    owner: OnceLock<Arc<str>>,
}

impl Role {
    pub(crate) fn set_owner(&self, owner: &str) {
        assert!(self.owner.set(Arc::from(owner)).is_ok(), "an engine starts once");
    }

    pub(crate) fn owner(&self) -> Arc<str> {
        self.owner.get().cloned().unwrap_or_default()
    }
}
