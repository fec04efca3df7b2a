//! A lock between processes that are killed and paused: a holder whose time to live is over never writes the guarded data.
//!
//! The test starts itself again as the contenders. Each has tasks that read a counter under the lock, wait a little, and
//! write it; both name the fence of the lock, and the counter refuses a fence below one that it has seen. `CHAOS_SECONDS`
//! says how long the test runs.

use duetime::{Client, Lock};
use duetime_store::testing::RedisServer;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PROCESSES: usize = 8;
const TASKS: usize = 8;
const TTL: Duration = Duration::from_secs(1);
/// How long tickets of a process that is gone keep their places before others.
const TICKET: Duration = Duration::from_millis(duetime_core::limits::LOCK_TICKET_MS);
/// The time limit for a test to see enough grants.
const SEEN_WITHIN: Duration = Duration::from_secs(90);
/// A holder that stops this long is stale, and so are its tickets.
const PAUSE: Duration = TTL.saturating_add(TICKET).saturating_add(Duration::from_millis(500));
/// See [`STOPS`].
const STOP_OF: u64 = 32;
const URL: &str = "LOCK_CHAOS_URL";
const HISTORY: &str = "LOCK_CHAOS_HISTORY";
const TTL_MS: &str = "LOCK_CHAOS_TTL_MS";
/// Of so many grants, a contender stops itself at one before it writes; 0 for none.
const STOPS: &str = "LOCK_CHAOS_STOPS";
/// Reads the counter, or with a value writes it; refuses a fence below the last one.
const COUNTER: &str = "local last = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) \
    if tonumber(ARGV[1]) < last then return -1 end \
    redis.call('HSET', KEYS[1], 'fence', ARGV[1]) \
    if ARGV[2] then redis.call('HSET', KEYS[1], 'value', ARGV[2]) redis.call('HINCRBY', KEYS[1], 'writes', 1) end \
    return tonumber(redis.call('HGET', KEYS[1], 'value') or 0)";

