//! Background tasks that a store depends on.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Pause before a task that panicked is started again.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs a task on the current runtime and restarts it if it panics: callers wait for its work, and would otherwise wait
/// forever.
pub(crate) fn keep<F>(name: &'static str, mut work: impl FnMut() -> F + Send + 'static) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
            tracing::error!(task = name, "a background task of the store panicked and is restarted");
            tokio::time::sleep(PAUSE).await;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_started_again() {
        let mut turns = 0..3;
        let work = move || {
            let turn = turns.next();
            async move { assert_eq!(turn, Some(2), "a panic that a test asked for") }
        };
        keep("test", work).await.unwrap();
    }
}
