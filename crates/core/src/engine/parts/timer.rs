//! What the timer of schedules is told.

use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Schedules that were changed here.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    touched: Mutex<Vec<Arc<str>>>,
    pub(crate) changed: Notify,
}

impl Timer {
    /// Has the timer look at this schedule now.
    pub(crate) fn touch(&self, name: Arc<str>) {
        self.touched.lock().expect("no panic under this lock").push(name);
        self.changed.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.touched.lock().expect("no panic under this lock"))
    }
}
