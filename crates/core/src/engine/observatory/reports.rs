//! Reports that need a reading of many rows. Each is read in the background, one reading at a time, if somebody asks and the
//! last one is old. Callers wait a little for the new one. If it takes longer, they get the last one.

use crate::api::{DueBucket, DueCounts, FailureGroup, Failures, Timestamp};
use crate::clock::Millis;
use crate::engine::base::Base;
use crate::engine::supervisor::Supervisor;
use crate::error::Error;
use crate::limits::{DAY_MS, HOUR_MS, MINUTE_MS};
use crate::model::name;
use crate::ports;
use crate::ports::{Broker, DueTally, FAILED_MESSAGE_CHARS, FailedJob, Ledger, Queues};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// The number of queues, those with most jobs, that are counted separately by due time.
const QUEUES_MAX: usize = 1_000;
/// Failed jobs that a report reads.
const FAILED_MAX: usize = 1_000;
/// The least time between two readings.
const AGAIN_MIN: Duration = Duration::from_secs(10);
/// The time between two readings, as a multiple of how long the last one took.
const AGAIN_FACTOR: u32 = 20;
/// The least rest between two steps of a reading. Else it is as long as the step took.
const REST_MIN: Duration = Duration::from_millis(1);

/// Longest wait for a new reading of a report. Callers get the last one then; if there is none, they ask again later.
pub const READING_WAIT: Duration = Duration::from_secs(1);

/// The last reading of a report.
struct Report<T> {
    state: Mutex<State<T>>,
    done: Notify,
}

struct State<T> {
    last: Option<Result<Arc<T>, Error>>,
    /// The instant from which a new reading is due.
    again_at: Option<Instant>,
    running_since: Option<Instant>,
    /// How long the last one took.
    took: Duration,
}

impl<T> Default for Report<T> {
    fn default() -> Self {
        let state = Mutex::new(State { last: None, again_at: None, running_since: None, took: Duration::ZERO });
        Self { state, done: Notify::new() }
    }
}

/// Jobs by due time.
struct Due {
    as_of: Millis,
    tally: DueTally,
    /// Whether each queue that has jobs is counted separately.
    has_all_queues: bool,
}

/// Failed jobs.
struct FailureGroups {
    as_of: Millis,
    looked_at: u64,
    groups: Vec<FailureGroup>,
}

/// Reads reports in the background.
pub(in crate::engine) struct Reports {
    reports: Arc<dyn ports::Reports>,
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    due: Report<Due>,
    failed: Report<FailureGroups>,
    supervisor: Arc<Supervisor>,
}

impl Reports {
    pub(in crate::engine) fn new(base: &Base) -> Self {
        let Base { stores, supervisor, .. } = base;
        Self {
            reports: stores.reports.clone(),
            ledger: stores.ledger.clone(),
            broker: stores.broker.clone(),
            due: Report::default(),
            failed: Report::default(),
            supervisor: supervisor.clone(),
        }
    }

    pub(in crate::engine) async fn due_counts(
        self: &Arc<Self>,
        queue: Option<&str>,
        wait: Duration,
    ) -> Result<DueCounts, Error> {
        queue.map_or(Ok(()), name::check_queue)?;
        let due = self.report(|parts| &parts.due, wait, |reports| async move { reports.count_due().await }).await?;
        let queue_name = queue.map(Arc::from);
        let Some(due) = due else { return Ok(DueCounts { queue: queue_name, as_of: None, buckets: None }) };
        let bounds = due.tally.bounds();
        let none = || due.has_all_queues.then(|| vec![0; bounds.len() + 1]);
        let counts = due.tally.of(queue).map(<[u64]>::to_vec).or_else(none);
        let bucket = |(place, jobs): (usize, u64)| DueBucket {
            from: place.checked_sub(1).map(|before| Timestamp(bounds[before] + 1)),
            to: bounds.get(place).copied().map(Timestamp),
            jobs,
        };
        let buckets = counts.map(|counts| counts.into_iter().enumerate().map(bucket).collect());
        Ok(DueCounts { queue: queue_name, as_of: Some(Timestamp(due.as_of)), buckets })
    }

    async fn count_due(&self) -> Result<Due, Error> {
        let (queues, has_all_queues) = self.largest_queues().await?;
        let as_of = self.broker.now();
        let mut tally = DueTally::new(bounds(as_of), queues);
        let mut after = None;
        loop {
            let begin = Instant::now();
            (tally, after) = self.reports.due(tally, after).await?;
            if after.is_none() {
                return Ok(Due { as_of, tally, has_all_queues });
            }
            rest(begin).await;
        }
    }

