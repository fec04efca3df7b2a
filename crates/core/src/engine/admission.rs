//! The way of a job that becomes live, whoever makes it: it is recorded, counted and published, and put into the broker if it is
//! due soon.
//!
//! | producer | recorded | counted |
//! |---|---|---|
//! | pushes, conflicts, ticks, imports | here | here |
//! | rows of the inbox | in the transaction that removes the rows | here |
//! | jobs that begin with an end, such as copies that a rule moves | with that end, perhaps later and by another process | with the end |
//! | retries, and other edits of jobs that the broker does not hold | by the edit | with the edit |
//!
//! A job whose origin another job of its queue has is not recorded. Whether that is refused depends on who says the same twice:
//!
//! | producer | other content with a known origin |
//! |---|---|
//! | pushes: over HTTP, alone or in a batch, by the library, by a file's lines; rows of the inbox | refused with [`Error::OriginReused`]: its caller believes that it was pushed |
//! | pushes of a handler with an origin of the library, [adopted](../../../docs/adopt.md) jobs | refused too, and the caller takes it as the repeat that it is: the source is named by the origin, and what is left of a delay, or what a handler computes, changes |
//! | ticks, runs by hand | a repeat: the schedule may have been edited in between |
//! | copies for the target of a queue, jobs that begin with an end | a repeat: the job may have been edited in between |
//! | imports | a repeat: a file has jobs as they became, not as they were sent |
//!
//! The first two say what was sent ([`JobOptions::sent`](crate::JobOptions::sent)), the others do not; only if both jobs say it,
//! they are compared.
//!
//! A queue with an overflow has older jobs that found no room in the broker. A new job joins them there, unless it is more
//! urgent, so that it does not overtake them: [`admit`](Admission::admit) records it there at once, or moves it there if it is
//! recorded already.
//!
//! An id may be taken: by this same job, if an answer was lost or another process did the same, or by an imported job, which
//! is [marked](crate::JobOptions::imported). The first is put as its row is now, since its maker may have died before that.
//! In the second case a producer that chose the id gets another one; jobs that begin with an end have theirs before they come here.

use crate::engine::base::Base;
use crate::engine::events::Publisher;
use crate::engine::ids::Ids;
use crate::engine::loader::Loader;
use crate::engine::metrics::Metrics;
use crate::engine::observation::Observation;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::Job;
use crate::ports::{Broker, Ledger, OVERFLOW, Reading, Recorded};
use std::sync::Arc;

/// A source of new jobs. Some have recorded their jobs already, and bring the results.
#[derive(Clone, Debug)]
pub(in crate::engine) enum Producer<'a> {
    /// A push, also after a conflict.
    Push,
    /// A tick of a schedule. Other processes may admit the same job; its origin keeps it one.
    Tick,
    /// An import: the ids are those of another store.
    Import,
    /// Rows of the inbox, with the answers of the transaction. The jobs are marked as not loaded, and are marked as loaded in
    /// this incarnation once the broker holds them.
    Inbox { recorded: Vec<Recorded>, reading: Reading, incarnation: &'a str },
    /// Jobs that begin with an end. Its entry may have been recorded long ago, so their rows are read.
    End,
    /// An edit of rows since this reading, as the edit left them.
    Edit { reading: Reading },
}

impl Producer<'_> {
    /// The event as which a new job counts. A settlement and an edit have counted theirs, since they may be recorded later,
    /// by another process, or twice.
    fn event(&self) -> Option<Observation> {
        match self {
            Self::Push | Self::Tick | Self::Inbox { .. } => Some(Observation::Pushed),
            Self::Import => Some(Observation::Imported),
            Self::End | Self::Edit { .. } => None,
        }
    }
}

/// What became of a job that was to be admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Admitted {
    /// It is new.
    Created,
    /// This same job was recorded before.
    Repeated,
    /// The same, and its record has been removed since.
    Removed,
    /// Its id is that of another job, of this queue; nothing was recorded.
    IdTaken(Arc<str>),
    /// Its origin is that of this job of its queue; nothing was recorded.
    Known(JobId),
    /// Its key is held by this job; nothing was recorded.
    KeyHeld(JobId),
}

/// Admits jobs.
pub(in crate::engine) struct Admission {
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    loader: Arc<Loader>,
    ids: Arc<Ids>,
    publisher: Arc<Publisher>,
    metrics: Arc<Metrics>,
}

