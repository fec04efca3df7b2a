//! Retention: removes finished jobs that have been kept long enough.
//!
//! Ledgers find jobs that ended long ago by an index over all queues. So if queues have their own retentions, ledgers are
//! asked for jobs past the longest one. Queues with a shorter one are walked through, page by page, from what ended as long ago
//! as that.

use crate::api::DegradedCode;
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::editor::Editor;
use crate::engine::leader::Leader;
use crate::engine::queues::Settings;
use crate::engine::status::Status;
use crate::error::Error;
use crate::limits::{STEP_JOBS_MAX, STEP_QUEUES_MAX};
use crate::model::id::JobRef;
use crate::model::job::{Job, State};
use crate::ports::{Broker, Find, Ledger, Place, Queues, Retention, Selector, Tally, after};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How often finished jobs past their retention are looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(10);
/// Pages of a queue without jobs past retention that are read each time: failed jobs may be kept for longer than the others,
/// and on Redis alone those of other queues are among them.
const IDLE_PAGES_MAX: usize = 10;

/// Queues that are walked through each time.
const WALKS_MAX: usize = 100;

/// The positions of the walks through queues.
#[derive(Debug, Default)]
struct Walks {
    /// The queue to continue with.
    from: Arc<str>,
    /// The position at which the last walk through a queue stopped.
    stopped: HashMap<Arc<str>, String>,
}

/// Removes finished jobs past their retention.
pub(super) struct Pruner {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    settings: Arc<Settings>,
    editor: Arc<Editor>,
    leader: Arc<Leader>,
    status: Arc<Status>,
    retention: Retention,
}

impl Pruner {
    pub(super) fn new(base: &Base, settings: Arc<Settings>, editor: Arc<Editor>, leader: Arc<Leader>) -> Self {
        let Base { stores, options, status, .. } = base;
        Self {
            ledger: stores.ledger.clone(),
            broker: stores.broker.clone(),
            settings,
            editor,
            leader,
            status: status.clone(),
            retention: options.retention,
        }
    }

    /// Removes finished jobs past their retention, until the engine stops.
    pub(crate) async fn prune(&self) {
        let mut walks = Walks::default();
        loop {
            tokio::time::sleep(PRUNE_EVERY).await;
            if !self.leader.leads() {
                continue;
            }
            self.status.set(DegradedCode::Pruning, self.prune_once(&mut walks).await.err());
        }
    }

    async fn prune_once(&self, walks: &mut Walks) -> Result<(), Error> {
        let usual = self.retention;
        let longest = self.settings.longest_retention(usual);
        while self.ledger.prune(longest, self.broker.now(), STEP_JOBS_MAX).await? == STEP_JOBS_MAX {
            if !self.leader.leads() {
                return Ok(());
            }
        }
        let (tallies, mut next) = self.tallies_to_walk(&walks.from, usual, longest).await?;
        let mut walked_count = 0;
        for (queue, tally) in tallies {
            let kept = self.settings.of(&queue).retention.or(usual);
            let states = walked(&tally, kept, longest);
            // First from the start, where most are found, then from where the last walk stopped.
            let stopped = walks.stopped.remove(&queue);
            if states.is_empty() {
                continue;
            }
            self.walk(&queue, &states, kept, None, 0).await?;
            if let Some(stopped) = self.walk(&queue, &states, kept, stopped, IDLE_PAGES_MAX).await? {
                walks.stopped.insert(queue.clone(), stopped);
            }
            walked_count += 1;
            if walked_count == WALKS_MAX {
                next = after(&queue);
                break;
            }
        }
        walks.from = next;
        Ok(())
    }

    /// Some queues from this one on that may keep finished jobs for less than the longest retention, and the queue to go on
    /// with.
    async fn tallies_to_walk(
        &self,
        from: &Arc<str>,
        usual: Retention,
        longest: Retention,
    ) -> Result<(Vec<(Arc<str>, Tally)>, Arc<str>), Error> {
        let asked = Queues::From(from.clone(), STEP_QUEUES_MAX);
        // If the default is the longest retention, only queues that have their own can have a shorter one.
        let only = (usual == longest).then(|| self.settings.keeping(from, STEP_QUEUES_MAX));
        let (tallies, next) = match only {
            Some(names) => {
                let next = asked.next(names.iter());
                let named =
                    if names.is_empty() { Vec::new() } else { self.ledger.tallies(Queues::Named(names)).await? };
                (named, next)
            }
            None => {
                let tallies = self.ledger.tallies(asked.clone()).await?;
                let next = asked.next(tallies.iter().map(|(queue, _)| queue));
                (tallies, next)
            }
        };
        let next = match next {
            Some(Queues::From(next, _)) => next,
            _ => Arc::default(),
        };
        Ok((tallies, next))
    }