/// Runs only as a contender, started by the test below. Alone it does nothing, and says so.
#[test]
fn contender() {
    let (Ok(url), Ok(history)) = (std::env::var(URL), std::env::var(HISTORY)) else {
        assert!(std::env::var_os(URL).is_none() && std::env::var_os(HISTORY).is_none(), "both or none");
        return;
    };
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    let (ttl, stops) = (Duration::from_millis(number(TTL_MS)), number(STOPS));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&url).await.unwrap();
        let tasks = (0..TASKS).map(|task| {
            let owner = format!("{}-{task}", std::process::id());
            let lock = client.locks().named("counter").ttl(ttl).owner(owner);
            tokio::spawn(contend(lock, url.clone(), PathBuf::from(&history), task as u64, stops))
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
}

async fn contend(lock: Lock, url: String, history: PathBuf, task: u64, stops: u64) {
    let mut random = u64::from(std::process::id()) << 8 | task;
    let mut below = move |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let mut redis = Resp::new(&url);
    loop {
        // Some give up soon: they must not be granted a lock that they no longer wait for.
        let wait = if below(4) == 0 { Duration::from_millis(below(30)) } else { Duration::from_secs(5) };
        let Ok(guard) = lock.acquire(wait).await else { continue };
        let fence = guard.fence();
        log(&history, fence, "granted");
        let value = redis.counter(fence, None);
        // Some hold it long enough to be killed meanwhile.
        let hold_ms = if below(16) == 0 { 300 } else { below(3) };
        tokio::time::sleep(Duration::from_millis(hold_ms)).await;
        if stops > 0 && below(stops) == 0 {
            signal(std::process::id(), "STOP");
        }
        let written = if value >= 0 { redis.counter(fence, Some(value + 1)) } else { -1 };
        log(&history, fence, if written >= 0 { "wrote" } else { "refused" });
        let at = unix_us();
        if guard.release().await.is_ok() {
            log_at(&history, fence, "released", at);
        }
    }
}

/// Lines of one write each, so that those of many processes do not mix.
fn log(history: &Path, fence: u64, what: &str) {
    log_at(history, fence, what, unix_us());
}

fn log_at(history: &Path, fence: u64, what: &str, at: u128) {
    let mut file = OpenOptions::new().append(true).create(true).open(history).unwrap();
    file.write_all(format!("{fence} {what} {at}\n").as_bytes()).unwrap();
}

fn unix_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

struct Resp(BufReader<TcpStream>);

impl Resp {
    fn new(url: &str) -> Self {
        let address = url.trim_start_matches("redis://").split('/').next().unwrap();
        Self(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    fn counter(&mut self, fence: u64, value: Option<i64>) -> i64 {
        let mut words =
            vec!["EVAL".to_owned(), COUNTER.to_owned(), "1".to_owned(), "counter".to_owned(), fence.to_string()];
        words.extend(value.map(|value| value.to_string()));
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer.trim_start_matches(':').trim().parse().unwrap_or_else(|_| panic!("{answer}"))
    }
}

struct Contender(Child);

impl Contender {
    fn start(url: &str, history: &Path, ttl: Duration, stops: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["lock_chaos::contender", "--exact", "--nocapture"]).env(URL, url).env(HISTORY, history);
        command.env(TTL_MS, ttl.as_millis().to_string()).env(STOPS, stops.to_string());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
    }
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap();
    assert!(sent.success());
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The outcomes of each fence, in order of time.
fn read(history: &Path) -> BTreeMap<u64, Vec<(String, u128)>> {
    let mut fences: BTreeMap<u64, Vec<(String, u128)>> = BTreeMap::new();
    for line in std::fs::read_to_string(history).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [fence, what, at] = words[..] else { panic!("{line}") };
        fences.entry(fence.parse().unwrap()).or_default().push((what.to_owned(), at.parse().unwrap()));
    }
    fences
}

/// The number of fences with this event.
fn count(fences: &BTreeMap<u64, Vec<(String, u128)>>, done: &str) -> usize {
    fences.values().filter(|events| events.iter().any(|(what, _)| what == done)).count()
}

/// Whether a stale holder was refused, among many writes.
fn is_caught(fences: &BTreeMap<u64, Vec<(String, u128)>>) -> bool {
    count(fences, "wrote") > 50 && count(fences, "refused") > 0
}

fn seconds(otherwise: u64) -> Duration {
    let named = std::env::var("CHAOS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(named.unwrap_or(otherwise))
}

/// From a release to the next grant: median and maximum, in milliseconds.
fn gaps(fences: &BTreeMap<u64, Vec<(String, u128)>>) -> (f64, f64) {
    let at = |events: &[(String, u128)], what: &str| events.iter().find(|(word, _)| word == what).map(|&(_, at)| at);
    let pairs = fences.values().zip(fences.values().skip(1));
    let gap = pairs.filter_map(|(before, after)| at(after, "granted")?.checked_sub(at(before, "released")?));
    let mut gaps: Vec<f64> = gap.map(|us| us as f64 / 1e3).collect();
    gaps.sort_by(f64::total_cmp);
    (gaps[gaps.len() / 2], gaps[gaps.len() - 1])
}

/// Nothing is killed: each grant is used, and the counter counts them all.
#[tokio::test]
async fn contenders_in_many_processes_take_turns() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    // Longer than the test, so that no lock expires on a slow machine.
    let start = |_| Contender::start(&server.url(), &history, SEEN_WITHIN, 0);
    let contenders: Vec<Contender> = (0..PROCESSES).map(start).collect();
    let begin = Instant::now();
    let mut look = tokio::time::interval(Duration::from_millis(50));
    while begin.elapsed() < seconds(4) || begin.elapsed() < SEEN_WITHIN && count(&read(&history), "wrote") <= 100 {
        look.tick().await;
    }
    drop(contenders);
    let fences = read(&history);
    let wrote = count(&fences, "wrote");
    assert_eq!(count(&fences, "refused"), 0, "nobody was too late");
    assert!(wrote > 100, "{wrote} grants");
    check(&server, wrote);
    let (median, longest) = gaps(&fences);
    println!("{wrote} grants; from a release to the next grant {median:.1} ms in the middle, {longest:.1} ms at most");
}

/// Contenders are killed, and stop for longer than the lock lives.
#[tokio::test]
async fn a_stale_holder_never_writes() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    let start = || Contender::start(&server.url(), &history, TTL, STOP_OF);
    let mut contenders: Vec<(Contender, Option<Instant>)> = (0..PROCESSES).map(|_| (start(), None)).collect();
    let client = Client::connect(&server.url()).await.unwrap();
    let (begin, mut killed_at) = (Instant::now(), Instant::now());
    let mut look = tokio::time::interval(Duration::from_millis(50));
    // A slow machine needs longer to catch a stale holder.
    while begin.elapsed() < seconds(14) || begin.elapsed() < SEEN_WITHIN && !is_caught(&read(&history)) {
        look.tick().await;
        for (contender, stopped_at) in &mut contenders {
            match *stopped_at {
                Some(since) if since.elapsed() > PAUSE => {
                    signal(contender.0.id(), "CONT");
                    *stopped_at = None;
                }
                None if contender.is_stopped() => *stopped_at = Some(Instant::now()),
                Some(_) | None => {}
            }
        }
        if killed_at.elapsed() > PAUSE
            && let Some(holding) = client.locks().holder("counter").await.unwrap()
        {
            let is_its = |contender: &Contender| holding.owner.starts_with(&format!("{}-", contender.0.id()));
            if let Some(holder) = contenders.iter().position(|(contender, _)| is_its(contender)) {
                contenders[holder] = (start(), None);
                killed_at = Instant::now();
            }
        }
    }
    drop(contenders);
    // Locks granted to the last contenders expire with their time to live, since their holders are gone.
    let guard = client.locks().named("counter").acquire(TTL * 8).await.expect("the lock is free in the end");
    let fences = read(&history);
    assert!(fences.keys().all(|&fence| fence < guard.fence()), "fences only grow");
    guard.release().await.unwrap();
    let twice = fences.iter().find(|(_, events)| events.iter().filter(|(what, _)| what == "granted").count() > 1);
    assert_eq!(twice, None, "a fence is given once");
    let (wrote, refused) = (count(&fences, "wrote"), count(&fences, "refused"));
    assert!(is_caught(&fences), "{wrote} grants written, {refused} refused: no stale holder was caught");
    check(&server, wrote);
    println!("{wrote} grants written, {refused} of stale holders refused");
}

/// Each write built on the one before: the value is the number of writes. A contender may have been killed between its
/// write and its line in the history.
fn check(server: &RedisServer, wrote: usize) {
    let field = |name: &str| server.command(&["HGET", "counter", name]).trim().parse::<usize>().unwrap();
    let (value, writes) = (field("value"), field("writes"));
    assert_eq!(value, writes, "a stale holder's write was lost or came late");
    assert!(writes >= wrote && writes <= wrote + 200, "{writes} writes, {wrote} in the history");
}
