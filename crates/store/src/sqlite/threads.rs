//! Threads beside those of the runtime.

use duetime_core::Error;
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot;

/// Runs this on a new thread. It blocks none of the runtime's threads, and waits for none.
pub(crate) async fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let (reply, answer) = oneshot::channel();
    spawn(name, move || drop(reply.send(work())))?;
    answer.await.map_err(|_| Error::Unavailable(format!("the thread {name} ended unexpectedly")))
}

pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map_err(|error| Error::Unavailable(format!("the system cannot start a thread ({error})")))
}
