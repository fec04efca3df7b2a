//! The inbox: jobs that applications insert into the ledger's database, or into a SQLite file of their own, within their own
//! transactions.
//!
//! The leader looks for such rows, and moves each into the ledger's jobs in one transaction. Jobs that are due soon are put
//! into the broker at once; if that fails, the loader does it. An invalid row is marked with the reason and does not delay
//! others. Whichever process crashes when, a committed row becomes exactly one job.
//!
//! Rows of a full queue wait in their table. They are passed over, so that they delay no others: rows that come after them are
//! looked at first, and one page of the passed ones is looked at again each time.

use super::documents::document;
use crate::api::{DegradedCode, Object, Push, Unread, read};
use crate::clock::Millis;
use crate::engine::admission::{Admission, Producer};
use crate::engine::base::Base;
use crate::engine::ids::Ids;
use crate::engine::intake::{Intake, conflict, repeated};
use crate::engine::leader::Leader;
use crate::engine::metrics::Metrics;
use crate::engine::queues::Entry;
use crate::engine::status::Status;
use crate::engine::supervisor::Supervisor;
use crate::error::Error;
use crate::invalid::Invalid;
use crate::json::{Span, Timestamp};
use crate::limits::{DELAY_MS_MAX, PRIORITY_DEFAULT, STEP_JOBS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Due, Job, NewJob, OnConflict};
use crate::ports::{ADOPTED, Admitted, Broker, INBOX_TEXT_MAX, Inbox, InboxRow, Recorded, Registry, Verdict};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks at an empty inbox.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The maximum length of a stored reason, in characters.
const REASON_MAX: usize = 500;

/// A row that is a job, if it gets its key.
struct Candidate {
    number: i64,
    job: Job,
    on_conflict: OnConflict,
}

/// The rows that were passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Skips {
    /// Up to this number; `i64::MIN` if there are none.
    until: i64,
    /// Those up to this number have been looked at again.
    again: i64,
}

impl Skips {
    const NONE: Self = Self { until: i64::MIN, again: i64::MIN };

    /// After a look at rows after one of these numbers, up to `last`, of which some had a place, and some had none.
    fn looked(self, after: i64, last: Option<i64>, some_placed: bool, some_full: bool) -> Self {
        match last {
            _ if after == self.until && some_full => Self { until: last.unwrap_or(self.until), ..self },
            _ if after == self.until && self.until > i64::MIN => self,
            None if after == i64::MIN => Self::NONE,
            // The first ones come first if there is room again.
            Some(last) if !some_placed && last < self.until => Self { again: last, ..self },
            _ => Self { again: i64::MIN, ..self },
        }
    }
}

/// Moves rows of the inbox to the jobs.
pub(super) struct InboxMover {
    inbox: Arc<dyn Inbox>,
    registry: Arc<dyn Registry>,
    broker: Arc<dyn Broker>,
    admission: Arc<Admission>,
    intake: Arc<Intake>,
    leader: Arc<Leader>,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    supervisor: Arc<Supervisor>,
    ids: Arc<Ids>,
    passed: Mutex<Skips>,
}

impl InboxMover {
    pub(super) fn new(
        base: &Base,
        inbox: Arc<dyn Inbox>,
        admission: Arc<Admission>,
        intake: Arc<Intake>,
        leader: Arc<Leader>,
        ids: Arc<Ids>,
    ) -> Self {
        let Base { stores, metrics, status, supervisor, .. } = base;
        Self {
            inbox,
            registry: stores.registry.clone(),
            broker: stores.broker.clone(),
            admission,
            intake,
            leader,
            status: status.clone(),
            metrics: metrics.clone(),
            supervisor: supervisor.clone(),
            ids,
            passed: Mutex::new(Skips::NONE),
        }
    }

