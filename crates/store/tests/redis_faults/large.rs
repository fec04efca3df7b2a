//! Large jobs, and networks that are too slow for their replies: calls and replies are bounded in bytes, and what did not get
//! through is tried again in smaller parts.

use crate::redis_faults::subject::{Subject, until};
use duetime_core::json::Timestamp;
use duetime_core::limits::{ERRORS_BYTES_MAX, ERRORS_KEPT, PAGE_JOBS_MAX, RESERVE_BYTES_MAX};
use duetime_core::model::job::AttemptError;
use duetime_core::ports::{
    Beginning, Broker, BrokerClock as _, Detail, Extend, Extended, Find, Ledger as _, Limits, Listing, Outbox as _,
    Outcomes, PutIf, Registry as _, Reserve, Room, Selector, Settle, Take, Window,
};
use duetime_core::rules::{Again, Decision, Finish};
use duetime_core::testing::ManualClock;
use duetime_core::testing::fixtures::{FixedHost, QUEUE, id, listing, reserve, reserve_from, success, take};
use duetime_core::{Job, JobId, Payload, State};
use duetime_store::redis::{Options, Redis, all_scripts};
use duetime_store::testing::{Command, Fate, Proxy, RedisServer, TooLong};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The bound of calls and replies.
const BOUND: usize = 2 << 20;
/// Beyond the bound, a call may have keys and the like.
const ROOM: usize = 64 << 10;
/// Longer than any lease here.
const LEASE_MS: u64 = 60_000;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A link whose faults begin when they are wanted.
struct Link {
    proxy: Proxy,
    state: Arc<LinkState>,
}

#[derive(Default)]
struct LinkState {
    fate: Mutex<Fate>,
    /// The longest call over each connection, in bytes.
    longest: Mutex<BTreeMap<u64, usize>>,
    calls: AtomicU64,
    /// The calls of each script, by its hash.
    scripts: Mutex<BTreeMap<String, usize>>,
}

impl Link {
    fn to(server: &RedisServer) -> Self {
        let state = Arc::new(LinkState::default());
        let judge = state.clone();
        let proxy = Proxy::to(server.port(), move |command: &Command<'_>| {
            judge.calls.fetch_add(1, Ordering::Relaxed);
            // The name of the command comes first.
            if let Some(hash) = command.bytes.split(|&byte| byte == b'\n').nth(4) {
                let hash = String::from_utf8_lossy(hash).trim_end().to_owned();
                *judge.scripts.lock().unwrap().entry(hash).or_default() += 1;
            }
            let mut longest = judge.longest.lock().unwrap();
            let longest = longest.entry(command.connection).or_default();
            *longest = command.bytes.len().max(*longest);
            *judge.fate.lock().unwrap()
        });
        Self { proxy, state }
    }

    async fn subject(&self, beside: bool) -> Subject {
        let options = Options { beside: beside.then(|| "test".into()), ..Options::default() };
        let redis = Redis::connect(&self.proxy.url(), options).await.unwrap();
        redis.begin(Arc::new(FixedHost::default())).await.unwrap();
        Subject { redis }
    }

    fn set(&self, fate: Fate) {
        *self.state.fate.lock().unwrap() = fate;
    }

    /// From now on longer replies are lost.
    fn lose_longer_than(&self, bytes: usize, how: TooLong) {
        self.set(Fate { reply_max: Some((bytes, how)), ..Fate::default() });
    }

    /// How often this script was called.
    fn calls_of(&self, script: &str) -> usize {
        let (_, hash) = all_scripts().into_iter().find(|(name, _)| *name == script).expect("a script");
        self.state.scripts.lock().unwrap().get(hash).copied().unwrap_or(0)
    }

    fn connections(&self) -> usize {
        self.state.longest.lock().unwrap().len()
    }

    fn longest_call(&self) -> usize {
        self.state.longest.lock().unwrap().values().copied().max().unwrap_or(0)
    }
}

