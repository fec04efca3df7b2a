//! Jobs that go back to the old workers once they are due.
//!
//! Such a job has a target, the list that its workers pop, or their queue of BullMQ. Its queue has a target on the same Redis, so that servers that
//! may reach that Redis deliver its jobs.

use crate::cli::adopt::source::Look;
use crate::cli::exit::{Failure, Result};
use duetime::Client;
use duetime::server::Cause;
use duetime_core::api::Span;
use duetime_core::model::target::RedisList;
use duetime_core::{Backoff, Exponential, JobOptions, Retry, Target};
use std::sync::Arc;

/// The waits between attempts to hand a job back. There is no last attempt.
const BACKOFF: Exponential = Exponential { first: Span(1_000), factor: 2.0, max: Span(30_000), jitter: 0.2 };
/// The error for a caller without the right to look at a queue.
const FORBIDDEN: u16 = 403;

/// The way back.
pub(super) struct HandBack {
    /// The queue where they wait.
    queue: Arc<str>,
    /// The Redis that they came from, without user and password.
    url: Arc<str>,
    layout: Arc<str>,
}

impl HandBack {
    /// For jobs that came from this Redis.
    pub(super) fn new(from: &str, queue: &Arc<str>, layout: &str) -> Result<Self> {
        let Some((scheme @ ("redis" | "rediss"), rest)) = from.split_once("://") else {
            return Err(Failure::usage(
                "--hand-back needs a single Redis, because a server delivers to one: use redis:// or rediss:// in --from",
            ));
        };
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let place = place.split_once('?').map_or(place, |(place, _)| place);
        Ok(Self { queue: queue.clone(), url: format!("{scheme}://{place}").into(), layout: layout.into() })
    }

    fn target(&self, list: &str) -> Target {
        Target::RedisList(RedisList { url: self.url.clone(), key: list.into(), layout: self.layout.clone() })
    }

    /// Options of a job that goes back to this list. It is retried until it is there.
    pub(super) fn options(&self, list: &str) -> JobOptions {
        let backoff = Some(Backoff::Exponential(BACKOFF));
        let retry = Retry { backoff, max_attempts: Some(0), max_crashes: Some(u32::MAX), ..Retry::INHERITED };
        JobOptions { retry, target: Some(Arc::new(self.target(list))), ..JobOptions::default() }
    }

    /// Tells how the server is set up.
    pub(super) fn explain(&self, list: &str, look: &mut Look) {
        // A follower would give back at once what it takes.
        look.only_drains = true;
        look.notes.push(format!(
            "Jobs go back once they are due. This needs a server that was started with --deliver-redis {}, including user \
             and password if that Redis needs them.",
            self.url
        ));
        look.notes.push(format!("Their queue needs a target. If it has none yet, set it: {}", self.command(list)));
    }

    /// The command that sets the target of the queue.
    fn command(&self, list: &str) -> String {
        format!("duetime queues set {} --target '{}'", self.queue, shown(&self.target(list)))
    }

    /// Refuses a queue that is not set up.
    pub(super) async fn check(&self, client: &Client, list: &str) -> Result {
        let target = client.queues().get(&self.queue).await?.settings.target;
        if let Some(Target::RedisList(RedisList { url, layout, .. })) = &target
            && (url, layout) == (&self.url, &self.layout)
        {
            return Ok(());
        }
        let got = target.map_or_else(|| "none".to_owned(), |target| shown(&target.masked()));
        let why =
            format!("the queue {} has no target at {}, as --from names it: its target is {got}", self.queue, self.url);
        Err(Failure::usage(why).hint(format!("set it: {}", self.command(list))))
    }
}

/// Refuses a queue whose target is taken from: its jobs would go in a circle.
pub(super) async fn check_no_circle(client: &Client, queue: &str, is_taken: impl Fn(&RedisList) -> bool) -> Result {
    let target = match client.queues().get(queue).await {
        Ok(status) => status.settings.target,
        // Only callers with the right `read` can check.
        Err(error) if matches!(error.cause(), Cause::Refused { status: FORBIDDEN, .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match target {
        Some(Target::RedisList(list)) if is_taken(&list) => {
            let why = format!("the queue {queue} hands its jobs back to {}, where they would be taken again", list.key);
            Err(Failure::usage(why).hint("add --hand-back, or name another queue with --to"))
        }
        _ => Ok(()),
    }
}

fn shown(target: &Target) -> String {
    serde_json::to_string(target).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_no_password() {
        let queue = Arc::from("mail");
        for (from, expected) in [
            ("redis://me:secret@cache:6380/2?namespace=x", Some("redis://cache:6380/2")),
            ("rediss://cache", Some("rediss://cache")),
            ("redis+sentinel://a,b/mymaster", None),
            ("redis+cluster://a,b", None),
            ("cache:6379", None),
        ] {
            let hand_back = HandBack::new(from, &queue, crate::deliver::LARAVEL).ok();
            assert_eq!(hand_back.as_ref().map(|hand_back| &*hand_back.url), expected, "{from}");
            if let Some(hand_back) = hand_back {
                hand_back.options("queues:mail").check("mail").unwrap();
            }
        }
    }
}