impl Admission {
    pub(in crate::engine) fn new(base: &Base, loader: Arc<Loader>, ids: Arc<Ids>) -> Self {
        let Base { stores, metrics, publisher, .. } = base;
        Self {
            broker: stores.broker.clone(),
            ledger: stores.ledger.clone(),
            loader,
            ids,
            publisher: publisher.clone(),
            metrics: metrics.clone(),
        }
    }

    /// Records jobs, unless their producer has; counts those that are new, and puts them into the broker or has them join an
    /// overflow. A job whose id was taken may get another one. The caller decides what becomes of a job that was not admitted.
    ///
    /// # Errors
    /// Of the stores: the jobs may be recorded all the same, and then they run.
    pub(in crate::engine) async fn admit(
        &self,
        jobs: &mut [Job],
        producer: Producer<'_>,
    ) -> Result<Vec<Admitted>, Error> {
        let none_over = || vec![false; jobs.len()];
        let (reading, (recorded, is_over)) = match &producer {
            Producer::Push | Producer::Tick | Producer::Import => (self.broker.reading(), self.record(jobs).await?),
            Producer::Inbox { recorded, reading, .. } => (*reading, (recorded.clone(), none_over())),
            Producer::End => (self.broker.reading(), (vec![Recorded::Repeat; jobs.len()], none_over())),
            Producer::Edit { reading } => (*reading, (vec![Recorded::Created; jobs.len()], none_over())),
        };
        let created =
            || jobs.iter().zip(&recorded).zip(&is_over).filter(|((_, recorded), _)| **recorded == Recorded::Created);
        if let Some(event) = producer.event() {
            self.publisher.observe_jobs(created().map(|((job, _), _)| job), |_| event);
        }
        if created().any(|(_, is_over)| *is_over) {
            self.loader.ask_for_overflow();
        }
        let to_hold = created().filter(|((job, _), is_over)| !**is_over && self.loader.is_to_hold(job));
        let mut to_hold: Vec<Job> = to_hold.map(|((job, _), _)| job.clone()).collect();
        let mut admitted: Vec<Admitted> = recorded.into_iter().map(Admitted::from).collect();
        to_hold.extend(self.meet(jobs, &mut admitted, &producer).await?);
        match producer {
            Producer::Inbox { incarnation, .. } => self.loader.load(to_hold, reading, incarnation).await?,
            _ => self.loader.hold(to_hold, reading).await?,
        }
        Ok(admitted)
    }

    /// The same for one job.
    pub(in crate::engine) async fn admit_one(
        &self,
        mut job: Job,
        producer: Producer<'_>,
    ) -> Result<(Job, Admitted), Error> {
        let admitted = self.admit(std::slice::from_mut(&mut job), producer).await?.pop();
        Ok((job, admitted.expect("the ledger answers for each job")))
    }

    /// Puts jobs that were recorded before, as they are in the ledger: their maker may have died before that.
    pub(in crate::engine) async fn put_again(&self, rows: &[Job]) -> Result<(), Error> {
        let to_put = rows.iter().filter(|job| job.is_pending() && self.loader.is_to_hold(job));
        self.loader.reconcile_later(to_put.map(|job| job.id));
        self.loader.reconcile().await
    }

    /// Measures a call that records new jobs. Jobs that begin with an end are measured with it, as applied, and not twice.
    pub(in crate::engine) async fn time<T>(&self, work: impl Future<Output = T>) -> T {
        self.metrics.stores.record.time(work).await
    }

    /// Finds out whose the ids are that were taken. Returns the rows of those jobs that are the same; the others are recorded
    /// under other ids, if the producer chose theirs.
    async fn meet(
        &self,
        jobs: &mut [Job],
        admitted: &mut [Admitted],
        producer: &Producer<'_>,
    ) -> Result<Vec<Job>, Error> {
        let repeats: Vec<usize> = (0..jobs.len()).filter(|&place| admitted[place] == Admitted::Repeated).collect();
        if repeats.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<JobId> = repeats.iter().map(|&place| jobs[place].id).collect();
        let mut same = Vec::new();
        for (&place, row) in repeats.iter().zip(self.ledger.get(&ids).await?) {
            let job = &jobs[place];
            admitted[place] = match row {
                Some(row) if !is_same(&row, job, producer) => Admitted::IdTaken(row.queue),
                Some(row) => {
                    same.push(row);
                    Admitted::Repeated
                }
                None => Admitted::Removed,
            };
            match (&admitted[place], producer) {
                (Admitted::IdTaken(_), Producer::Push | Producer::Tick) => {
                    (jobs[place], admitted[place]) = self.admit_renamed(job.clone(), producer).await?;
                }
                // The row of the inbox gets another id at the next look.
                (Admitted::IdTaken(_), Producer::Inbox { .. }) => self.ids.skip().await,
                // Nobody else knows the id, so it is this push that was recorded, and its answer was lost.
                (Admitted::Repeated | Admitted::Removed, Producer::Push) => {
                    self.publisher.observe_jobs(std::iter::once(job), |_| Observation::Pushed);
                }
                _ => {}
            }
        }
        Ok(same)
    }