/// Jobs with payloads of this size, due now.
fn jobs(s: &Subject, numbers: std::ops::RangeInclusive<u64>, payload: usize) -> Vec<Job> {
    let payload: Arc<[u8]> = vec![b'x'; payload].into();
    numbers.map(|n| Job { payload: payload.clone(), ..s.job(n) }).collect()
}

async fn put(s: &Subject, jobs: Vec<Job>) {
    s.redis.put(jobs, s.redis.reading(), Room::Any).await.unwrap();
}

/// Reserves until nothing is due.
async fn reserve_all(s: &Subject) -> Vec<Job> {
    let mut all = Vec::new();
    loop {
        let some = s.reserve(1_000).await.unwrap();
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

fn ids(jobs: &[Job]) -> BTreeSet<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

fn first(n: u64) -> BTreeSet<JobId> {
    (1..=n).map(id).collect()
}

/// A success with a result of this size.
fn result(bytes: usize) -> Decision {
    let Decision::Finish(finish) = success() else { unreachable!("a success finishes") };
    Decision::Finish(Finish { result: Some(vec![b'r'; bytes].into()), ..finish })
}

/// A failure that leaves the job running again at once.
fn failure(job: &Job, message: &Arc<str>, due_at: u64) -> Settle {
    let error = AttemptError { attempt: job.attempt, at: Timestamp(due_at), crashed: false, message: message.clone() };
    let again = Again { due_at, attempt: job.attempt, error: Some(error), ..Again::default() };
    Settle::while_unchanged(job.clone(), Decision::Again(again))
}

/// Records what is in the outbox, as an engine does, until nothing is left. Returns the jobs.
async fn drain(redis: &Redis) -> BTreeSet<JobId> {
    let mut drained = BTreeSet::new();
    loop {
        let entries = redis.outcomes(Outcomes::Oldest { limit: 1_000, age_ms: 0 }).await.unwrap();
        if entries.is_empty() {
            return drained;
        }
        let noted: Vec<(JobId, u64)> = entries.iter().map(|entry| (entry.job().id, entry.job().version)).collect();
        redis.forget(&noted, u64::MAX).await.unwrap();
        drained.extend(noted.iter().map(|(id, _)| *id));
    }
}

/// After the database was away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_with_large_results_are_read() {
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(true).await;
    put(&s, jobs(&s, 1..=60, 10)).await;
    let leased = reserve_all(&s).await;
    let settles = leased.iter().map(|job| Settle::new(job.receipt(), result(MIB))).collect();
    let settled = s.redis.settle(settles).await.unwrap();
    assert_eq!(settled.states, vec![Some(State::Succeeded); 60]);
    assert_eq!(settled.entries.len(), 60, "also those that did not fit in a reply");
    assert!(settled.entries.iter().all(|entry| entry.job().result.as_ref().is_some_and(|result| result.len() == MIB)));
    // A reply above the bound would break it.
    link.lose_longer_than(BOUND + ROOM, TooLong::Breaks);
    let before = link.connections();
    assert_eq!(drain(&s.redis).await, first(60));
    assert_eq!(link.connections(), before, "no reply exceeded the bound");
    assert!(link.longest_call() <= BOUND + ROOM, "{}", link.longest_call());
}

/// The ledger has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_are_recorded_without_payloads() {
    let (server, count) = (RedisServer::start(), 40);
    let link = Link::to(&server);
    let s = link.subject(true).await;
    put(&s, jobs(&s, 1..=count, MIB / 4)).await;
    let leased = reserve_all(&s).await;
    let sent = || {
        let info = server.command(&["INFO", "stats"]);
        let sent = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        sent.unwrap().trim().parse::<usize>().unwrap()
    };
    let before = sent();
    let settles = leased.iter().map(|job| Settle::new(job.receipt(), success())).collect();
    assert_eq!(s.redis.settle(settles).await.unwrap().entries.len(), leased.len());
    assert_eq!(drain(&s.redis).await, first(count));
    assert!(sent() - before < MIB / 4, "{} bytes", sent() - before);
}

