//! A process that may die between any two steps, or stand still for a while: the ports as such a process sees them. If it
//! dies, its last request may or may not have been carried out, and it never gets the answer.

mod others;

pub use super::life::{Life, When};
use crate::clock::Millis;
use crate::error::Error;
use crate::model::id::JobId;
use crate::model::job::{Job, Stage};
use crate::ports::{
    Admitted, Broker, BrokerClock, Counts, Cursor, Detail, Edit, Edited, Expired, Extend, Extended, Find, Found, Host,
    Inbox, InboxRow, LeaseRecord, Leases, Ledger, Limits, Listing, Outbox, OutboxEntry, Outcomes, OverflowDue, Page,
    Put, Queues, Reading, Recorded, Reserve, Reserved, Retention, Room, Settle, Settled, Take, Taken, Tally, Trouble,
    Verdict, Window,
};
use async_trait::async_trait;
pub use others::{MortalLocks, MortalRegistry};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A broker.
pub struct MortalBroker {
    /// The broker.
    pub broker: Arc<dyn Broker>,
    /// The process that calls it.
    pub life: Arc<Life>,
}

impl BrokerClock for MortalBroker {
    fn now(&self) -> Millis {
        self.broker.now()
    }

    fn now_at_most(&self) -> Millis {
        self.broker.now_at_most()
    }

    fn until(&self, at: Millis) -> Duration {
        self.broker.until(at)
    }

    fn reading(&self) -> Reading {
        self.broker.reading()
    }
}

#[async_trait]
impl Outbox for MortalBroker {
    async fn outcomes(&self, which: Outcomes) -> Result<Vec<OutboxEntry>, Error> {
        self.life.around("outcomes", self.broker.outcomes(which)).await
    }

    async fn forget(&self, noted: &[(JobId, u64)], watermark: Millis) -> Result<Vec<JobId>, Error> {
        self.life.around("forget", self.broker.forget(noted, watermark)).await
    }

    fn backlog(&self) -> usize {
        self.broker.backlog()
    }

    fn backlog_bytes(&self) -> u64 {
        self.broker.backlog_bytes()
    }
}

impl MortalBroker {
    async fn hand_out<A: AsMut<Reserved>>(&self, answer: impl Future<Output = Result<A, Error>>) -> Result<A, Error> {
        // A reserve may be dropped while it waits, and then must have handed out nothing: no step comes after that.
        self.life.step("reserve", When::Before).await;
        let mut answer = answer.await?;
        if !answer.as_mut().leases.is_empty() {
            self.life.step("reserve", When::After).await;
        }
        Ok(answer)
    }
}

#[async_trait]
impl Broker for MortalBroker {
    fn is_shared(&self) -> bool {
        self.broker.is_shared()
    }

    fn is_ledger(&self) -> bool {
        self.broker.is_ledger()
    }

    fn partition(&self, queue: &str) -> u16 {
        self.broker.partition(queue)
    }

    async fn incarnation(&self) -> Result<String, Error> {
        self.life.around("incarnation", self.broker.incarnation()).await
    }

    async fn begin(&self, host: Arc<dyn Host>) -> Result<(), Error> {
        self.life.around("begin", self.broker.begin(host)).await
    }

    async fn crowded_out(&self, jobs: &[(JobId, u64)], room: Room) -> Result<Vec<Job>, Error> {
        self.life.around("crowded_out", self.broker.crowded_out(jobs, room)).await
    }

    async fn put(&self, jobs: Vec<Job>, reading: Reading, room: Room) -> Result<Vec<Put>, Error> {
        // It is on its way: the caller may stop waiting for the answer.
        let (broker, life) = (self.broker.clone(), self.life.clone());
        let put = tokio::spawn(async move { life.around("put", broker.put(jobs, reading, room)).await });
        put.await.expect("no put panics")
    }

    async fn reserve(&self, reserve: Reserve) -> Result<Reserved, Error> {
        self.hand_out(self.broker.reserve(reserve)).await
    }

    async fn take(&self, take: Take) -> Result<Taken, Error> {
        self.hand_out(self.broker.take(take)).await
    }

    async fn next_due(&self, queue: &Arc<str>) -> Result<Option<Millis>, Error> {
        self.life.step("next_due", When::Before).await;
        self.broker.next_due(queue).await
    }

    async fn extend(&self, leases: Vec<Extend>) -> Result<Vec<Extended>, Error> {
        self.life.around("extend", self.broker.extend(leases)).await
    }

    async fn settle(&self, settles: Vec<Settle>) -> Result<Settled, Error> {
        self.life.around("settle", self.broker.settle(settles)).await
    }

    async fn expired(&self, limit: usize) -> Result<Expired, Error> {
        self.life.around("expired", self.broker.expired(limit)).await
    }

    async fn edit(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<OutboxEntry>), Error> {
        self.life.around("edit", self.broker.edit(edits)).await
    }

    async fn bar(&self, rows: &[(JobId, u64)]) -> Result<Vec<JobId>, Error> {
        self.life.around("bar", self.broker.bar(rows)).await
    }

    async fn get(&self, ids: &[JobId], detail: Detail) -> Result<Vec<Option<Job>>, Error> {
        self.life.around("get", self.broker.get(ids, detail)).await
    }

    async fn running_in(
        &self,
        partition: u16,
        after: Option<(Millis, JobId)>,
        limit: usize,
    ) -> Result<(Vec<Job>, Option<(Millis, JobId)>), Error> {
        self.life.around("running_in", self.broker.running_in(partition, after, limit)).await
    }

    async fn list(&self, listing: Listing) -> Result<Vec<Job>, Error> {
        self.life.around("list", self.broker.list(listing)).await
    }

