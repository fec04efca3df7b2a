//! Jobs and requests with defaults for all that is irrelevant to a test: set the relevant fields with `..job(1)`.

use crate::clock::Millis;
use crate::error::Error;
use crate::json::Timestamp;
use crate::limits::PAYLOAD_BYTES_DEFAULT;
use crate::model::follow_up::FollowUp;
use crate::model::id::{JobId, JobRef};
use crate::model::job::{Due, Job, NewJob, Stage};
use crate::model::options::JobOptions;
use crate::ports::{Beginning, Change, Detail, Edit, Host, Listing, Pick, Reserve, Source, Take, Window};
use crate::rules::{Again, Decision, Finish};
use async_trait::async_trait;
use std::sync::Arc;

/// The start of the wall clock of a test.
pub const T0: Millis = 1_800_000_000_000;

/// The queue of a job that names none.
pub const QUEUE: &str = "orders";

/// A host that always returns the same, and ignores wakes.
#[derive(Clone, Debug, Default)]
pub struct FixedHost(pub Beginning);

#[async_trait]
impl Host for FixedHost {
    async fn beginning(&self) -> Result<Beginning, Error> {
        Ok(self.0.clone())
    }
}

/// The n-th id.
pub fn id(n: u64) -> JobId {
    JobId::from_sequence(n)
}

/// A job of the queue [`QUEUE`] that was pushed at [`T0`], due then.
pub fn job(n: u64) -> Job {
    due(n, T0)
}

/// A job that was pushed at [`T0`], due at this instant.
pub fn due(n: u64, due_at: Millis) -> Job {
    let new = NewJob { queue: QUEUE.into(), due: Due::At(Timestamp(due_at)), ..NewJob::new(*b"payload") };
    new.accept(id(n), T0, PAYLOAD_BYTES_DEFAULT).expect("a fixture keeps the limits")
}

/// The same, which others follow when it succeeds, and when it does not.
pub fn followed(n: u64) -> Job {
    let list = |payload: &[u8]| Some([FollowUp::from(&NewJob::new(payload))].into());
    let options = JobOptions { then: list(b"then"), otherwise: list(b"otherwise"), ..JobOptions::default() };
    Job { options: options.shared(), ..job(n) }
}

/// A request for at most this many due jobs of one queue.
pub fn reserve(queue: &str, limit: usize) -> Reserve {
    reserve_from(&[queue], limit)
}

/// A request for at most this many due jobs of these queues, in this order.
pub fn reserve_from(queues: &[&str], limit: usize) -> Reserve {
    Reserve::new(Pick::InOrder(queues.iter().map(|&queue| queue.into()).collect()), limit)
}

/// A take of at most this many due jobs of a queue.
pub fn take(queue: &str, limit: usize) -> Take {
    Take::new(Source::Queues(vec![queue.into()]), limit)
}

/// A request for particular jobs, in any version.
pub fn reserve_named(ids: &[JobId]) -> Reserve {
    let named = ids.iter().map(|&id| JobRef { id, version: None });
    Reserve::new(Pick::Named(named.collect()), 1_000)
}

/// An end in this stage, without a message.
pub fn finish(stage: Stage) -> Decision {
    Decision::Finish(Finish::new(stage))
}

/// Success, without a message.
pub fn success() -> Decision {
    finish(Stage::Succeeded)
}

/// Another attempt from this instant on, with what the job has counted so far.
pub fn again(job: &Job, due_at: Millis) -> Decision {
    Decision::Again(Again { due_at, attempt: job.attempt, crashes: job.crashes, ..Again::default() })
}

/// A change of a job in any version.
pub fn edit(id: JobId, change: Change) -> Edit {
    Edit { id, version: None, change }
}

/// Cancellation without a message.
pub fn cancel() -> Change {
    Change::cancel(None)
}

/// The first live jobs of a queue, in whatever state.
pub fn listing(queue: &str) -> Listing {
    use crate::model::job::State::{Ready, Running, Scheduled};
    let states = vec![Scheduled, Ready, Running];
    Listing { queue: Arc::from(queue), states, window: Window::ALL, after: None, limit: 1_000, detail: Detail::Whole }
}
