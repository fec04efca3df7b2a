//! `duetime queues delete`.

use super::{One, is_unused};
use crate::cli::exit::{Failure, Result};
use crate::cli::output;
use duetime_core::api::DeletedQueue;
use duetime_core::engine::QueueStatus;
use std::io::{IsTerminal, stderr, stdin};

#[derive(Debug, clap::Args)]
pub(super) struct Delete {
    #[command(flatten)]
    one: One,
    /// Cancel jobs that wait, ask running ones to stop, and delete the queue once none runs, even if a schedule pushes to it
    #[arg(long)]
    force: bool,
    /// Do not ask for a confirmation
    #[arg(long)]
    yes: bool,
}

impl Delete {
    pub(super) async fn run(self) -> Result {
        let Self { one, force, yes } = self;
        let queue = &one.queue;
        let client = one.target.client().await?;
        let status = client.queues().get(queue).await?;
        let loss = loss(&status, force);
        if !yes && !is_unused(&status) && !confirmed(&loss)? {
            return Err(Failure::error(format!("{queue} is not deleted")));
        }
        let queues = client.queues();
        let deleted = if force { queues.force_delete(queue).await? } else { queues.delete(queue).await? };
        output::tell(one.target.json, &deleted, said(queue, &deleted))
    }
}

/// What a deletion takes with it.
fn loss(status: &QueueStatus, force: bool) -> String {
    let QueueStatus { queue, counts, tally, .. } = status;
    let ended = tally.succeeded + tally.failed + tally.cancelled;
    let mut text = format!("this deletes the queue {queue}, its settings, and the records of {}", jobs(ended));
    if tally.failed > 0 {
        text += &format!(", {} of them failed", tally.failed);
    }
    if force {
        text += &format!("; {} that wait are cancelled and deleted", jobs(counts.scheduled + counts.ready));
    }
    text
}

fn confirmed(loss: &str) -> Result<bool> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(Failure::usage(format!("{loss}: confirm that with --yes")));
    }
    output::note!("{loss}. Type yes to go on:");
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    Ok(line.trim() == "yes")
}

fn said(queue: &str, deleted: &DeletedQueue) -> String {
    if !deleted.existed {
        return format!("there is no queue {queue}, so there was nothing to delete");
    }
    format!("{queue} is deleted, with the records of {}", jobs(deleted.deleted))
}

fn jobs(count: u64) -> String {
    format!("{count} job{}", if count == 1 { "" } else { "s" })
}