/// The jobs run again, so no answer may say that their ends are recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_not_known_if_redis_is_emptied_before_its_outcome_was_read() {
    let server = Arc::new(RedisServer::start());
    let (_, outcomes) = all_scripts().into_iter().find(|(name, _)| *name == "outcomes").expect("a script");
    let (emptied, is_emptied) = (server.clone(), AtomicBool::new(false));
    let proxy = Proxy::to(server.port(), move |command: &Command<'_>| {
        let reads = command.bytes.windows(outcomes.len()).any(|bytes| bytes == outcomes.as_bytes());
        if reads && !is_emptied.swap(true, Ordering::Relaxed) {
            emptied.command(&["FLUSHALL"]);
        }
        Fate::default()
    });
    let options = Options { beside: Some("test".into()), ..Options::default() };
    let redis = Redis::connect(&proxy.url(), options).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
    let s = Subject { redis };
    put(&s, jobs(&s, 1..=4, 10)).await;
    let leased = reserve_all(&s).await;
    let settles = leased.iter().map(|job| Settle::new(job.receipt(), result(MIB))).collect();
    let settled = s.redis.settle(settles).await.unwrap();
    let noted: BTreeSet<JobId> = settled.entries.iter().map(|entry| entry.job().id).collect();
    let known = leased.iter().zip(&settled.states).filter(|(_, state)| state.is_some()).map(|(job, _)| job.id);
    assert_eq!(known.collect::<BTreeSet<_>>(), noted);
    assert!(noted.len() < 4, "the others did not fit in the reply");
}

/// A queue of each of so many partitions.
fn queue_of_each_partition(redis: &Redis, partitions: usize) -> BTreeMap<u16, String> {
    let mut queues = BTreeMap::new();
    for name in (0..).map(|n| format!("q{n}")) {
        queues.entry(redis.partition(&name)).or_insert(name);
        if queues.len() == partitions {
            break;
        }
    }
    queues
}

/// Each part of the answer has a bound, and so has their sum.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reserve_of_several_partitions_is_bounded_as_a_whole() {
    const PARTITIONS: usize = 32;
    const EACH: u64 = 2;
    let server = RedisServer::start();
    let options = Options { beside: Some("test".into()), ..Options::default() };
    let redis = Redis::connect(&format!("{}?partitions={PARTITIONS}", server.url()), options).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
    let s = Subject { redis };
    let queues = queue_of_each_partition(&s.redis, PARTITIONS);
    let payload: Payload = vec![b'x'; MIB].into();
    for (&partition, queue) in &queues {
        let job = |n| Job {
            id: JobId::in_partition(1 + u64::from(partition) * EACH + n, partition),
            queue: queue.as_str().into(),
            payload: payload.clone(),
            ..s.job(1)
        };
        put(&s, (0..EACH).map(job).collect()).await;
    }
    let names: Vec<&str> = queues.values().map(String::as_str).collect();
    // The last part may exceed the sum by what one call may.
    let most = (RESERVE_BYTES_MAX + BOUND) / MIB + 1;
    let (mut left, mut answers) = (PARTITIONS * EACH as usize, 0);
    while left > 0 {
        let got = s.redis.reserve(reserve_from(&names, 1_000)).await.unwrap().leases.len();
        assert!((1..=most).contains(&got), "{got} jobs of 1 MiB in one answer");
        (left, answers) = (left - got, answers + 1);
    }
    assert!(answers > 1, "all fitted in one");
}

