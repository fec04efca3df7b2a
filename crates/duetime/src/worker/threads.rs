//! The threads of blocking handlers. They are a worker's own: the runtime has a few hundred for everybody, and without one of those
//! no host name is looked up, so that a lease could not be extended.

use super::handler::Handled;
use super::job_error::JobError;
use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Span;

/// Beyond so many, handlers wait for one that ends: those that ignore their time limit hold their threads.
const THREADS_MAX: usize = 512;
/// A thread without a handler ends after this time.
const IDLE: Duration = Duration::from_secs(10);

type Run = Box<dyn FnOnce() + Send>;

/// Threads that are started when they are needed; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Threads(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    pushed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Run>,
    threads: usize,
    idle: usize,
}

impl Threads {
    /// Runs this on a thread, within the caller's runtime and tracing span. Once it runs, it runs to its end.
    pub(super) async fn run(&self, handler: impl FnOnce() -> Handled + Send + 'static) -> Handled {
        let (runtime, span) = (Handle::current(), Span::current());
        let (end, ended) = oneshot::channel();
        let run = move || {
            let _within = runtime.enter();
            let caught = panic::catch_unwind(AssertUnwindSafe(|| span.in_scope(handler)));
            // Nobody waits any more if the worker has stopped without it.
            let _ = end.send(caught.unwrap_or_else(|panic| Err(JobError::panicked(&*panic))));
        };
        let no_thread = |why: String| JobError::new(format!("no thread could be started for the handler: {why}"));
        self.start(Box::new(run)).map_err(|error| no_thread(error.to_string()))?;
        ended.await.map_err(|error| no_thread(error.to_string()))?
    }

    fn start(&self, run: Run) -> io::Result<()> {
        let mut state = self.0.lock();
        state.waiting.push_back(run);
        if state.idle >= state.waiting.len() {
            self.0.pushed.notify_one();
        } else if state.threads < THREADS_MAX {
            let shared = self.0.clone();
            match thread::Builder::new().name("duetime-handler".into()).spawn(move || shared.serve()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    state.waiting.pop_back();
                    return Err(error);
                }
                // One of the others takes it.
                Err(error) => {
                    tracing::warn!(%error, "no thread could be started: a blocking handler waits for another one");
                }
            }
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what waits until there has been nothing for a while.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(run) = state.waiting.pop_front() {
                drop(state);
                run();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (later, waited) = self.pushed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = later;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}