    /// If this engine leads, moves rows of the inbox to the jobs, until the engine stops.
    pub(super) async fn empty(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            while self.leader.leads() {
                // A step that has begun runs to completion: a change that spans two stores must not be dropped halfway.
                match self.supervisor.complete(self, |mover| async move { mover.admit_page().await }).await {
                    Ok(has_moved) => {
                        self.status.mend(DegradedCode::Inbox);
                        if !has_moved {
                            break;
                        }
                    }
                    Err(error) => {
                        self.status.degrade(DegradedCode::Inbox, &error);
                        break;
                    }
                }
            }
        }
    }

    /// Moves the first rows; returns whether there was one that could be moved.
    async fn admit_page(&self) -> Result<bool, Error> {
        let passed = *self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut after, mut rows) = (passed.until, self.inbox.waiting(passed.until, STEP_JOBS_MAX).await?);
        if rows.is_empty() && passed != Skips::NONE {
            (after, rows) = (passed.again, self.inbox.waiting(passed.again, STEP_JOBS_MAX).await?);
        }
        let last = rows.last().map(|row| row.number);
        // Held until their jobs are recorded.
        let (mut placed, mut places, mut some_full) = (Vec::with_capacity(rows.len()), Vec::new(), false);
        for row in rows {
            match self.intake.gate.enter(&row.queue).await? {
                Entry::Full(_) => some_full = true,
                entry => {
                    places.push(entry);
                    placed.push(row);
                }
            }
        }
        let rows = placed;
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) =
            passed.looked(after, last, !rows.is_empty(), some_full);
        if rows.is_empty() {
            return Ok(false);
        }
        // A broker in the memory of this process has none.
        let adopted = document(self.registry.as_ref(), ADOPTED).await?;
        let Some(incarnation) = adopted.or_else(|| (!self.broker.is_shared()).then(String::new)) else {
            return Ok(false);
        };
        let reading = self.broker.reading();
        // After the rows were read, so that no age is counted too long.
        let (candidates, mut verdicts) = self.judge(rows, self.broker.now_at_most()).await?;
        verdicts.extend(candidates.iter().map(|one| (one.number, Verdict::Record(Box::new(one.job.clone())))));
        let (admitted, outcome) = self.carry_out(verdicts).await;

        let mut has_moved = admitted.values().any(|admitted| admitted.is_done());
        let (mut jobs, mut recorded) = (Vec::new(), Vec::new());
        let (mut held, mut repeats) = (Vec::new(), Vec::new());
        for one in candidates {
            match admitted.get(&one.number) {
                Some(Admitted::Recorded(Recorded::KeyHeld(holder))) => held.push((one, *holder)),
                Some(Admitted::Recorded(Recorded::Known(first))) => repeats.push((one, *first)),
                Some(Admitted::Recorded(answer)) => {
                    jobs.push(one.job);
                    recorded.push(*answer);
                }
                Some(Admitted::Done | Admitted::Gone) | None => {}
            }
        }
        let producer = Producer::Inbox { recorded, reading, incarnation: &incarnation };
        let put = self.admission.admit(&mut jobs, producer).await.map(drop);
        let (mut resolved, unresolved) = self.resolve(held).await;
        let repeats = self.resolve_repeats(repeats).await;
        let unresolved = unresolved.and(repeats.map(|repeats| resolved.extend(repeats)));
        let (admitted, last) = self.carry_out(resolved).await;
        has_moved |= admitted.values().any(|admitted| admitted.is_done());
        outcome.and(put).and(unresolved).and(last)?;
        Ok(has_moved)
    }

    /// Tells jobs from rows that are none.
    async fn judge(&self, rows: Vec<InboxRow>, now: Millis) -> Result<(Vec<Candidate>, Vec<(i64, Verdict)>), Error> {
        let partitions: Vec<u16> = rows.iter().map(|row| self.broker.partition(&row.queue)).collect();
        let ids = self.ids.next(&partitions, now).await?;
        let (mut candidates, mut verdicts) = (Vec::with_capacity(rows.len()), Vec::new());
        for (row, id) in rows.into_iter().zip(ids) {
            let (number, age_ms) = (row.number, row.age_ms);
            let accepted = new_job(row).and_then(|new| {
                if age_ms > DELAY_MS_MAX {
                    let expected = "left out, or milliseconds since 1970 within the last 10 years";
                    return Err(Error::invalid("created_at", expected, format!("{age_ms} ms ago")));
                }
                let job = self.intake.accept(&new, id, now.saturating_sub(age_ms))?;
                Ok(Candidate { number, job, on_conflict: new.on_conflict })
            });
            match accepted {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => verdicts.push((number, self.refuse(number, &error))),
            }
        }
        Ok((candidates, verdicts))
    }

    /// Carries out verdicts. If they fail for what may be the fault of one row, each is tried alone. Returns the outcome of
    /// each, and the first error that is not a row's own.
    async fn carry_out(&self, verdicts: Vec<(i64, Verdict)>) -> (HashMap<i64, Admitted>, Result<(), Error>) {
        let mut admitted = HashMap::with_capacity(verdicts.len());
        let mut outcome = Ok(());
        if verdicts.is_empty() {
            return (admitted, outcome);
        }
        match self.commit(verdicts.clone()).await {
            Ok(answers) => admitted.extend(verdicts.iter().map(|(number, _)| *number).zip(answers)),
            Err(error) if !is_own(&error) => outcome = Err(error),
            Err(_) => {
                for (number, verdict) in verdicts {
                    let answer = match self.commit(vec![(number, verdict)]).await {
                        Err(error) if is_own(&error) => {
                            let marked = self.commit(vec![(number, self.refuse(number, &error))]).await;
                            // Marked, it is done with, but it is no job.
                            marked.map(|_| Admitted::Gone)
                        }
                        answer => answer.map(|answers| answers.first().copied().unwrap_or(Admitted::Gone)),
                    };
                    match answer {
                        Ok(answer) => drop(admitted.insert(number, answer)),
                        Err(error) => outcome = outcome.and(Err(error)),
                    }
                }
            }
        }
        (admitted, outcome)
    }

    /// Carries out verdicts in one transaction.
    async fn commit(&self, verdicts: Vec<(i64, Verdict)>) -> Result<Vec<Admitted>, Error> {
        let is_record = verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Record(_)));
        let admit = self.inbox.admit(verdicts);
        if is_record { self.admission.time(admit).await } else { admit.await }
    }

    /// Verdicts for rows whose origin is known: a row that is met again is done with, and one that reuses the origin is rejected.
    async fn resolve_repeats(&self, repeats: Vec<(Candidate, JobId)>) -> Result<Vec<(i64, Verdict)>, Error> {
        let firsts = self.intake.firsts(repeats.iter().map(|(_, first)| *first).collect()).await?;
        let verdict = |(Candidate { number, job, .. }, first): (Candidate, JobId)| {
            let refusal = firsts.get(&first).and_then(|first| repeated(&job, first.clone()).err());
            (number, refusal.map_or(Verdict::Remove, |error| self.refuse(number, &error)))
        };
        Ok(repeats.into_iter().map(verdict).collect())
    }

    /// Verdicts for rows whose key is held. A row whose key was just released waits for the next look.
    async fn resolve(&self, held: Vec<(Candidate, JobId)>) -> (Vec<(i64, Verdict)>, Result<(), Error>) {
        let (mut verdicts, mut outcome) = (Vec::with_capacity(held.len()), Ok(()));
        for (Candidate { number, job, on_conflict }, holder) in held {
            match self.resolve_one(&job, holder, on_conflict).await {
                Ok(Some(verdict)) => verdicts.push((number, verdict)),
                Ok(None) => {}
                Err(error) if is_own(&error) => verdicts.push((number, self.refuse(number, &error))),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        (verdicts, outcome)
    }

    async fn resolve_one(&self, job: &Job, holder: JobId, on_conflict: OnConflict) -> Result<Option<Verdict>, Error> {
        let Some(held) = self.intake.key_holder(holder).await? else { return Ok(None) };
        match on_conflict {
            OnConflict::Keep => Ok(Some(Verdict::Remove)),
            OnConflict::Reject => Err(conflict(job, holder)),
            // If this process dies now, the holder is given the same values again.
            OnConflict::Replace => Ok(self.intake.replace(job, &held).await?.map(|_| Verdict::Remove)),
            OnConflict::Debounce(debounce) => {
                let postponed = debounce.postponed(job, &held);
                Ok(self.intake.replace(&postponed, &held).await?.map(|_| Verdict::Remove))
            }
        }
    }

    /// Rejects a row that is not a job, with a reason that any database can store.
    fn refuse(&self, number: i64, error: &Error) -> Verdict {
        tracing::warn!(number, code = error.code(), "a row of the inbox was rejected; see its column `error`");
        self.metrics.inbox_refused.fetch_add(1, Ordering::Relaxed);
        let reason = format!("{}: {error}", error.code());
        Verdict::Refuse(reason.chars().filter(|c| *c != '\0').take(REASON_MAX).collect())
    }
}

/// Whether it is the row's fault, and stays so.
fn is_own(error: &Error) -> bool {
    matches!(
        error,
        Error::Invalid { .. }
            | Error::KeyConflict { .. }
            | Error::OriginReused { .. }
            | Error::Running(_)
            | Error::Finished { .. }
    )
}

/// Checks that a job may come through the inbox: the right to insert rows does not include choosing a target.
///
/// # Errors
/// [`Error::Invalid`] if it has its own target.
pub fn check_target(job: &NewJob) -> Result<(), Error> {
    if job.options.target.is_none() {
        return Ok(());
    }
    Err(Error::invalid(
        "options: target",
        "left out: rows of the inbox are delivered to their queue's target",
        "a target",
    ))
}

/// The job that a row describes.
fn new_job(row: InboxRow) -> Result<NewJob, Error> {
    let unsigned = |what, number: i64| u64::try_from(number).map_err(|_| Error::invalid(what, "0 or more", number));
    let due = match (row.due_at, row.delay_ms) {
        (None, None) => Due::Now,
        (Some(at), None) => Due::At(Timestamp(unsigned("due_at", at)?)),
        (None, Some(delay_ms)) => Due::After(Span(unsigned("delay_ms", delay_ms)?)),
        (Some(_), Some(_)) => return Err(Error::invalid("due_at", "given without `delay_ms`", "both")),
    };
    let priority = row.priority.map_or(Ok(PRIORITY_DEFAULT), |priority| {
        u32::try_from(priority).map_err(|_| Error::invalid("priority", "0 to 4294967295", priority))
    })?;
    let tags: Vec<Arc<str>> = match &row.tags {
        Some(tags) => read_column("tags", "a JSON array of strings, such as [\"a\"]", tags)?,
        None => Vec::new(),
    };
    let mut job = NewJob {
        queue: row.queue.into(),
        kind: row.kind.into(),
        due,
        priority,
        key: row.key.map(Arc::from),
        tags,
        ..NewJob::new(row.payload)
    };
    if let Some(options) = &row.options {
        let Object(options) =
            read_column::<Object<Push<'_>>>("options", "a JSON object with fields as over HTTP", options)?;
        options.apply_options(&mut job).map_err(|invalid| of_column("options", invalid))?;
    }
    job.origin = job.origin.or(row.origin.map(Arc::from));
    check_target(&job)?;
    Ok(job)
}

/// The JSON of a column.
fn read_column<'a, T: serde::Deserialize<'a>>(column: &'static str, expected: &str, json: &'a str) -> Result<T, Error> {
    if json.len() > INBOX_TEXT_MAX {
        return Err(Error::invalid(column, format!("at most {INBOX_TEXT_MAX} bytes"), "more"));
    }
    read(json).map_err(|unread| match unread {
        Unread::Malformed(why) => Error::invalid(column, expected, format_args!("invalid JSON: {why}")),
        Unread::Invalid(invalid) => of_column(column, invalid),
    })
}

fn of_column(column: &str, invalid: Invalid) -> Error {
    Invalid { what: format!("{column}: {}", invalid.what).into(), ..invalid }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(options: &str) -> InboxRow {
        InboxRow {
            number: 1,
            queue: "q".to_owned(),
            kind: "k".to_owned(),
            payload: Arc::from(*b"{}"),
            age_ms: 0,
            due_at: None,
            delay_ms: None,
            key: None,
            tags: None,
            priority: None,
            options: Some(options.to_owned()),
            origin: None,
        }
    }

    /// The right to insert rows does not include choosing where the server delivers.
    #[test]
    fn a_row_has_no_target_of_its_own() {
        assert!(new_job(row(r#"{"lease": "5s"}"#)).is_ok());
        for target in [r#"{"url": "https://a.example"}"#, r#"{"queue": "other"}"#] {
            let refused = new_job(row(&format!(r#"{{"target": {target}}}"#))).unwrap_err();
            assert!(refused.code() == "invalid" && refused.to_string().contains("`options: target`"), "{refused}");
        }
    }
}