/// One call reads several partitions, and stops once it has as much as a reply may have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_of_several_partitions_are_bounded_together() {
    const PARTITIONS: usize = 8;
    let server = RedisServer::start();
    let options = Options { beside: Some("test".into()), ..Options::default() };
    let redis = Redis::connect(&format!("{}?partitions={PARTITIONS}", server.url()), options).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
    let s = Subject { redis };
    let queues = queue_of_each_partition(&s.redis, PARTITIONS);
    let job = |(&partition, queue): (&u16, &String)| {
        let id = JobId::in_partition(1 + u64::from(partition), partition);
        Job { id, queue: queue.as_str().into(), ..s.job(1) }
    };
    let all: Vec<Job> = queues.iter().map(job).collect();
    let put_ids = ids(&all);
    put(&s, all).await;
    for queue in queues.values() {
        let lease = s.redis.reserve(reserve(queue, 1)).await.unwrap().leases.remove(0);
        s.redis.settle(vec![Settle::new(lease.job.receipt(), result(MIB))]).await.unwrap();
    }
    let entries = s.redis.outcomes(Outcomes::Oldest { limit: 1_000, age_ms: 0 }).await.unwrap();
    assert!((2..=1 + BOUND / MIB).contains(&entries.len()), "{} results of 1 MiB in one call", entries.len());
    assert_eq!(drain(&s.redis).await, put_ids);
}

/// Each loop must get on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reading_gets_through_a_link_that_loses_long_replies() {
    const N: u64 = 60;
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(true).await;
    put(&s, jobs(&s, 1..=N, 50 * KIB)).await;
    link.lose_longer_than(300 * KIB, TooLong::Breaks);
    let all: Vec<JobId> = (1..=N).map(id).collect();

    let read = Broker::get(&s.redis, &all, Detail::Whole).await.unwrap();
    assert!(read.iter().all(|job| job.as_ref().is_some_and(|job| job.payload.len() == 50 * KIB)));
    let (mut after, mut listed) = (None, BTreeSet::new());
    loop {
        let page = s.redis.list(Listing { after, ..listing(QUEUE) }).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.due_at.0, last.id));
        listed.extend(ids(&page));
    }
    assert_eq!(listed, first(N));
    let heads = s.redis.list(Listing { detail: Detail::Head, ..listing(QUEUE) }).await.unwrap();
    assert_eq!(ids(&heads), first(N), "one page");
    assert!(heads.iter().all(|job| job.payload.is_empty()));

    let leased = reserve_all(&s).await;
    assert_eq!((leased.len(), ids(&leased)), (N as usize, first(N)), "each is handed out, once");
    let message: Arc<str> = "e".repeat(20 * KIB).into();
    let now = s.redis.now();
    let settles = leased.iter().map(|job| failure(job, &message, now)).collect();
    assert!(s.redis.settle(settles).await.unwrap().states.iter().all(Option::is_some));
    let leased = reserve_all(&s).await;
    assert_eq!(ids(&leased), first(N));
    let settles = leased.iter().map(|job| Settle::new(job.receipt(), result(20 * KIB))).collect();
    assert_eq!(s.redis.settle(settles).await.unwrap().states, vec![Some(State::Succeeded); N as usize]);
    assert_eq!(drain(&s.redis).await, first(N));
}

/// The first reserve leased more than one reply can bring.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reserve_whose_reply_was_too_long_is_repeated_in_parts() {
    for takes in [false, true] {
        let server = RedisServer::start();
        let link = Link::to(&server);
        let s = link.subject(false).await;
        s.redis.record(jobs(&s, 1..=40, 50 * KIB), u64::MAX).await.unwrap();
        link.lose_longer_than(300 * KIB, TooLong::Breaks);
        let once = || async {
            let request_id = Some(Arc::from("once"));
            if takes {
                let asked = Take { request_id, ..take(QUEUE, 1_000) };
                return s.redis.take(asked).await.unwrap().reserved.leases;
            }
            s.redis.reserve(Reserve { request_id, ..reserve(QUEUE, 1_000) }).await.unwrap().leases
        };
        let leases = once().await;
        let handed_out: Vec<JobId> = leases.iter().map(|lease| lease.job.id).collect();
        link.set(Fate::default());
        assert_eq!(handed_out, (1..=40).map(id).collect::<Vec<_>>(), "take: {takes}");
        assert!(leases.iter().all(|lease| lease.job.attempt == 1));
        let again = once().await;
        assert_eq!(again.len(), 40, "take: {takes}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_get_through_a_link_that_loses_long_replies() {
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(false).await;
    s.redis.record(jobs(&s, 1..=60, 50 * KIB), u64::MAX).await.unwrap();
    link.lose_longer_than(300 * KIB, TooLong::Breaks);
    let find = |after| Find {
        selector: Selector::All,
        queue: None,
        states: Vec::new(),
        kind: None,
        due: Window::ALL,
        after,
        limit: PAGE_JOBS_MAX,
    };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = s.redis.find(find(after)).await.unwrap();
        found.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(ids(&found), first(60));
}

/// Settings and schedules are read by all processes again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_get_through_a_link_that_loses_long_replies() {
    const N: u64 = 40;
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(false).await;
    let body = "x".repeat(50 * KIB);
    for n in 0..N {
        assert_eq!(s.redis.put_if("kind", &n.to_string(), &body, 0).await.unwrap(), PutIf::Stored(1));
    }
    link.lose_longer_than(400 * KIB, TooLong::Breaks);
    let read = s.redis.documents("kind").await.unwrap();
    assert!(read.len() == N as usize && read.iter().all(|document| document.body == body));
}