    /// Removes jobs past retention, page by page, until this many pages had none. Returns the position where it stopped.
    async fn walk(
        &self,
        queue: &Arc<str>,
        states: &[State],
        kept: Retention,
        mut after: Option<String>,
        idle_pages_max: usize,
    ) -> Result<Option<String>, Error> {
        let shortest = states.iter().map(|&state| kept_ms(state, kept)).min().unwrap_or(0);
        let mut idle_pages = 0;
        loop {
            let now = self.broker.now();
            let first = || Place::before_end(now.saturating_sub(shortest)).to_string();
            let find = Find {
                queue: Some(queue.clone()),
                after: Some(after.unwrap_or_else(first)),
                ..Find::of(Selector::State, states.to_vec(), STEP_JOBS_MAX)
            };
            let found = self.ledger.find(find).await?;
            let past = found.jobs.iter().filter(|job| is_past(job, kept, now));
            // A job that was retried by hand meanwhile stays.
            let past: Vec<JobRef> = past.map(|job| JobRef { id: job.id, version: Some(job.version) }).collect();
            if past.is_empty() {
                idle_pages += 1;
            } else {
                drop(self.editor.delete(past).await);
            }
            after = found.next;
            if after.is_none() || idle_pages > idle_pages_max {
                return Ok(after);
            }
        }
    }
}

/// The final states of a queue that are kept for less than the longest time.
fn walked(tally: &Tally, kept: Retention, longest: Retention) -> Vec<State> {
    let mut states = Vec::new();
    if kept.succeeded.0 < longest.succeeded.0 && tally.succeeded + tally.cancelled > 0 {
        states.extend([State::Succeeded, State::Cancelled]);
    }
    if kept.failed.0 < longest.failed.0 && tally.failed > 0 {
        states.push(State::Failed);
    }
    states
}

fn kept_ms(state: State, kept: Retention) -> Millis {
    if state == State::Failed { kept.failed.0 } else { kept.succeeded.0 }
}

fn is_past(job: &Job, kept: Retention, now: Millis) -> bool {
    let end = job.stage.end_state().zip(job.finished_at);
    end.is_some_and(|(state, at)| at.0.saturating_add(kept_ms(state, kept)) <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, QUEUE, job, pass};
    use crate::json::{Span, Timestamp};
    use crate::model::job::{NewJob, Stage};
    use crate::request::{Outcome, QueueRetention, QueueSettings};

    const LONGEST: Retention = Retention { succeeded: Span(10), failed: Span(20) };

    #[tokio::test(start_paused = true)]
    async fn a_queue_may_keep_its_jobs_for_less_than_others_do() {
        let fixture = Fixture::new().await;
        let retention = QueueRetention { succeeded: Some(Span(1_000)), failed: None };
        fixture.services.queues.settings.set(QUEUE.into(), QueueSettings { retention, ..QueueSettings::default() });
        let done = || Outcome::complete(None);
        let short = fixture.running(job()).await;
        let usual = Job { id: crate::testing::fixtures::id(1), queue: "other".into(), ..short.clone() };
        let usual =
            Job { stage: Stage::Succeeded, lease_until: None, finished_at: Some(Timestamp(fixture.now())), ..usual };
        fixture.ledger.record(vec![usual.clone()], 0).await.unwrap();
        fixture.settle(short.receipt(), done()).await.unwrap();
        let waits = fixture.push(NewJob { kind: "waits".into(), ..job() }).await;
        let kept = || fixture.ledger.jobs().into_iter().map(|job| job.id).collect::<Vec<_>>();
        let mut walks = Walks::default();
        pass(Duration::from_millis(999)).await;
        fixture.loops.pruner.prune_once(&mut walks).await.unwrap();
        assert_eq!(kept(), [usual.id, short.id, waits.id]);
        pass(Duration::from_millis(1)).await;
        fixture.loops.pruner.prune_once(&mut walks).await.unwrap();
        assert_eq!(kept(), [usual.id, waits.id]);
    }

    #[test]
    fn a_queue_is_walked_for_the_states_that_it_keeps_for_less() {
        let tally = Tally { succeeded: 1, failed: 1, ..Tally::default() };
        let walked = |succeeded_ms, failed_ms| {
            walked(&tally, Retention { succeeded: Span(succeeded_ms), failed: Span(failed_ms) }, LONGEST)
        };
        assert_eq!(walked(10, 20), []);
        assert_eq!(walked(9, 20), [State::Succeeded, State::Cancelled]);
        assert_eq!(walked(10, 19), [State::Failed]);
        assert_eq!(super::walked(&Tally::default(), Retention { succeeded: Span(0), failed: Span(0) }, LONGEST), []);
    }
}
