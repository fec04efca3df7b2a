//! The problems that an operator should look at. Only this file decides them: pages, commands and metrics show its list.
//!
//! The list is made if somebody asks and the last one is older than a second. That costs one count of at most 200 queues.
//! Other queues, failures and schedules are read in the background, or less often. If the store does not answer, the list has
//! what this process knows by itself.

use super::census::Census;
use super::history::History;
use super::reports::Reports;
use super::runs::Runs;
use crate::api::{self, AttentionItem, AttentionKind as Kind, DegradedCode, FailureGroup, Health, Timestamp};
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::consumers::Consumers;
use crate::engine::queues::{Gate, Settings};
use crate::error::Error;
use crate::json::{Span, about};
use crate::limits::{MINUTE_MS, SECOND_MS};
use crate::ports::Broker;
use crate::request::{Lately, QueueStatus};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The age up to which a list is shown again.
const AGE_MS_MAX: u64 = SECOND_MS;
/// Items of a kind that are listed.
const ITEMS_MAX: usize = 20;
/// Paused queues that are examined.
const PAUSED_MAX: usize = 200;
/// Jobs that start or wait this late need attention.
pub(in crate::engine) const LATE_MS: u64 = 10 * SECOND_MS;
/// A queue without a request for this long has no worker: it is the longest wait of a reserve.
const NO_WORKER_MS: u64 = MINUTE_MS;
/// What the message of an [`Error::Unavailable`] says.
const UNAVAILABLE: &str = "the store is unavailable";
/// How long a list waits for its parts from the store.
const STORE_WAIT: Duration = Duration::from_secs(2);
/// How long a list waits for a first reading of the failures.
const FAILURES_WAIT: Duration = Duration::from_millis(200);

/// A target that takes no jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDown {
    /// Since when.
    pub since: Millis,
    /// The reason of its last refusal, or of the failed connection.
    pub message: String,
}

/// A list, and what it was made from.
#[derive(Default)]
struct Snapshot {
    as_of: Millis,
    items: Vec<AttentionItem>,
    /// How long the oldest ready job of each queue has waited, unless it is paused.
    waits: Vec<(Arc<str>, u64)>,
    /// Paused queues that were not examined.
    omitted: usize,
}

/// Makes the list.
pub(in crate::engine) struct Watch {
    broker: Arc<dyn Broker>,
    settings: Arc<Settings>,
    gate: Arc<Gate>,
    consumers: Arc<Consumers>,
    census: Arc<Census>,
    history: Arc<History>,
    reports: Arc<Reports>,
    runs: Runs,
    targets_down: Mutex<BTreeMap<Arc<str>, TargetDown>>,
    /// One makes it for all who ask.
    last: tokio::sync::Mutex<Option<Arc<Snapshot>>>,
}

impl Watch {
    pub(super) fn new(
        base: &Base,
        (settings, gate): (Arc<Settings>, Arc<Gate>),
        consumers: Arc<Consumers>,
        (census, history, reports): (Arc<Census>, Arc<History>, Arc<Reports>),
    ) -> Self {
        Self {
            broker: base.stores.broker.clone(),
            settings,
            gate,
            consumers,
            census,
            history,
            reports,
            runs: Runs::new(base),
            targets_down: Mutex::default(),
            last: tokio::sync::Mutex::default(),
        }
    }

    /// The target of a queue does not answer this process, or answers again.
    pub(in crate::engine) fn set_target_down(&self, queue: &Arc<str>, down: Option<TargetDown>) {
        let mut all = self.targets_down.lock().unwrap_or_else(PoisonError::into_inner);
        match down {
            Some(down) => drop(all.insert(queue.clone(), down)),
            None => drop(all.remove(queue)),
        }
    }