    async fn counts(&self, queues: Queues) -> Result<Vec<(Arc<str>, Counts, Option<Tally>)>, Error> {
        self.life.around("counts", self.broker.counts(queues)).await
    }

    async fn limit(&self, queue: &Arc<str>, limits: Limits, version: u64) -> Result<(), Error> {
        self.life.around("limit", self.broker.limit(queue, limits, version)).await
    }

    async fn remove_queue(&self, queue: &Arc<str>, version: u64) -> Result<bool, Error> {
        self.life.around("remove_queue", self.broker.remove_queue(queue, version)).await
    }

    async fn set_watermark(&self, watermark: Millis) -> Result<(), Error> {
        self.life.around("set_watermark", self.broker.set_watermark(watermark)).await
    }
}

/// A ledger, which outlives the process.
pub struct MortalLedger {
    /// The ledger.
    pub ledger: Arc<dyn Ledger>,
    /// The process that calls it.
    pub life: Arc<Life>,
}

#[async_trait]
impl Ledger for MortalLedger {
    async fn allot(&self, count: u64, now: Millis) -> Result<Range<u64>, Error> {
        self.life.around("allot", self.ledger.allot(count, now)).await
    }

    async fn record(&self, jobs: Vec<Job>, watermark: Millis) -> Result<Vec<Recorded>, Error> {
        self.life.around("record", self.ledger.record(jobs, watermark)).await
    }

    async fn known(&self, jobs: &[Job]) -> Result<Vec<Option<Recorded>>, Error> {
        self.life.around("known", self.ledger.known(jobs)).await
    }

    async fn apply(&self, entries: Vec<OutboxEntry>, watermark: Millis) -> Result<Vec<JobId>, Error> {
        self.life.around("apply", self.ledger.apply(entries, watermark)).await
    }

    async fn pending(&self, until: Millis, after: Option<Cursor>, limit: usize) -> Result<Page, Error> {
        // Small pages, so that much happens between them.
        self.life.around("pending", self.ledger.pending(until, after, limit.min(7))).await
    }

    async fn loaded(&self, jobs: &[(JobId, u64)], incarnation: &str) -> Result<(), Error> {
        self.life.around("loaded", self.ledger.loaded(jobs, incarnation)).await
    }

    async fn not_loaded(&self, ids: &[JobId], watermark: Millis) -> Result<(), Error> {
        self.life.around("not_loaded", self.ledger.not_loaded(ids, watermark)).await
    }

    async fn overflow(&self, queue: &str, due: Window, limit: usize) -> Result<Vec<Job>, Error> {
        self.life.around("overflow", self.ledger.overflow(queue, due, limit.min(7))).await
    }

    async fn overflowing(&self, after: Option<&str>) -> Result<Option<Arc<str>>, Error> {
        self.life.around("overflowing", self.ledger.overflowing(after)).await
    }

    async fn overflow_due(&self, queue: &str, now: Millis) -> Result<OverflowDue, Error> {
        self.life.around("overflow_due", self.ledger.overflow_due(queue, now)).await
    }

    async fn get(&self, ids: &[JobId]) -> Result<Vec<Option<Job>>, Error> {
        self.life.around("get", self.ledger.get(ids)).await
    }

    async fn versions(&self, ids: &[JobId]) -> Result<Vec<Option<(u64, Stage)>>, Error> {
        self.life.around("versions", self.ledger.versions(ids)).await
    }

    async fn find(&self, find: Find) -> Result<Found, Error> {
        self.life.around("find", self.ledger.find(find)).await
    }

    async fn edit(&self, edits: Vec<Edit>, now: Millis, watermark: Millis) -> Result<Vec<Edited>, Error> {
        self.life.around("edit_ledger", self.ledger.edit(edits, now, watermark)).await
    }

    async fn prune(&self, retention: Retention, now: Millis, limit: usize) -> Result<usize, Error> {
        self.life.around("prune", self.ledger.prune(retention, now, limit)).await
    }

    async fn tallies(&self, queues: Queues) -> Result<Vec<(Arc<str>, Tally)>, Error> {
        self.life.around("tallies", self.ledger.tallies(queues)).await
    }

    async fn remove_queue(&self, queue: &Arc<str>) -> Result<(), Error> {
        self.life.around("remove_tally", self.ledger.remove_queue(queue)).await
    }

    fn troubles(&self) -> Vec<(Trouble, String)> {
        self.ledger.troubles()
    }

    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Leases that are noted, which outlive the process.
pub struct MortalLeases {
    /// The store that notes them.
    pub leases: Arc<dyn Leases>,
    /// The process that holds these leases.
    pub life: Arc<Life>,
}

#[async_trait]
impl Leases for MortalLeases {
    async fn lease(&self, leases: Vec<LeaseRecord>) -> Result<(), Error> {
        self.life.around("lease", self.leases.lease(leases)).await
    }

    async fn leased(&self) -> Result<Vec<Job>, Error> {
        self.life.around("leased", self.leases.leased()).await
    }
}

/// An inbox, which outlives the process.
pub struct MortalInbox {
    /// The inbox.
    pub inbox: Arc<dyn Inbox>,
    /// The process that empties it.
    pub life: Arc<Life>,
}

#[async_trait]
impl Inbox for MortalInbox {
    async fn waiting(&self, after: i64, limit: usize) -> Result<Vec<InboxRow>, Error> {
        self.life.around("inbox", self.inbox.waiting(after, limit)).await
    }

    async fn admit(&self, verdicts: Vec<(i64, Verdict)>) -> Result<Vec<Admitted>, Error> {
        self.life.around("admit", self.inbox.admit(verdicts)).await
    }
}
