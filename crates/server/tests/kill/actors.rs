//! Actors that push, work and cancel, all at once; each one's choices come from the seed.

use crate::account::{Account, End, NewPush};
use crate::common::{Exchange, Random, Site};
use duetime::{Client, Error};
use duetime_core::api::Span;
use duetime_core::engine::{PushOutcome, ReserveRequest, Settlement, Source};
use duetime_core::{Due, JobId, KeyUntil, Millis, NewJob, Receipt, Retry};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) const QUEUE: &str = "work";
/// Above this many jobs nothing is pushed, so that there is always some work, and never too much.
const LIVE_MAX: i64 = 600;
/// Jobs among which cancellers choose.
const RECENT_MAX: usize = 300;
/// Keys that jobs compete for.
const KEYS: u64 = 40;
/// The longest delay of a push.
const DELAY_MS_MAX: u64 = 2_000;
/// How long after the end of its lease a worker is late for certain.
const LATE_MS: u64 = 200;

/// State that all actors share. One thread runs them.
pub(crate) struct Field {
    pub(crate) site: Arc<Site>,
    pub(crate) account: RefCell<Account>,
    /// No more kills: finish all there is.
    pub(crate) is_closing: Cell<bool>,
    /// Nothing is left.
    is_done: Cell<bool>,
    next_number: Cell<u64>,
    /// About how many jobs there are.
    live: Cell<i64>,
    recent: RefCell<VecDeque<(JobId, Vec<Arc<str>>)>>,
}

/// A lease that is not settled yet.
struct Task {
    receipt: Receipt,
    end: End,
    /// How often it is checked before it is settled.
    patience: u64,
}

