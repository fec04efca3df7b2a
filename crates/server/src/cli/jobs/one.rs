//! One job, named by its id or by its key.

use crate::cli::exit::{Failure, Result};
use duetime::Client;
use duetime_core::engine::Query;
use duetime_core::{Job, JobId};
use std::sync::Arc;

/// Jobs that an ambiguous key names in the message.
const NAMED_MAX: usize = 5;

/// A job by its id, or by its key.
#[derive(Debug, clap::Args)]
pub(super) struct One {
    /// Job id
    #[arg(value_name = "ID", required_unless_present = "key")]
    id: Option<JobId>,
    /// The job with this key instead: the live one, or else the last one
    #[arg(long, short, value_name = "KEY", conflicts_with = "id")]
    key: Option<Arc<str>>,
    /// With --key: only in this queue; by default in any
    #[arg(long, short, value_name = "QUEUE", requires = "key")]
    queue: Option<Arc<str>>,
}

impl One {
    /// Its id.
    pub(super) async fn id(&self, client: &Client) -> Result<JobId> {
        let Some(key) = &self.key else {
            return Ok(self.id.expect("clap asks for an id or a key"));
        };
        let query = Query { key: Some(key.clone()), queue: self.queue.clone(), ..Query::default() };
        let (mut found, mut cursor) = (Vec::<Job>::new(), None);
        loop {
            let page = client.jobs().page(&query, cursor.as_deref(), 100).await?;
            found.extend(page.jobs);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        // One live job in each queue; of those that have ended the last one counts.
        let mut latest: Vec<&Job> = Vec::new();
        found.sort_by_key(|job| std::cmp::Reverse((job.is_pending(), job.id)));
        for job in &found {
            if latest.iter().all(|other| other.queue != job.queue) {
                latest.push(job);
            }
        }
        match latest.as_slice() {
            [] => Err(Failure::error(format!("no job has the key {key:?}"))),
            [job] => Ok(job.id),
            several => {
                let queues: Vec<&str> = several.iter().take(NAMED_MAX).map(|job| &*job.queue).collect();
                Err(Failure::usage(format!("jobs of several queues have the key {key:?}: {}", queues.join(", ")))
                    .hint("name one of them with --queue"))
            }
        }
    }
}