    /// The queues with most jobs that have not ended, and whether there are no others.
    async fn largest_queues(&self) -> Result<(Vec<Arc<str>>, bool), Error> {
        let (mut largest, mut has_all) = (BinaryHeap::new(), true);
        let mut asked = Some(Queues::first());
        while let Some(queues) = asked {
            let begin = Instant::now();
            let tallies = self.ledger.tallies(queues.clone()).await?;
            asked = queues.next(tallies.iter().map(|(queue, _)| queue));
            for (queue, tally) in tallies.into_iter().filter(|(_, tally)| tally.pending > 0) {
                largest.push(Reverse((tally.pending, queue)));
                if largest.len() > QUEUES_MAX {
                    largest.pop();
                    has_all = false;
                }
            }
            rest(begin).await;
        }
        Ok((largest.into_iter().map(|Reverse((_, queue))| queue).collect(), has_all))
    }

    /// The last reading of a report. If that is old, starts a new one and waits this long for it.
    async fn report<T, F>(
        self: &Arc<Self>,
        report: fn(&Self) -> &Report<T>,
        wait: Duration,
        read: impl FnOnce(Arc<Self>) -> F,
    ) -> Result<Option<Arc<T>>, Error>
    where
        T: Send + Sync + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.supervisor.check_open()?;
        let Report { state, done } = report(self);
        let lock = || state.lock().expect("no panic under this lock");
        let done = done.notified();
        tokio::pin!(done);
        done.as_mut().enable();
        let until = {
            let mut state = lock();
            if state.running_since.is_none() && state.again_at.is_none_or(|at| at <= Instant::now()) {
                state.running_since = Some(Instant::now());
                self.read_in_background(report, read(self.clone()));
            }
            match &state.last {
                // Nobody waits for one that probably takes too long.
                Some(Ok(last)) if state.running_since.is_none() || state.took >= wait => return Ok(Some(last.clone())),
                Some(Err(error)) if state.running_since.is_none() => return Err(error.clone()),
                _ => {}
            }
            state.running_since.unwrap_or_else(Instant::now) + wait
        };
        // Without an answer in time there is only the last one.
        let _ = tokio::time::timeout_at(until, done).await;
        lock().last.clone().transpose()
    }

    fn read_in_background<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        report: fn(&Self) -> &Report<T>,
        read: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        let reports = self.clone();
        self.supervisor.spawn(async move {
            let read = async {
                let begin = Instant::now();
                // In a task, so that a panic ends only this reading.
                (AbortOnDropHandle::new(reports.supervisor.spawn(read)).await, begin.elapsed())
            };
            let Some((read, took)) = reports.supervisor.stopping().run_until_cancelled(read).await else { return };
            let Report { state, done } = report(&reports);
            let mut state = state.lock().expect("no panic under this lock");
            state.running_since = None;
            state.took = took;
            state.again_at = Some(Instant::now() + AGAIN_MIN.max(took * AGAIN_FACTOR));
            let read = read.unwrap_or_else(|panic| {
                tracing::error!(%panic, "reading a report failed; this is a bug");
                Err(Error::Unavailable("a report cannot be read; trying again".to_owned()))
            });
            match read {
                Ok(read) => state.last = Some(Ok(Arc::new(read))),
                Err(error) => {
                    tracing::debug!(%error, "a report cannot be read; trying again");
                    // An old reading is better than none.
                    if !matches!(state.last, Some(Ok(_))) {
                        state.last = Some(Err(error));
                    }
                }
            }
            done.notify_waiters();
        });
    }
}

/// Leaves as much time to others as a step took.
async fn rest(begin: Instant) {
    tokio::time::sleep(begin.elapsed().max(REST_MIN)).await;
}

/// The bounds: now, then each minute of an hour, each hour of a day, and each of 30 days.
fn bounds(now: Millis) -> Vec<Millis> {
    let minutes = (0..=60).map(|minute| minute * MINUTE_MS);
    let hours = (2..=24).map(|hour| hour * HOUR_MS);
    let days = (2..=30).map(|day| day * DAY_MS);
    minutes.chain(hours).chain(days).map(|ms| now + ms).collect()
}

impl Reports {
    pub(in crate::engine) async fn failures(
        self: &Arc<Self>,
        queue: Option<&str>,
        wait: Duration,
    ) -> Result<Failures, Error> {
        queue.map_or(Ok(()), name::check_queue)?;
        let failed =
            self.report(|parts| &parts.failed, wait, |reports| async move { reports.read_failed().await }).await?;
        let Some(failed) = failed else { return Ok(Failures { as_of: None, looked_at: 0, groups: None }) };
        let groups = failed.groups.iter().filter(|group| queue.is_none_or(|queue| *queue == *group.queue)).cloned();
        Ok(Failures {
            as_of: Some(Timestamp(failed.as_of)),
            looked_at: failed.looked_at,
            groups: Some(groups.collect()),
        })
    }