    /// The targets that do not answer this process, by queue.
    pub(in crate::engine) fn targets_down(&self) -> BTreeMap<Arc<str>, TargetDown> {
        self.targets_down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds to queues what this process did for them lately.
    pub(in crate::engine) fn add_lately(&self, queues: &mut [QueueStatus]) {
        let (workers, starts, down) = (self.consumers.by_queue(), self.history.lately(), self.targets_down());
        for status in queues {
            let starts = starts.get(&status.queue).copied().unwrap_or_default();
            status.lately = Lately {
                workers: workers.get(&status.queue).copied().unwrap_or(0),
                started: starts.started,
                lateness_p99: starts.late_ms.map(Span),
                target_down_since: down.get(&status.queue).map(|down| Timestamp(down.since)),
            };
        }
    }

    /// The list, without queues that the caller may not read.
    pub(in crate::engine) async fn list(&self, health: &Health, may_read: impl Fn(&str) -> bool) -> api::Attention {
        let made = self.made().await;
        let wait = made.waits.iter().filter(|(queue, _)| may_read(queue)).map(|&(_, ms)| ms).max();
        let mut items = of_health(health, self.broker.is_ledger());
        // Health says more about a store that does not answer than that no queues can be read.
        let is_told = items.iter().any(is_unavailable);
        let others = made.items.iter().filter(|item| !(is_told && is_unavailable(item)));
        items.extend(others.filter(|item| item.queue.as_deref().is_none_or(&may_read)).cloned());
        items.sort_by_key(|item| item.kind);
        let mut listed: BTreeMap<Kind, usize> = BTreeMap::new();
        let all = items.len();
        items.retain(|item| {
            let count = listed.entry(item.kind).or_default();
            *count += 1;
            *count <= ITEMS_MAX
        });
        let omitted = (all - items.len() + made.omitted) as u64;
        for item in &mut items {
            item.detail = sentence(item, made.as_of);
        }
        api::Attention { as_of: Timestamp(made.as_of), longest_wait: Span(wait.unwrap_or(0)), items, omitted }
    }

    async fn made(&self) -> Arc<Snapshot> {
        let mut last = self.last.lock().await;
        let now = self.broker.now();
        if let Some(made) = last.as_ref().filter(|made| now.abs_diff(made.as_of) < AGE_MS_MAX) {
            return made.clone();
        }
        last.insert(Arc::new(self.make(now).await)).clone()
    }

    async fn make(&self, now: Millis) -> Snapshot {
        let mut made = Snapshot { as_of: now, ..Snapshot::default() };
        let down = self.targets_down();
        match within(self.census.queues()).await {
            Ok(queues) => self.look_at(&queues, &down, &mut made),
            Err(error) => {
                let down = down.iter().map(|(queue, down)| self.target_down(queue, down, 0));
                made.items.extend(down);
                made.items.push(AttentionItem {
                    code: Some(DegradedCode::Unknown),
                    message: Some(format!("the queues cannot be read: {error}")),
                    ..AttentionItem::new(Kind::Degraded)
                });
            }
        }
        made.items.extend(self.gate.full().into_iter().map(|(queue, refusals)| AttentionItem {
            jobs: Some(refusals.jobs),
            since: Some(Timestamp(refusals.since)),
            limit: self.settings.waiting_limit(&queue).map(|limit| limit.max),
            queue: Some(queue),
            ..AttentionItem::new(Kind::Full)
        }));
        if let Ok(failures) = within(self.reports.failures(None, FAILURES_WAIT)).await {
            let new = failures.groups.into_iter().flatten().filter(|group| group.last_hour > 0);
            let mut new: Vec<_> = new.map(dead_letters).collect();
            new.sort_by_key(|item| std::cmp::Reverse(item.jobs));
            made.items.extend(new);
        }
        made.items.extend(within(self.runs.failed()).await.unwrap_or_default());
        made
    }

    /// What is wrong with queues.
    fn look_at(&self, queues: &[QueueStatus], down: &BTreeMap<Arc<str>, TargetDown>, made: &mut Snapshot) {
        let (now, lately) = (made.as_of, self.history.lately());
        let ready = |queue: &str| queues.iter().find(|status| *status.queue == *queue).map_or(0, |of| of.counts.ready);
        made.items.extend(down.iter().map(|(queue, down)| self.target_down(queue, down, ready(queue))));
        let mut late = Vec::new();
        for status in queues.iter().filter(|status| !status.settings.paused) {
            let wait_ms = status.counts.oldest_due.map_or(0, |at| now.saturating_sub(at.0));
            made.waits.push((status.queue.clone(), wait_ms));
            if !down.contains_key(&status.queue) {
                let late_ms = lately.get(&status.queue).and_then(|starts| starts.late_ms).unwrap_or(0);
                late.extend(self.late(status, wait_ms, late_ms, now));
            }
        }
        late.sort_by_key(|item| std::cmp::Reverse(item.lateness));
        made.items.extend(late);
        // Without an end, or while jobs wait.
        let (paused, all) = self.settings.paused(PAUSED_MAX);
        made.omitted = all - paused.len();
        let forgotten = paused.into_iter().map(|(queue, settings)| (ready(&queue), queue, settings));
        let forgotten = forgotten.filter(|(ready, _, settings)| settings.paused_until.is_none() || *ready > 0);
        made.items.extend(forgotten.map(|(ready, queue, settings)| AttentionItem {
            queue: Some(queue),
            jobs: Some(ready).filter(|&ready| ready > 0),
            since: settings.paused_at,
            until: settings.paused_until,
            by: settings.paused_by.clone(),
            ..AttentionItem::new(Kind::Paused)
        }));
    }

    fn target_down(&self, queue: &Arc<str>, down: &TargetDown, ready: u64) -> AttentionItem {
        AttentionItem {
            queue: Some(queue.clone()),
            target: self.target_of(queue),
            jobs: Some(ready).filter(|&ready| ready > 0),
            since: Some(Timestamp(down.since)),
            message: Some(down.message.clone()),
            ..AttentionItem::new(Kind::TargetDown)
        }
    }

    /// The target of a queue, without secrets.
    fn target_of(&self, queue: &str) -> Option<String> {
        self.settings.of(queue).target.as_ref().map(|target| target.masked().place())
    }

    /// Whether jobs of a queue wait or start late, and why.
    fn late(&self, status: &QueueStatus, wait_ms: u64, late_ms: u64, now: Millis) -> Option<AttentionItem> {
        let (counts, settings) = (&status.counts, &status.settings);
        let lateness = wait_ms.max(late_ms);
        if lateness < LATE_MS {
            return None;
        }
        let item = AttentionItem {
            queue: Some(status.queue.clone()),
            jobs: Some(counts.ready),
            since: counts.oldest_due.filter(|_| wait_ms >= LATE_MS),
            lateness: Some(Span(lateness)),
            target: self.target_of(&status.queue),
            limit: settings.max_running.filter(|&max| counts.running >= u64::from(max)),
            ..AttentionItem::new(Kind::Late)
        };
        let waits = wait_ms >= LATE_MS && counts.running == 0 && settings.target.is_none();
        Some(if waits && !self.is_asked_for(&status.queue, now) {
            AttentionItem { kind: Kind::NoWorker, lateness: None, limit: None, ..item }
        } else {
            item
        })
    }

    /// Whether workers ask this process for jobs of a queue.
    fn is_asked_for(&self, queue: &str, now: Millis) -> bool {
        self.consumers.waiting.at_queues.count(queue) > 0
            || match self.consumers.requests.last(queue) {
                Ok(last) => now.saturating_sub(last) < NO_WORKER_MS,
                // After a start, workers come back soon.
                Err(since) => now.saturating_sub(since) < LATE_MS,
            }
    }
}

/// A part from the store, unless that takes too long.
async fn within<T>(part: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Err(Error::Unavailable("the store has not answered in time".to_owned()));
    tokio::time::timeout(STORE_WAIT, part).await.unwrap_or_else(late)
}

/// Whether it says that a store does not answer.
fn is_unavailable(item: &AttentionItem) -> bool {
    let is_degraded = item.kind == Kind::Degraded && item.queue.is_none();
    is_degraded && item.message.as_deref().is_some_and(|message| message.contains(UNAVAILABLE))
}

/// One item for a store that does not answer: the first of the parts that need it, with the longest of their reasons.
fn once(parts: Vec<AttentionItem>, is_one_store: bool) -> Vec<AttentionItem> {
    // What only the broker does fails with it, whatever its reason.
    let of_broker = |code| {
        matches!(code, Some(DegradedCode::BrokerUnavailable | DegradedCode::CrashedJobs | DegradedCode::Comparing))
    };
    let mut told: Vec<AttentionItem> = Vec::new();
    for part in parts {
        let is_same = |known: &&mut AttentionItem| {
            let is_of_broker = of_broker(part.code) && of_broker(known.code);
            is_unavailable(known) && (is_one_store || is_of_broker || known.message == part.message)
        };
        match told.iter_mut().find(is_same).filter(|_| is_unavailable(&part)) {
            Some(known) if known.message.as_ref().map(String::len) < part.message.as_ref().map(String::len) => {
                known.message = part.message;
            }
            Some(_) => {}
            None => told.push(part),
        }
    }
    told
}

fn of_health(health: &Health, is_one_store: bool) -> Vec<AttentionItem> {
    let is_unexplained = !health.ready && health.degraded.is_empty();
    let unexplained = is_unexplained.then(|| AttentionItem::new(Kind::NotReady));
    let degraded = health.degraded.iter().map(|part| AttentionItem {
        code: Some(part.code),
        message: part.error.clone(),
        ..AttentionItem::new(if part.code == DegradedCode::Clock { Kind::Clock } else { Kind::Degraded })
    });
    unexplained.into_iter().chain(once(degraded.collect(), is_one_store)).collect()
}

fn dead_letters(group: FailureGroup) -> AttentionItem {
    AttentionItem {
        queue: Some(group.queue),
        job_kind: Some(group.kind),
        job: Some(group.job),
        jobs: Some(group.last_hour),
        since: Some(group.latest),
        message: Some(group.message),
        ..AttentionItem::new(Kind::DeadLetters)
    }
}

/// An item in English.
fn sentence(item: &AttentionItem, now: Millis) -> String {
    let queue = item.queue.as_deref().unwrap_or_default();
    let since = item.since.map_or(0, |since| now.saturating_sub(since.0));
    let jobs = item.jobs.unwrap_or(0);
    let (noun, wait) = if jobs == 1 { ("job", "waits") } else { ("jobs", "wait") };
    let waiting = format!("{jobs} {noun} {wait}");
    let message = item.message.as_deref().unwrap_or_default();
    let target = item.target.as_deref().unwrap_or_default();
    match item.kind {
        Kind::NotReady => "This server hands out no jobs.".to_owned(),
        Kind::Degraded | Kind::Clock => {
            let what = item.code.unwrap_or(DegradedCode::Unknown).detail();
            if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") }
        }
        Kind::TargetDown => {
            let waiting = if jobs > 0 { format!("; {waiting}") } else { String::new() };
            format!("{queue}: {target} has taken no job for {}{waiting}: {message}", about(since))
        }
        Kind::NoWorker => format!("{queue}: {waiting}, the oldest for {}; no worker asks this server", about(since)),
        Kind::Late if item.since.is_none() => {
            let late = about(item.lateness.map_or(0, |lateness| lateness.0));
            format!("{queue}: jobs started up to {late} late within the last two minutes")
        }
        Kind::Late => {
            let why = match item.limit {
                Some(limit) => format!("its `max_running` of {limit} is reached"),
                None if item.target.is_some() => format!("{target} does not keep up"),
                None => "its workers do not keep up".to_owned(),
            };
            format!("{queue}: {waiting}, the oldest for {}; {why}", about(since))
        }
        Kind::Full => {
            let limit = item.limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
            let (noun, find) = if jobs == 1 { ("job", "has") } else { ("jobs", "have") };
            format!(
                "{queue}: its `max_waiting`{limit} was reached; {jobs} new {noun} {find} found no place in {}",
                about(since)
            )
        }
        Kind::DeadLetters => format!("{queue}: {jobs} failed within the last hour: {message}"),
        Kind::ScheduleFailed => {
            let name = item.schedule.as_deref().unwrap_or_default();
            format!("The last run of the schedule {name} failed, {} ago: {message}", about(since))
        }
        Kind::Paused => {
            let since = if item.since.is_some() { format!(" for {}", about(since)) } else { String::new() };
            let by = item.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
            let until = item.until.map_or("without an end".to_owned(), |until| format!("until {until}"));
            let waiting = if jobs > 0 { format!("; {waiting}") } else { String::new() };
            format!("{queue}: paused{since}{by}, {until}{waiting}")
        }
        Kind::Unknown => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Degraded;
    use crate::engine::tests::{Fixture, QUEUE, job, pass};
    use crate::json::Timestamp;
    use crate::model::job::{Due, NewJob};
    use crate::request::{Outcome, Pause, QueueSettings};
    use crate::rules::Failure;
    use crate::schedule::{Schedule, Timing};

    async fn list(fixture: &Fixture) -> api::Attention {
        let services = &fixture.services;
        services.observatory.watch.list(&services.vitals.health(), |_| true).await
    }

    /// Lets this many seconds pass, and returns the sentences of the list.
    async fn wrong_after(fixture: &Fixture, seconds: u64) -> Vec<String> {
        pass(Duration::from_secs(seconds)).await;
        list(fixture).await.items.into_iter().map(|item| item.detail).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_without_a_worker_and_with_slow_ones_are_named() {
        let fixture = Fixture::new().await;
        assert_eq!(wrong_after(&fixture, 60).await, [""; 0]);
        fixture.push(job()).await;
        assert_eq!(wrong_after(&fixture, 9).await, [""; 0], "a worker may come");
        assert_eq!(list(&fixture).await.longest_wait, Span(9_000));
        let wrong = wrong_after(&fixture, 1).await;
        assert_eq!(wrong, ["default: 1 job waits, the oldest for 10s; no worker asks this server"]);
        let running = fixture.lease(1).await.remove(0);
        let wrong = wrong_after(&fixture, 1).await;
        assert_eq!(wrong, ["default: jobs started up to 10s late within the last two minutes"]);
        let mut queues = fixture.services.queues.counter.queues().await.unwrap();
        fixture.services.observatory.watch.add_lately(&mut queues);
        let Lately { started, lateness_p99, .. } = queues[0].lately;
        assert_eq!((started, lateness_p99), (1, Some(Span(10_000))));
        fixture.settle(running.receipt(), Outcome::complete(None)).await.unwrap();
        assert_eq!(wrong_after(&fixture, 120).await, [""; 0]);
        for _ in 0..3 {
            fixture.push(job()).await;
        }
        fixture.lease(1).await;
        let wrong = wrong_after(&fixture, 30).await;
        assert_eq!(wrong, ["default: 2 jobs wait, the oldest for 30s; its workers do not keep up"]);
        let settings = QueueSettings { max_running: Some(1), ..QueueSettings::default() };
        fixture.services.queues.settings.configure(QUEUE, settings).await.unwrap();
        let wrong = wrong_after(&fixture, 2).await;
        assert_eq!(wrong, ["default: 2 jobs wait, the oldest for 32s; its `max_running` of 1 is reached"]);
    }

    /// A due time of years ago does not make a job wait for years.
    #[tokio::test(start_paused = true)]
    async fn a_job_waits_since_it_was_pushed_if_it_was_due_before() {
        let fixture = Fixture::new().await;
        wrong_after(&fixture, 60).await;
        fixture.push(NewJob { due: Due::At(Timestamp(1_500_000_000_000)), ..job() }).await;
        assert_eq!(wrong_after(&fixture, 5).await, [""; 0]);
        assert_eq!(list(&fixture).await.longest_wait, Span(5_000));
        fixture.lease(1).await;
        assert_eq!(wrong_after(&fixture, 2).await, [""; 0], "and it did not start late");
    }

    #[tokio::test(start_paused = true)]
    async fn paused_queues_are_named_if_they_have_no_end_or_jobs_wait() {
        let fixture = Fixture::new().await;
        let pause = |queue: &'static str, pause, by: Option<&str>| {
            let by = by.map(Arc::from);
            let settings = fixture.services.queues.settings.clone();
            async move { settings.pause(queue, pause, by).await.unwrap() }
        };
        pause("forgotten", Pause::UntilResumed, Some("anna")).await;
        pause("planned", Pause::For(Span(3_600_000)), None).await;
        assert_eq!(wrong_after(&fixture, 90).await, ["forgotten: paused for 1m 30s by anna, without an end"]);
        pause("forgotten", Pause::UntilResumed, Some("bert")).await;
        fixture.push(NewJob { queue: "planned".into(), ..job() }).await;
        let until = Timestamp(fixture.now() - 90_000 + 3_600_000);
        let expected = [
            "forgotten: paused for 1m 40s by bert, without an end".to_owned(),
            format!("planned: paused for 1m 40s, until {until}; 1 job waits"),
        ];
        assert_eq!(wrong_after(&fixture, 10).await, expected, "the pause goes on; its job does not count as late");
        assert_eq!(list(&fixture).await.longest_wait, Span(0));
    }

    #[tokio::test(start_paused = true)]
    async fn dead_letters_are_named_for_an_hour_and_targets_until_they_answer() {
        let fixture = Fixture::new().await;
        let fail = Failure { message: "no address 4711".into(), is_final: true, retry_after: None };
        for _ in 0..2 {
            let running = fixture.running(job()).await;
            fixture.settle(running.receipt(), Outcome::Fail(fail.clone())).await.unwrap();
        }
        list(&fixture).await;
        assert_eq!(wrong_after(&fixture, 2).await, ["default: 2 failed within the last hour: no address #"]);
        let watch = &fixture.services.observatory.watch;
        let down = TargetDown { since: fixture.now() - 1_000, message: "connection refused".to_owned() };
        let target = r#"{"target": {"url": "http://user:secret@hooks.example/in?token=secret"}}"#;
        let settings: QueueSettings = serde_json::from_str(target).unwrap();
        fixture.services.queues.settings.configure(QUEUE, settings).await.unwrap();
        watch.set_target_down(&QUEUE.into(), Some(down));
        let wrong = wrong_after(&fixture, 2).await;
        assert!(
            wrong[0].starts_with("default: http://***@hooks.example/in?*** has taken no job for 3s: connection"),
            "{wrong:?}"
        );
        assert!(!wrong[0].contains("secret") && wrong.len() == 2, "{wrong:?}");
        watch.set_target_down(&QUEUE.into(), None);
        pass(Duration::from_secs(3_600)).await;
        list(&fixture).await;
        assert_eq!(wrong_after(&fixture, 2).await, [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_schedule_whose_last_run_failed_is_named() {
        let fixture = Fixture::new().await;
        let schedules = &fixture.services.schedules;
        let schedule = Schedule::new(Timing::Every(Span(60_000)), job());
        schedules.set_schedule("nightly", schedule).await.unwrap();
        pass(Duration::from_secs(61)).await;
        let ticking = schedules.clone();
        let ticks = tokio::spawn(async move { ticking.tick_schedules().await });
        pass(Duration::from_secs(1)).await;
        let fail = |is_final: bool, message: &str| {
            let retry_after = Some(Span(1_000)).filter(|_| !is_final);
            Outcome::Fail(Failure { message: message.into(), is_final, retry_after })
        };
        let lease = async || fixture.lease(1).await.remove(0).receipt();
        let named = async |seconds| {
            let wrong = wrong_after(&fixture, seconds).await;
            wrong.into_iter().filter(|wrong| wrong.starts_with("The last run")).collect::<Vec<_>>()
        };
        fixture.settle(lease().await, fail(true, "no disk")).await.unwrap();
        assert_eq!(named(12).await, ["The last run of the schedule nightly failed, 12s ago: no disk"]);
        pass(Duration::from_secs(46)).await;
        for attempt in 1..=3 {
            let run = lease().await;
            let named = named(11).await;
            assert!(named.len() == 1 && named[0].ends_with(": no disk"), "attempt {attempt}, not over: {named:?}");
            fixture.settle(run, fail(false, "no net")).await.unwrap();
            pass(Duration::from_secs(2)).await;
        }
        assert_eq!(named(11).await, ["The last run of the schedule nightly failed, 13s ago: no net"]);
        let done = || Outcome::complete(None);
        fixture.settle(lease().await, done()).await.unwrap();
        assert_eq!(named(11).await, [""; 0]);
        // Whenever somebody looks, the next run is there already.
        for (outcome, expected) in [(fail(true, "no ink"), "no ink"), (done(), ""), (fail(true, "no oil"), "no oil")] {
            fixture.settle(lease().await, outcome).await.unwrap();
            let named = named(60).await;
            assert!(named.first().map_or("", |named| named.as_str()).ends_with(expected), "{expected:?}: {named:?}");
            assert_eq!(named.is_empty(), expected.is_empty());
        }
        ticks.abort();
    }

    #[test]
    fn a_store_that_does_not_answer_is_told_once() {
        let away = |cause: &str| Some(Error::Unavailable(cause.to_owned()).to_string());
        let part = |code, error| Degraded { code, detail: String::new(), error };
        let told = |parts: &[(DegradedCode, Option<String>)], is_one_store| {
            let degraded = parts.iter().map(|(code, error)| part(*code, error.clone())).collect();
            let items = of_health(&Health { degraded, ..Health::default() }, is_one_store);
            items.into_iter().map(|item| (item.code.unwrap(), item.message)).collect::<Vec<_>>()
        };
        let (redis, sql) = (away("redis://a:1/0: connection refused"), away("mysql://b:2/c: timed out"));
        let broker = (DegradedCode::BrokerUnavailable, away("no answer"));
        let all = [
            broker.clone(),
            (DegradedCode::CrashedJobs, redis.clone()),
            (DegradedCode::Recording, sql.clone()),
            (DegradedCode::Loading, sql.clone()),
            (DegradedCode::StoreFull, None),
            (DegradedCode::Clock, Some("they are 9s apart".to_owned())),
        ];
        let rest = &all[4..];
        let first = (DegradedCode::BrokerUnavailable, redis);
        let beside = [&[first.clone(), (DegradedCode::Recording, sql)], rest].concat();
        assert_eq!(told(&all, false), beside, "a broker and a ledger are two stores");
        let alone = [&[broker, all[1].clone()], rest].concat();
        assert_eq!(told(&alone, true), [&[first], rest].concat());
        assert_eq!(told(rest, true), rest);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_sees_only_queues_that_it_may_read() {
        let fixture = Fixture::new().await;
        for queue in ["mine", "other"] {
            fixture.services.queues.settings.pause(queue, Pause::UntilResumed, None).await.unwrap();
        }
        let list = fixture
            .services
            .observatory
            .watch
            .list(&Health { ready: true, ..Health::default() }, |queue| queue == "mine")
            .await;
        let queues: Vec<_> = list.items.iter().map(|item| item.queue.as_deref()).collect();
        assert_eq!(queues, [Some("mine")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_without_the_store_has_what_the_process_knows() {
        let fixture = Fixture::new().await;
        fixture.ledger.set_away(true);
        let down = TargetDown { since: fixture.now(), message: "timeout".to_owned() };
        fixture.services.observatory.watch.set_target_down(&QUEUE.into(), Some(down));
        let kinds: Vec<Kind> = list(&fixture).await.items.iter().map(|item| item.kind).collect();
        assert_eq!(kinds, [Kind::Degraded, Kind::TargetDown]);
    }
}