    /// Admits a job whose id is another job's, under an id that is free.
    async fn admit_renamed(&self, job: Job, producer: &Producer<'_>) -> Result<(Job, Admitted), Error> {
        self.ids.skip().await;
        let ids = self.ids.next(&[job.id.partition()], self.broker.now()).await?;
        Box::pin(self.admit_one(Job { id: ids[0], ..job }, producer.clone())).await
    }

    /// Records jobs, separately those that join the overflow of their queue; returns which these are.
    async fn record(&self, jobs: &[Job]) -> Result<(Vec<Recorded>, Vec<bool>), Error> {
        let (now, watermark) = (self.broker.now(), self.loader.watermark());
        let is_over: Vec<bool> =
            jobs.iter().map(|job| self.loader.is_to_hold(job) && self.loader.joins_overflow(job, now)).collect();
        if !is_over.contains(&true) {
            return Ok((self.time(self.ledger.record(jobs.to_vec(), watermark)).await?, is_over));
        }
        let those = |over: bool| {
            let those = jobs.iter().zip(&is_over).filter(move |(_, is_over)| **is_over == over);
            those.map(|(job, _)| job.clone()).collect::<Vec<Job>>()
        };
        let (near, over) = (those(false), those(true));
        let near_ids: Vec<JobId> = near.iter().map(|job| job.id).collect();
        let record_near =
            async { if near.is_empty() { Ok(Vec::new()) } else { self.ledger.record(near, watermark).await } };
        let record_both = async { tokio::join!(record_near, self.ledger.record(over, OVERFLOW)) };
        let (near, over) = self.time(record_both).await;
        if near.is_ok() && over.is_err() {
            // These are not acknowledged, but they are recorded.
            self.loader.reconcile_later(near_ids.into_iter());
        }
        let (mut near, mut over) = (near?.into_iter(), over?.into_iter());
        let next = |is_over: &bool| {
            let recorded = if *is_over { over.next() } else { near.next() };
            recorded.expect("the ledger answers for each job")
        };
        Ok((is_over.iter().map(next).collect(), is_over))
    }
}

impl From<Recorded> for Admitted {
    fn from(recorded: Recorded) -> Self {
        match recorded {
            Recorded::Created => Self::Created,
            Recorded::Repeat => Self::Repeated,
            Recorded::Known(first) => Self::Known(first),
            Recorded::KeyHeld(holder) => Self::KeyHeld(holder),
        }
    }
}