impl Field {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self {
            site,
            account: RefCell::default(),
            is_closing: Cell::new(false),
            is_done: Cell::new(false),
            next_number: Cell::new(0),
            live: Cell::new(0),
            recent: RefCell::default(),
        }
    }

    /// Pushes until the field is closing.
    pub(crate) async fn push(&self, mut random: Random) {
        while !self.is_closing.get() {
            if self.live.get() > LIVE_MAX {
                self.site.any_answer().await;
                continue;
            }
            let count = if random.percent(50) { 1 } else { random.within(2..40) };
            let jobs: Vec<NewJob> = (0..count).map(|_| self.new_job(&mut random)).collect();
            let has_made_any = |answers: &Vec<_>| is_any_created(answers);
            let exchange = self.site.call(has_made_any, async |client: Client| client.push_many(jobs.clone()).await);
            let Exchange { generation, sent, answer } = exchange.await;
            let answer = answer.map(|(at, answers)| (at, answers.unwrap_or_else(|error| panic!("a push: {error}"))));
            for pushed in answer.iter().flat_map(|(_, answers)| answers).flatten() {
                if pushed.outcome == PushOutcome::Created {
                    self.live.set(self.live.get() + 1);
                }
            }
            let mut batch = Vec::new();
            for (i, job) in jobs.into_iter().enumerate() {
                if let Some(Ok(pushed)) = answer.as_ref().and_then(|(_, answers)| answers.get(i)) {
                    self.remember(pushed.id, job.tags.clone());
                }
                let number = std::str::from_utf8(&job.payload).unwrap().parse().unwrap();
                batch.push((number, NewPush { key: job.key, tags: job.tags }));
            }
            self.account.borrow_mut().pushed(batch, Exchange { generation, sent, answer });
        }
    }

    fn new_job(&self, random: &mut Random) -> NewJob {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let mut job = NewJob { queue: Arc::from(QUEUE), ..NewJob::new(number.to_string().into_bytes()) };
        if random.percent(60) {
            job.due = Due::After(Span(random.within(0..DELAY_MS_MAX + 1)));
        }
        if random.percent(10) {
            job.key = Some(Arc::from(format!("key-{}", random.within(0..KEYS))));
            job.key_until = KeyUntil::Finished;
        }
        if random.percent(30) {
            // Several neighbours share a tag.
            job.tags = vec![Arc::from(format!("order:{}", number / 4)), Arc::from("all")];
        }
        job.options = Retry { max_attempts: Some(0), ..Retry::default() }.into();
        job
    }

    fn remember(&self, id: JobId, tags: Vec<Arc<str>>) {
        let mut recent = self.recent.borrow_mut();
        recent.push_back((id, tags));
        if recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }

    /// Cancels now and then until the field is closing.
    pub(crate) async fn cancel(&self, mut random: Random) {
        while !self.is_closing.get() {
            for _ in 0..random.within(1..8) {
                self.site.any_answer().await;
            }
            let chosen = {
                let recent = self.recent.borrow();
                let place = random.any() as usize % recent.len().max(1);
                recent.get(place).cloned()
            };
            let Some((id, tags)) = chosen else { continue };
            if let Some(tag) = tags.first().filter(|_| random.percent(60)) {
                let request = async |client: Client| client.jobs().cancel_by_tag(tag.clone()).await;
                let Exchange { generation, sent, answer } = self.site.call(|_| false, request).await;
                let answer = answer.map(|(at, counts)| (at, counts.unwrap_or_else(|error| panic!("{tag}: {error}"))));
                let cancelled = answer.as_ref().map_or(0, |(_, counts)| counts.cancelled);
                self.ended(cancelled);
                let exchange = Exchange { generation, sent, answer: answer.map(|(at, _)| (at, ())) };
                self.account.borrow_mut().tag_cancels.push((tag.clone(), exchange));
            } else {
                let request = async |client: Client| client.jobs().cancel(id).await;
                let exchange = self.site.call(|_| false, request).await;
                if let Some((_, Ok(duetime_core::engine::CancelOutcome::Cancelled))) = exchange.answer {
                    self.ended(1);
                }
                self.account.borrow_mut().cancelled(id, exchange);
            }
        }
    }

    /// Works until nothing is left.
    pub(crate) async fn work(&self, mut random: Random) {
        let mut held: Vec<Task> = Vec::new();
        let mut late: Vec<(Millis, Receipt)> = Vec::new();
        let mut stale: Option<Receipt> = None;
        while !self.is_done.get() {
            let is_closing = self.is_closing.get();
            self.reserve(&mut random, &mut held, &mut late).await;
            let now = self.site.now();
            for (_, receipt) in late.extract_if(.., |(end, _)| *end + LATE_MS < now) {
                self.settle(&[(receipt, End::Complete)]).await;
            }
            let mut due = Vec::new();
            for mut task in std::mem::take(&mut held) {
                if task.patience == 0 || is_closing {
                    due.push((task.receipt, task.end));
                } else {
                    task.patience -= 1;
                    held.push(task);
                }
            }
            if random.percent(10)
                && let Some(&(receipt, _)) = due.first()
            {
                self.extend(receipt).await;
            }
            // One by one, or all at once.
            let size = if random.percent(50) { due.len().max(1) } else { 1 };
            for group in due.chunks(size) {
                self.settle(group).await;
            }
            let given_back = due.iter().find(|(_, end)| matches!(end, End::Again(_)));
            if let Some(receipt) = stale.take() {
                self.settle(&[(receipt, End::Complete)]).await;
            } else if random.percent(20) {
                stale = given_back.map(|&(receipt, _)| receipt);
            }
        }
    }

    /// `late`: leases to be settled only when they are over, and their ends.
    async fn reserve(&self, random: &mut Random, held: &mut Vec<Task>, late: &mut Vec<(Millis, Receipt)>) {
        let is_closing = self.is_closing.get();
        let request = ReserveRequest {
            from: Source::Queues(vec![Arc::from(QUEUE)]),
            limit: random.within(1..30) as usize,
            free: None,
            lease: Some(Span(random.within(1_000..4_000))),
            wait: Span(if is_closing { 500 } else { random.within(0..100) }),
            request_id: None,
            worker: None,
        };
        let exchange =
            self.site.call(|_| false, async |client: Client| client.leases().reserve(request.clone()).await).await;
        let Exchange { generation, answer: Some((at, reservation)), .. } = exchange else { return };
        let reservation = reservation.unwrap_or_else(|error| panic!("a reserve: {error}"));
        self.account.borrow_mut().handed_out(&reservation, generation, at);
        if is_closing && reservation.leases.is_empty() && held.is_empty() {
            self.look_whether_all_is_done().await;
        }
        for lease in reservation.leases {
            let patience = if random.percent(4) { random.within(2..30) } else { 0 };
            let end = match random.within(0..100) {
                _ if is_closing => End::Complete,
                0..2 => {
                    late.extend(lease.job.lease_until.map(|end| (end.0, lease.job.receipt())));
                    continue;
                }
                2..4 => End::FailFinally,
                4..14 => End::Again(random.within(0..400)),
                14..18 => End::Again(0),
                _ => End::Complete,
            };
            held.push(Task { receipt: lease.job.receipt(), end, patience });
        }
    }

    async fn look_whether_all_is_done(&self) {
        let request = async |client: Client| client.queues().get(QUEUE).await;
        if let Some((_, status)) = self.site.call(|_| false, request).await.answer {
            self.is_done.set(status.expect("a queue's status").tally.pending == 0);
        }
    }

    async fn extend(&self, receipt: Receipt) {
        let request = async |client: Client| client.leases().extend(vec![(receipt, None)]).await?.remove(0);
        let exchange = self.site.call(|_| false, request).await;
        let Exchange { answer: Some((_, answer)), .. } = exchange else { return };
        match answer {
            Ok(extension) => self.account.borrow_mut().extended(receipt, extension.lease_until.0),
            Err(error) if error.code() == "lease_lost" => {}
            Err(error) => self.account.borrow_mut().wrong.push(format!("the extend of {receipt}: {error}")),
        }
    }

    /// Ends leases; asks again until there is an answer.
    async fn settle(&self, ends: &[(Receipt, End)]) {
        let outcomes: Vec<_> = ends.iter().map(|&(receipt, end)| (receipt, end.outcome())).collect();
        loop {
            let request = async |client: Client| client.leases().settle(outcomes.clone()).await;
            let has_ended_any = |answers: &Vec<Result<Settlement, Error>>| answers.iter().any(Result::is_ok);
            let Exchange { generation, sent, answer } = self.site.call(has_ended_any, request).await;
            let answer = answer.map(|(at, answers)| (at, answers.unwrap_or_else(|error| panic!("a settle: {error}"))));
            for (i, &(receipt, end)) in ends.iter().enumerate() {
                let answer = answer.as_ref().map(|(at, answers)| (*at, answers[i].clone()));
                if let Some((_, Ok(settlement))) = &answer
                    && !settlement.state.is_live()
                {
                    self.ended(1);
                }
                self.account.borrow_mut().settled(receipt, end, &Exchange { generation, sent, answer });
            }
            if answer.is_some() {
                return;
            }
        }
    }

    fn ended(&self, count: u64) {
        self.live.set(self.live.get() - i64::try_from(count).unwrap());
    }
}

fn is_any_created(answers: &[Result<duetime::Pushed, Error>]) -> bool {
    answers.iter().flatten().any(|pushed| pushed.outcome == PushOutcome::Created)
}
