//! Orders: pushed under their number as key, so that a push may be repeated, and each with its own tag by which
//! every third is cancelled.

use crate::common::{Exchange, Site};
use duetime::Client;
use duetime_core::api::{Pushed, Span, Timestamp};
use duetime_core::engine::{BulkCounts, Query, ReserveRequest, Source};
use duetime_core::{Due, Job, JobId, Millis, NewJob};
use futures_util::{StreamExt, stream};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const QUEUE: &str = "orders";
/// A queue of writes that only say how far the server got.
const PULSE: &str = "pulse";
/// Between two of them.
const PULSE_WAIT_MS: u64 = 30;
/// Orders in a push.
const BATCH: u64 = 500;
/// The number of tasks that push and cancel.
pub(crate) const COUNTERS: u64 = 3;
/// Cancels on their way at a time, for each of them.
const CANCELS: usize = 12;
/// The minimum rate at which orders are pushed and cancelled, so that all are before they are due.
const ORDERS_PER_SECOND: u64 = 2_000;
/// Every third order.
const CANCELLED_OF: u64 = 3;
const PAGE_JOBS: usize = 1_000;

pub(crate) struct Shop {
    pub(crate) site: Arc<Site>,
    pub(crate) orders: u64,
    first_due: Millis,
    span: Duration,
    /// By order.
    pub(crate) pushed: RefCell<BTreeMap<u64, Pushed>>,
    /// By order: the final answer, and whether a reply was lost before.
    pub(crate) cancels: RefCell<BTreeMap<u64, Cancel>>,
    cancelled: Cell<u64>,
}

pub(crate) struct Cancel {
    pub(crate) answered_at: Millis,
    pub(crate) counts: BulkCounts,
    pub(crate) was_reply_lost: bool,
}

impl Shop {
    pub(crate) fn new(site: Arc<Site>, orders: u64, span: Duration) -> Self {
        let lead_ms = 3_000 + orders * 1_000 / ORDERS_PER_SECOND;
        let first_due = site.now() + lead_ms;
        Self {
            site,
            orders,
            first_due,
            span,
            pushed: RefCell::default(),
            cancels: RefCell::default(),
            cancelled: Cell::default(),
        }
    }

    pub(crate) fn due_at(&self, order: u64) -> Millis {
        self.first_due + self.span.as_millis() as u64 * order / self.orders
    }

    pub(crate) fn is_to_be_cancelled(order: u64) -> bool {
        order.is_multiple_of(CANCELLED_OF)
    }

    /// Pushes a share of the orders, in the order of their due times, and cancels those that are to be.
    pub(crate) async fn push_and_cancel(&self, counter: u64) {
        let batches = (0..self.orders).step_by(BATCH as usize);
        for first in batches.filter(|first| first / BATCH % COUNTERS == counter) {
            let orders: Vec<u64> = (first..(first + BATCH).min(self.orders)).collect();
            self.push(&orders).await;
            let cancels = orders.iter().filter(|&&order| Self::is_to_be_cancelled(order));
            stream::iter(cancels).for_each_concurrent(CANCELS, |&order| self.cancel(order)).await;
        }
    }

    async fn push(&self, orders: &[u64]) {
        let new_job = |&order: &u64| NewJob {
            queue: Arc::from(QUEUE),
            due: Due::At(Timestamp(self.due_at(order))),
            key: Some(Arc::from(order.to_string())),
            tags: vec![tag(order)],
            ..NewJob::new(order.to_string().into_bytes())
        };
        let jobs: Vec<NewJob> = orders.iter().map(new_job).collect();
        loop {
            let request = async |client: Client| client.push_many(jobs.clone()).await;
            if let Some((_, answers)) = self.site.call(|_| true, request).await.answer {
                let answers = answers.expect("a push is answered").into_iter().map(|answer| answer.expect("a job"));
                return self.pushed.borrow_mut().extend(orders.iter().copied().zip(answers));
            }
        }
    }

    async fn cancel(&self, order: u64) {
        let mut was_reply_lost = false;
        loop {
            let request = async |client: Client| client.jobs().cancel_by_tag(tag(order)).await;
            if let Some((answered_at, counts)) = self.site.call(|_| false, request).await.answer {
                let counts = counts.expect("a cancel is answered");
                self.cancels.borrow_mut().insert(order, Cancel { answered_at, counts, was_reply_lost });
                return self.cancelled.set(self.cancelled.get() + 1);
            }
            was_reply_lost = true;
        }
    }

    pub(crate) async fn until_half_is_cancelled(&self) {
        while self.cancelled.get() < self.orders / CANCELLED_OF / 2 {
            self.site.any_answer().await;
        }
    }

    /// Waits until this percentage of the orders is due.
    pub(crate) async fn until_due(&self, percent: u64) {
        while self.site.now() < self.due_at(self.orders * percent / 100) {
            self.site.any_answer().await;
        }
    }

    /// Writes something every now and then; see `Site`.
    pub(crate) async fn keep_writing(&self, is_over: &Cell<bool>) {
        let wait = ReserveRequest {
            from: Source::Queues(vec![Arc::from(PULSE)]),
            limit: 1,
            free: None,
            lease: None,
            wait: Span(PULSE_WAIT_MS),
            request_id: None,
            worker: None,
        };
        while !is_over.get() {
            let request = async |client: Client| client.leases().reserve(wait.clone()).await.map(drop);
            self.site.call(|()| false, request).await;
            let later = Duration::from_secs(3600);
            let request =
                async |client: Client| client.push_raw(PULSE, *b"1").queue(PULSE).after(later).await.map(drop);
            self.site.call(|()| true, request).await;
        }
    }

    pub(crate) async fn wait_until_worked_off(&self) {
        self.until_due(100).await;
        loop {
            let request = async |client: Client| client.queues().get(QUEUE).await;
            if let Some((_, status)) = self.site.call(|_| false, request).await.answer
                && status.expect("a queue's status").tally.pending == 0
            {
                return;
            }
            self.site.any_answer().await;
        }
    }

    /// All orders that are recorded.
    pub(crate) async fn records(&self) -> BTreeMap<JobId, Job> {
        let query = Query { queue: Some(Arc::from(QUEUE)), ..Query::default() };
        let mut records = BTreeMap::new();
        let mut cursor: Option<String> = None;
        loop {
            let request = async |client: Client| client.jobs().page(&query, cursor.as_deref(), PAGE_JOBS).await;
            let Exchange { answer, .. } = self.site.call(|_| false, request).await;
            let page = answer.expect("nobody kills it now").1.expect("a page");
            records.extend(page.jobs.into_iter().map(|job| (job.id, job)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return records;
            }
        }
    }
}

fn tag(order: u64) -> Arc<str> {
    Arc::from(format!("order:{order}"))
}