/// Whether the row with its id is the job that is admitted, perhaps changed or replaced meanwhile.
///
/// This store gives an id once, so a row under an id that was chosen here is that call's job, unless an import brought it: the
/// mark says so. An import brings ids that were chosen elsewhere, or here, if the file comes from this very store. The file
/// does not say which, and the job must not be doubled. So it is compared what a job keeps for life; and always, since an id
/// that was given twice must not lose a job. Only the holder of a key can be replaced by a job of another kind.
fn is_same(row: &Job, job: &Job, producer: &Producer<'_>) -> bool {
    let may_be_imported = matches!(producer, Producer::Import) || !row.options().imported;
    may_be_imported
        && (row.key.is_some() || row.kind == job.kind)
        && (&row.queue, &row.key, &row.origin, row.created_at) == (&job.queue, &job.key, &job.origin, job.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{Fixture, job};
    use crate::json::Timestamp;
    use crate::model::job::Stage;
    use crate::ports::Window;
    use crate::testing::fixtures::{QUEUE, T0, due, id};

    fn admission(fixture: &Fixture) -> Admission {
        Admission::new(&fixture.base, fixture.loops.loader.clone(), fixture.loops.ids.clone())
    }

    /// If it were put there afterwards, a process that dies in between would leave it among those that are loaded.
    #[tokio::test(start_paused = true)]
    async fn a_job_that_joins_an_overflow_is_recorded_there_at_once() {
        let fixture = Fixture::new().await;
        let now = fixture.now();
        fixture.ledger.record(vec![due(1, now - 1)], OVERFLOW).await.unwrap();
        fixture.loops.loader.learn_overflow().await.unwrap();
        let mut jobs = [due(2, now), Job { priority: 0, ..due(3, now) }];
        let admitted = admission(&fixture).admit(&mut jobs, Producer::Push).await.unwrap();
        assert_eq!(admitted, [Admitted::Created, Admitted::Created]);
        let over = fixture.ledger.overflow(QUEUE, Window::ALL, 9).await.unwrap();
        assert_eq!(over.into_iter().map(|job| job.id).collect::<Vec<_>>(), [id(1), id(2)]);
        assert!(fixture.held(id(3)).await.is_some(), "it is more urgent than those that wait there");
        assert_eq!(fixture.life.calls("not_loaded"), 0, "none is moved there afterwards");
    }

    #[tokio::test(start_paused = true)]
    async fn an_edited_row_is_put_as_the_edit_left_it_and_not_counted() {
        let fixture = Fixture::new().await;
        let (reading, row) = (fixture.base.stores.broker.reading(), due(1, fixture.now()));
        admission(&fixture).admit_one(row.clone(), Producer::Edit { reading }).await.unwrap();
        assert_eq!(fixture.held(row.id).await, Some(row));
        assert!(fixture.base.metrics.queues().is_empty(), "its edit counts");
    }

    /// An import brings many ids in a row, and the next ones of the block may be among them.
    #[tokio::test(start_paused = true)]
    async fn whoever_meets_a_taken_id_gives_up_the_rest_of_the_block() {
        for is_push in [true, false] {
            let fixture = Fixture::new().await;
            let pushed = fixture.push(job()).await;
            fixture.take_ids_after(&pushed).await;
            let next = async || fixture.loops.ids.next(&[0], fixture.now()).await.unwrap()[0];
            let (new, records) = (Job { id: next().await, ..pushed.clone() }, fixture.life.calls("record"));
            let (recorded, reading) = (vec![Recorded::Repeat], fixture.base.stores.broker.reading());
            let producer =
                if is_push { Producer::Push } else { Producer::Inbox { recorded, reading, incarnation: "" } };
            let (admitted, answer) = admission(&fixture).admit_one(new, producer).await.unwrap();
            let free = if is_push {
                assert_eq!((answer, fixture.life.calls("record")), (Admitted::Created, records + 2));
                admitted.id
            } else {
                assert_eq!(answer, Admitted::IdTaken(pushed.queue.clone()), "its row gets another at the next look");
                next().await
            };
            assert!(free.sequence() > pushed.id.sequence() + 9, "push: {is_push}");
        }
    }

    #[test]
    fn a_row_is_the_same_job_by_what_a_job_keeps_for_life() {
        let pushed = due(1, T0);
        let mut imported = pushed.clone();
        imported.set_imported(true);
        let changed = Job { priority: 7, version: 99, stage: Stage::Succeeded, ..pushed.clone() };
        assert!(is_same(&changed, &pushed, &Producer::Push) && is_same(&changed, &imported, &Producer::Import));
        assert!(is_same(&imported, &pushed, &Producer::Import) && !is_same(&imported, &pushed, &Producer::Push));
        for other in [
            Job { queue: "other".into(), ..pushed.clone() },
            Job { kind: "other".into(), ..pushed.clone() },
            Job { key: Some("other".into()), ..pushed.clone() },
            Job { origin: Some("other".into()), ..pushed.clone() },
            Job { created_at: Timestamp(T0 + 1), ..pushed.clone() },
        ] {
            assert!(!is_same(&other, &pushed, &Producer::Push) && !is_same(&other, &pushed, &Producer::Import));
        }
        // A push with its key may have replaced it.
        let holder = Job { key: Some("k".into()), ..pushed };
        let replaced = Job { kind: "other".into(), ..holder.clone() };
        assert!(is_same(&replaced, &holder, &Producer::Push));
    }
}