/// Nothing breaks, but neither does anything arrive: the calls are given up, and so is the size of their replies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_never_arrive_are_asked_for_in_parts() {
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(true).await;
    put(&s, jobs(&s, 1..=30, 100 * KIB)).await;
    for job in reserve_all(&s).await {
        assert_eq!(s.settle(job.receipt(), success()).await.unwrap(), Some(State::Succeeded));
    }
    link.lose_longer_than(1_500 * KIB, TooLong::Stalls);
    assert_eq!(drain(&s.redis).await, first(30));
}

/// Whether their leases have expired is known from heads, which carry the histories.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_jobs_with_long_histories_come_back_over_a_slow_link() {
    const N: u64 = 300;
    let server = RedisServer::start();
    let link = Link::to(&server);
    let clock = Arc::new(ManualClock::new());
    let options = Options { clock: Some(clock.clone()), ..Options::default() };
    let redis = Redis::connect(&link.proxy.url(), options).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
    let s = Subject { redis };
    let message: Arc<str> = "e".repeat(2 * KIB).into();
    let error =
        |n: usize| AttemptError { attempt: n as u32, at: Timestamp(n as u64), crashed: true, message: message.clone() };
    let errors: Vec<AttemptError> = (1..=ERRORS_KEPT).map(error).collect();
    let with_history =
        |job| Job { errors: errors.clone(), message: Some(message.clone()), attempt: 20, version: 2, ..job };
    s.redis.record(jobs(&s, 1..=N, 10).into_iter().map(with_history).collect(), u64::MAX).await.unwrap();
    assert_eq!(ids(&reserve_all(&s).await), first(N));
    clock.advance(LEASE_MS + 1);
    // The histories take 12 s.
    link.set(Fate { bytes_per_second: MIB as u32, ..Fate::default() });
    let before = link.connections();
    let mut crashed = BTreeSet::new();
    while crashed.len() < N as usize {
        let expired = s.redis.expired(1_000).await.unwrap().crashed;
        assert!(!expired.is_empty(), "{} of {N}", crashed.len());
        let settles = expired.iter().map(|job| Settle::while_unchanged(job.clone(), success())).collect();
        s.redis.settle(settles).await.unwrap();
        crashed.extend(ids(&expired));
    }
    assert_eq!(crashed, first(N));
    assert_eq!(link.connections(), before, "no call was given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reply_fails_no_other_call() {
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(false).await;
    s.redis.record(jobs(&s, 1..=2, 900 * KIB), u64::MAX).await.unwrap();
    // The replies take 5 s, longer than a call waits for a server that does not answer.
    link.set(Fate { bytes_per_second: MIB as u32, ..Fate::default() });
    let before = link.connections();
    let calls = link.state.calls.load(Ordering::Relaxed);
    let read = |s: Subject| async move { Broker::get(&s.redis, &[1, 2].map(id), Detail::Whole).await };
    let readings: Vec<_> = (0..3).map(|_| tokio::spawn(read(s.clone()))).collect();
    until("the readings to be sent", || link.state.calls.load(Ordering::Relaxed) >= calls + 3).await;
    for n in 5..=8 {
        s.push([n]).await.unwrap();
    }
    for reading in readings {
        assert_eq!(reading.await.unwrap().unwrap().iter().flatten().count(), 2);
    }
    assert_eq!(link.connections(), before);
}