    async fn read_failed(&self) -> Result<FailureGroups, Error> {
        let as_of = self.broker.now();
        let jobs = self.reports.failed(FAILED_MAX).await?;
        let looked_at = jobs.len() as u64;
        let mut groups: HashMap<(Arc<str>, Arc<str>, String), FailureGroup> = HashMap::new();
        for FailedJob { id, queue, kind, message, finished_at } in jobs {
            let (message, at) = (pattern(&message), Timestamp(finished_at));
            let group =
                groups.entry((queue, kind, message)).or_insert_with_key(|(queue, kind, message)| FailureGroup {
                    queue: queue.clone(),
                    kind: kind.clone(),
                    message: message.clone(),
                    jobs: 0,
                    last_hour: 0,
                    first: at,
                    latest: at,
                    job: id,
                    ids: Vec::new(),
                });
            // They come latest first.
            (group.jobs, group.first) = (group.jobs + 1, at);
            group.last_hour += u64::from(as_of.saturating_sub(finished_at) <= HOUR_MS);
            group.ids.push(id);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_unstable_by_key(|group| (Reverse(group.latest), Reverse(group.job)));
        Ok(FailureGroups { as_of, looked_at, groups })
    }
}

/// Words before a small number that says what happened, and so does not differ from job to job.
const BEFORE_CODES: [&str; 7] = ["http", "status", "code", "error", "errno", "signal", "exit"];
/// Digits from which on a number is no such code.
const DIGITS_MANY: usize = 4;

/// The first line of a message, with `#` for words that differ from job to job: numbers, ids and times. The number of an HTTP
/// status or of an exit status stays.
fn pattern(message: &str) -> String {
    let line = message.trim_start().lines().next().unwrap_or_default();
    let is_of_word = |letter: char| letter.is_alphanumeric() || "-:.+_".contains(letter);
    let mut shown = String::new();
    let mut rest = line.trim_end();
    let mut is_code_next = false;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len()));
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let consists_of = |others: &str, is_digit: fn(&char) -> bool| {
            word.chars().all(|letter| is_digit(&letter) || others.contains(letter))
        };
        let is_short = digits > 0 && consists_of("-:.+", char::is_ascii_digit);
        let is_long = digits >= DIGITS_MANY && consists_of("-:.+TZx", char::is_ascii_hexdigit);
        let bare = word.trim_end_matches([':', '.']);
        if is_long || is_short && !is_code_next {
            shown.push('#');
            shown += &word[bare.len()..];
        } else {
            shown += word;
        }
        if !is_short && !word.is_empty() {
            is_code_next = BEFORE_CODES.contains(&&*bare.to_ascii_lowercase());
        }
        let gap = after.find(is_of_word).unwrap_or(after.len());
        shown += &after[..gap];
        rest = &after[gap..];
    }
    match shown.char_indices().nth(FAILED_MESSAGE_CHARS) {
        Some((end, _)) => shown[..end].to_owned(),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_numbers_have_one_pattern() {
        for (message, shown) in [
            ("order 202010250100 is gone", "order # is gone"),
            ("HTTP 503: busy", "HTTP 503: busy"),
            ("HTTP/1.1 404 for 93", "HTTP/1.1 404 for #"),
            ("exit status 7: n 93 is bad", "exit status 7: n # is bad"),
            ("order 7: gone at 12345.", "order #: gone at #."),
            ("Error code: 12, at line 7", "Error code: 12, at line #"),
            ("5 of 10 (3.5 s, -1) in f2", "# of # (# s, #) in f2"),
            ("user 4bf92f35-77b3-4da6-a3ce-929d0e0e4736 (größe 12)", "user # (größe #)"),
            ("at 2026-11-20T10:00:00.250Z, 10.0.0.17:8080 refused", "at #, # refused"),
            ("\n  first\nsecond 12345", "first"),
            ("code1234 0x7ffd1234 v1.2.3-beta 日本語12345", "code1234 # v1.2.3-beta 日本語12345"),
            ("", ""),
        ] {
            assert_eq!(pattern(message), shown);
        }
        assert_eq!(pattern(&"ä".repeat(300)), "ä".repeat(FAILED_MESSAGE_CHARS));
    }
}
