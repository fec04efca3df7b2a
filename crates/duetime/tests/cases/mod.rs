//! What a client and a worker do, on whatever the client is of: an embedded store here, a server in the server's tests.
//! Each case has its own queue, so that they can share a server.

pub(crate) mod calls;
pub(crate) mod locks;
pub(crate) mod worker;

use duetime::{Client, Context, Handled, Job, JobId, Kind, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A typed payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Remind {
    pub(crate) user: u64,
}

impl Kind for Remind {
    const KIND: &'static str = "remind";
    const QUEUE: &'static str = "reminders";
}

/// A queue that no other case has.
pub(crate) fn queue() -> Arc<str> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Arc::from(format!("case-{}-{count}", std::process::id()))
}

pub(crate) async fn push(client: &Client, queue: &Arc<str>, user: u64) -> JobId {
    client.push(Remind { user }).queue(queue.clone()).await.unwrap().id
}

pub(crate) async fn ended(client: &Client, id: JobId, stage: Stage) -> Job {
    let job = client.get(id).await.unwrap();
    assert_eq!(job.stage, stage, "{job:?}");
    job
}

/// A handler that has nothing to do.
pub(crate) async fn nothing(_: Remind, _: Context) -> Handled {
    Ok(())
}