/// It takes longer than others wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_jobs_delay_no_other_call() {
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(true).await;
    let usual: BTreeSet<u64> = link.state.longest.lock().unwrap().keys().copied().collect();
    put(&s, jobs(&s, 1..=1, 4 * MIB)).await;
    put(&s, jobs(&s, 2..=2, 10)).await;
    link.set(Fate { bytes_per_second: MIB as u32, ..Fate::default() });
    let is_over = Arc::new(AtomicBool::new(false));
    let cycle = tokio::spawn({
        let (s, is_over) = (s.clone(), is_over.clone());
        async move {
            let large = s.one().await;
            assert_eq!(large.payload.len(), 4 * MIB);
            let heads = Broker::get(&s.redis, &[large.id], Detail::Head).await.unwrap();
            assert!(heads[0].is_some());
            assert_eq!(s.settle(large.receipt(), success()).await.unwrap(), Some(State::Succeeded));
            assert_eq!(drain(&s.redis).await, [large.id].into());
            is_over.store(true, Ordering::SeqCst);
        }
    });
    while !is_over.load(Ordering::SeqCst) {
        Broker::get(&s.redis, &[id(2)], Detail::Whole).await.unwrap();
        tokio::task::yield_now().await;
        assert!(!cycle.is_finished() || is_over.load(Ordering::SeqCst), "it was cut short");
    }
    cycle.await.unwrap();
    let longest = link.state.longest.lock().unwrap();
    let large: Vec<u64> =
        longest.iter().filter(|(_, bytes)| **bytes > BOUND + ROOM).map(|(number, _)| *number).collect();
    assert!(large.len() == 1 && !usual.contains(&large[0]), "large calls have a connection of their own: {longest:?}");
}

/// One call with all of it held Redis for seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_with_the_longest_histories_are_settled_in_parts() {
    const N: u64 = 100;
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(false).await;
    s.push(1..=N).await.unwrap();
    let message: Arc<str> = "x".repeat(ERRORS_BYTES_MAX / ERRORS_KEPT).into();
    for round in 0..ERRORS_KEPT + 2 {
        let leased = reserve_all(&s).await;
        assert_eq!(ids(&leased), first(N), "round {round}");
        let now = s.redis.now();
        let settles = leased.iter().map(|job| failure(job, &message, now)).collect();
        assert_eq!(s.redis.settle(settles).await.unwrap().states, vec![Some(State::Ready); N as usize]);
    }
    assert!(link.longest_call() <= BOUND + ROOM, "{}", link.longest_call());
    // They can be read and extended in any number.
    let leased = reserve_all(&s).await;
    let leases = leased.iter().map(|job| Extend::new(job.receipt(), None)).collect();
    let extended = s.redis.extend(leases).await.unwrap();
    assert!(extended.iter().all(|extended| matches!(extended, Extended::Until { .. })));
    let heads =
        Broker::get(&s.redis, &leased.iter().map(|job| job.id).collect::<Vec<_>>(), Detail::Head).await.unwrap();
    assert!(heads.iter().flatten().all(|job| job.errors.len() == ERRORS_KEPT));
}

/// Many jobs with long histories are small in a call. One script that reads all of them would hold up the calls of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_reads_no_more_than_its_bound() {
    // Together 25 MiB, of which a script reads 16.
    const N: u64 = 400;
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(false).await;
    let message: Arc<str> = "x".repeat(ERRORS_BYTES_MAX / ERRORS_KEPT).into();
    let error = |n: usize| AttemptError {
        attempt: n as u32,
        at: Timestamp(n as u64),
        crashed: false,
        message: message.clone(),
    };
    let errors: Vec<AttemptError> = (1..=ERRORS_KEPT).map(error).collect();
    let with_history = |job| Job { errors: errors.clone(), attempt: 20, version: 2, ..job };
    s.redis.record(jobs(&s, 1..=N, 10).into_iter().map(with_history).collect(), u64::MAX).await.unwrap();
    let leased = reserve_all(&s).await;
    assert_eq!(ids(&leased), first(N));

    let extends = leased.iter().map(|job| Extend::new(job.receipt(), None)).collect();
    assert!(s.redis.extend(extends).await.unwrap().iter().all(|extended| *extended != Extended::Lost));
    let settles = leased.iter().map(|job| Settle::new(job.receipt(), success())).collect();
    let settled = s.redis.settle(settles).await.unwrap();
    assert_eq!(settled.states, vec![Some(State::Succeeded); N as usize]);
    assert_eq!((link.calls_of("extend"), link.calls_of("settle")), (2, 2));
}

/// The tags of what is forgotten stand in the body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tagged_jobs_are_forgotten_in_parts() {
    // Together 40 MiB, of which a script reads 16.
    const N: u64 = 40;
    let server = RedisServer::start();
    let link = Link::to(&server);
    let s = link.subject(true).await;
    let tagged = jobs(&s, 1..=N, MIB).into_iter().map(|job| Job { tags: Arc::from(["order".into()]), ..job });
    // One reading for all of them would be too old for the last ones.
    for job in tagged {
        put(&s, vec![job]).await;
    }
    let leased = reserve_all(&s).await;
    assert_eq!(ids(&leased), first(N));
    let settles = leased.iter().map(|job| Settle::new(job.receipt(), success())).collect();
    assert_eq!(s.redis.settle(settles).await.unwrap().states, vec![Some(State::Succeeded); N as usize]);

    let noted: Vec<(JobId, u64)> = leased.iter().map(|job| (job.id, u64::MAX >> 16)).collect();
    s.redis.forget(&noted, u64::MAX).await.unwrap();
    assert_eq!(link.calls_of("forget"), 3);
    assert!(
        Broker::get(&s.redis, &leased.iter().map(|job| job.id).collect::<Vec<_>>(), Detail::Head)
            .await
            .unwrap()
            .iter()
            .all(Option::is_none)
    );
}

/// They do not fit into one call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_many_queues_hold_from_the_first_job() {
    const COUNT: usize = 6_000;
    let server = RedisServer::start();
    let link = Link::to(&server);
    let queue = |n: usize| -> Arc<str> { format!("{n:0>250}").into() };
    let limits = Limits { paused: true, ..Limits::default() };
    let generation = AtomicU64::new(1);
    let begin = async |queues: std::ops::Range<usize>| {
        let limits = queues.map(|n| (queue(n), limits, 1)).collect();
        let beginning = Beginning { generation: generation.fetch_add(1, Ordering::Relaxed), limits };
        let options = Options { beside: Some("test".into()), ..Options::default() };
        let redis = Redis::connect(&link.proxy.url(), options).await.unwrap();
        redis.begin(Arc::new(FixedHost(beginning))).await.unwrap();
        redis
    };
    let paused = || server.command(&["SCARD", "{duetime:default:0}:paused"]);
    begin(0..COUNT).await;
    assert_eq!(paused(), COUNT.to_string());
    // A memory begins again: two processes do it at once, with fewer queues.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    server.command(&["REPLICAOF", "NO", "ONE"]);
    let (one, other) = tokio::join!(begin(9..COUNT), begin(9..COUNT));
    for redis in [one, other] {
        redis.expired(1).await.unwrap();
    }
    assert_eq!(paused(), (COUNT - 9).to_string());
    assert!(link.longest_call() < MIB, "{}", link.longest_call());
}
