//! Export and import: from one kind of store to another and back, and nothing is different.

use crate::cli::ledger::{Beside, Sql};
use crate::cli::support::{Place, Ran, finish};
use duetime::{Client, ConnectOptions};
use duetime_core::api::Span;
use duetime_core::engine::{QueueSettings, ReserveRequest, Source};
use duetime_core::limits::{DAY_MS, HOUR_MS};
use duetime_core::rules::Failure;
use duetime_core::{
    Backoff, Due, Exponential, Job, JobId, JobOptions, KeyUntil, Meta, NewJob, Overlap, Retry, Schedule, Timing,
    WhenExhausted,
};
use duetime_store::testing::{RedisCluster, RedisServer};
use serde_json::Value;

/// More than a page of them.
const PLAIN: usize = 1_100;

/// Fills stores with jobs in every state.
struct Filler {
    client: Client,
}

impl Filler {
    async fn push(&self, job: NewJob) -> JobId {
        self.client.push_many(vec![job]).await.unwrap().remove(0).unwrap().id
    }

    async fn lease(&self, job: NewJob) -> Job {
        let from = Source::Jobs(vec![self.push(job).await.into()]);
        let request = ReserveRequest::new(from).lease(Span(12 * HOUR_MS)).wait(Span(10_000));
        self.client.leases().reserve(request).await.unwrap().leases.remove(0).job
    }

    /// Answers how many run.
    async fn fill(&self) -> u64 {
        let job = |payload: &[u8]| NewJob { queue: "orders".into(), ..NewJob::new(payload) };
        let later = |ms| NewJob { due: Due::After(Span(ms)), ..job(b"{\"later\": 1.50}") };
        self.client
            .push_many(vec![NewJob { due: Due::After(Span(2 * HOUR_MS)), ..NewJob::new(*b"plain") }; PLAIN])
            .await
            .unwrap();
        self.push(later(20 * 60_000)).await;
        self.push(later(9 * DAY_MS)).await;
        self.push(job(&[0, 255, 128, 10])).await;
        self.push(job(b"{\"several\":\n\"lines\"}")).await;
        self.push(job("\"ünï\u{2028}code\"".as_bytes())).await;
        let backoff = Exponential { first: Span(1_500), factor: 2.5, max: Span(HOUR_MS), jitter: 0.1 };
        let retry = Retry {
            jitter: Some(0.5),
            backoff: Some(Backoff::Exponential(backoff)),
            max_attempts: Some(7),
            max_age: Some(Span(DAY_MS)),
            max_crashes: Some(3),
            when_exhausted: Some(WhenExhausted::Move("graveyard".into())),
        };
        let rich = NewJob {
            kind: "Ship It ".into(),
            priority: 5,
            key: Some("Order-1 ".into()),
            tags: vec!["a".into(), "ä:b".into()],
            lease: Some(Span(90_000)),
            expires: Some(Span(30 * DAY_MS)),
            options: JobOptions {
                retry: retry.clone(),
                trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
                meta: Some(Meta::from_iter([("tenant", "7")]).into()),
                ..JobOptions::default()
            },
            ..later(3 * HOUR_MS)
        };
        self.push(rich.clone()).await;
        self.push(NewJob { key: Some("near".into()), due: Due::After(Span(60_000 * 9)), ..rich }).await;

        let done = self.lease(NewJob { tags: vec!["done".into()], ..job(b"1") }).await;
        self.client.leases().complete(done.receipt(), Some(vec![1, 2, 255].into())).await.unwrap();
        let done = self.lease(NewJob { key: Some("once".into()), ..job(b"2") }).await;
        self.client.leases().complete(done.receipt(), Some((*b"{\"n\": 1}").into())).await.unwrap();
        let failure = |message: &str| Failure { message: message.into(), ..Failure::default() };
        let dead = self.lease(job(b"3")).await;
        self.client.leases().fail(dead.receipt(), Failure { is_final: true, ..failure("no\nway") }).await.unwrap();
        let again = self.lease(job(b"4")).await;
        let wait = Failure { retry_after: Some(Span(2 * HOUR_MS)), ..failure("later") };
        self.client.leases().fail(again.receipt(), wait).await.unwrap();
        let moved = self.lease(NewJob { options: retry.into(), ..job(b"5") }).await;
        self.client.leases().fail(moved.receipt(), Failure { is_final: true, ..failure("dead") }).await.unwrap();
        let cancelled = self.push(later(HOUR_MS)).await;
        self.client.jobs().cancel(cancelled).await.unwrap();

        // These run: the key of the first is free, and taken again.
        let keyed = NewJob { key: Some("started".into()), key_until: KeyUntil::Started, ..job(b"6") };
        self.lease(keyed.clone()).await;
        self.push(NewJob { due: Due::After(Span(HOUR_MS)), ..keyed }).await;
        let asked = self.lease(job(b"7")).await;
        self.client.jobs().cancel(asked.id).await.unwrap();

        let retry = Retry { backoff: Some(Backoff::Steps(vec![Span(1_000), Span(5_000)])), ..Retry::default() };
        let settings =
            QueueSettings { paused: true, lease: Some(Span(45_000)), ..QueueSettings::default() }.with_rule(retry);
        self.client.queues().replace("orders", settings).await.unwrap();
        let weekly = Timing::parse("0 9 * * mon", Some("Asia/Shanghai")).unwrap();
        let report = NewJob { key: Some("weekly".into()), ..job(b"{\"several\":\n\"lines\"}") };
        let schedule = Schedule { overlap: Overlap::Skip, ..Schedule::new(weekly, report) };
        self.client.schedules().set("weekly", schedule).await.unwrap();
        self.client.close().await.unwrap();
        2
    }
}

/// The lines after the head, in one order, without whether a job is already due.
fn lines(ran: &Ran) -> Vec<String> {
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut lines: Vec<String> =
        ran.out.lines().skip(1).map(|line| line.replace("\"ready\"", "\"scheduled\"")).collect();
    lines.sort_unstable();
    lines
}

fn report(ran: &Ran, imported: usize, known: usize) -> Value {
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!((&report["imported"], &report["known"]), (&imported.into(), &known.into()), "{ran:?}");
    assert_eq!((ran.code, &report["refused"]), (0, &0.into()), "{ran:?}");
    report
}

/// Jobs of an export: its lines are those of jobs, of a queue, of a schedule and the end.
fn count(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.starts_with("{\"job\":")).count()
}

fn import(place: &Place, store: &str, exported: &Ran) -> Ran {
    finish(place.bare(&["import", "--json", "--store", store]), exported.out.as_bytes())
}

fn export(place: &Place, store: &str) -> Ran {
    finish(place.bare(&["export", "--store", store]), b"")
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_file_to_redis_beside_postgres_and_back() {
    let (place, beside) = (Place::new(), Beside::new(Sql::postgres()));
    let running = Filler { client: Client::open(place.path("a.db")).await.unwrap() }.fill().await;
    let first = export(&place, "a.db");
    assert!(first.err.contains(&format!("{running} of them were running")), "{}", first.err);
    let expected = lines(&first);
    let jobs = count(&expected);
    assert!(jobs > PLAIN + 15 && expected.len() == jobs + 3, "{jobs}");
    let moved = beside.run(&place, &["import", "--json"], first.out.as_bytes());
    let moved = report(&moved, jobs, 0);
    assert_eq!((&moved["queues"], &moved["schedules"]), (&1.into(), &1.into()));
    // Again, as after a crash.
    report(&beside.run(&place, &["import", "--json"], first.out.as_bytes()), 0, jobs);
    let second = beside.run(&place, &["export"], b"");
    assert_eq!(lines(&second), expected);
    report(&import(&place, "b.db", &second), jobs, 0);
    assert_eq!(lines(&export(&place, "b.db")), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn from_redis_beside_maria_db_to_a_file() {
    let (place, beside) = (Place::new(), Beside::new(Sql::maria_db()));
    let options = ConnectOptions::default().ledger(beside.sql.url());
    let client = Client::connect_with(&beside.redis.url(), options).await.unwrap();
    let running = Filler { client }.fill().await;
    let first = beside.run(&place, &["export"], b"");
    assert!(first.err.contains(&format!("{running} of them were running")), "{}", first.err);
    let expected = lines(&first);
    report(&import(&place, "a.db", &first), count(&expected), 0);
    assert_eq!(lines(&export(&place, "a.db")), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_file_to_redis_alone_and_back() {
    let (place, redis) = (Place::new(), RedisServer::start());
    Filler { client: Client::open(place.path("a.db")).await.unwrap() }.fill().await;
    let first = export(&place, "a.db");
    let expected = lines(&first);
    let in_redis = |arguments: &[&str], input: &[u8]| {
        let mut command = place.bare(arguments);
        command.args(["--server", &redis.url()]);
        finish(command, input)
    };
    report(&in_redis(&["import", "--json"], first.out.as_bytes()), count(&expected), 0);
    report(&in_redis(&["import", "--json"], first.out.as_bytes()), 0, count(&expected));
    let second = in_redis(&["export"], b"");
    assert_eq!(lines(&second), expected);
    let queues: Value = serde_json::from_str(&in_redis(&["queues", "--json"], b"").out).unwrap();
    let orders = queues["queues"].as_array().unwrap().iter().find(|queue| queue["queue"] == "orders").unwrap();
    assert_eq!([&orders["succeeded"], &orders["failed"], &orders["cancelled"]], [2, 2, 2], "{orders}");
    report(&import(&place, "b.db", &second), count(&expected), 0);
    assert_eq!(lines(&export(&place, "b.db")), expected);
}

/// On a Cluster a queue's partition differs from the one in the ids of a file.
#[tokio::test(flavor = "multi_thread")]
async fn from_a_file_to_a_cluster_ids_change_and_nothing_else() {
    let (place, cluster) = (Place::new(), RedisCluster::masters_only());
    Filler { client: Client::open(place.path("a.db")).await.unwrap() }.fill().await;
    let first = export(&place, "a.db");
    let jobs = count(&lines(&first));
    let in_cluster = |arguments: &[&str], input: &[u8]| {
        let mut command = place.bare(arguments);
        command.args(["--server", &cluster.url()]);
        finish(command, input)
    };
    for (imported, known) in [(jobs, 0), (0, jobs)] {
        let moved = report(&in_cluster(&["import", "--json"], first.out.as_bytes()), imported, known);
        assert_eq!(moved["renamed"], jobs);
    }
    let second = in_cluster(&["export"], b"");
    let sequences = |ran: &Ran| -> Vec<String> {
        let of_file = |line: String| {
            let mut line: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = line["job"]["id"].as_str() {
                line["job"]["id"] = (id.parse::<u64>().unwrap() >> 8).into();
            }
            line.to_string()
        };
        let mut lines: Vec<String> = lines(ran).into_iter().map(of_file).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sequences(&second), sequences(&first));
    // And back, to a file with the original ids.
    report(&import(&place, "b.db", &second), jobs, 0);
    assert_eq!(lines(&export(&place, "b.db")), lines(&first));
}

#[test]
fn what_is_no_good_is_refused_and_the_rest_goes_on() {
    let place = Place::new();
    for key in ["1", "2"] {
        place.push(&["--key", key, "--delay", "1h", "x"]);
    }
    let exported = export(&place, "test.db");
    // The second takes the key of the first, and a third has a payload that is none.
    let twice = exported.out.replace("\"key\":\"2\"", "\"key\":\"1\"").replace("eA==\",\"state", "***\",\"state");
    let bad = Ran { out: twice.replacen("***", "eA==", 2), ..export(&place, "test.db") };
    let ran = import(&place, "keys.db", &bad);
    assert!(ran.code == 1 && ran.err.contains("line 3: the key \"1\""), "{ran:?}");
    let bad = Ran { out: twice.replacen("***", "eA==", 1), ..bad };
    let ran = import(&place, "payload.db", &bad);
    assert!(ran.code == 1 && ran.err.contains("line 3: ") && ran.err.contains("base64"), "{ran:?}");
    assert!(ran.out.contains("\"imported\":1") && ran.out.contains("\"refused\":1"), "{ran:?}");
    let ran = finish(place.bare(&["import", "--check", "--json"]), bad.out.as_bytes());
    assert!(ran.code == 1 && ran.out.contains("\"imported\":1"), "{ran:?}");
    let half: String = exported.out.lines().take(2).flat_map(|line| [line, "\n"]).collect();
    let ran = import(&place, "half.db", &Ran { out: half, ..bad });
    assert!(ran.code == 1 && ran.err.contains("incomplete"), "{ran:?}");
    let ran = import(&place, "later.db", &Ran { out: exported.out.replacen(":1,", ":99,", 1), ..ran });
    assert!(ran.code == 1 && ran.err.contains("version"), "{ran:?}");
    let ran = finish(place.bare(&["export", "--server", "http://127.0.0.1:1"]), b"");
    assert!(ran.code == 2 && ran.err.contains("duetime backup"), "{ran:?}");
}

#[test]
fn an_id_that_is_another_jobs_is_refused() {
    let place = Place::new();
    place.push(&["--queue", "here", "--delay", "1h", "x"]);
    let exported = export(&place, "test.db");
    let other = Ran { out: exported.out.replace("\"here\"", "\"there\""), ..exported };
    let ran = import(&place, "test.db", &other);
    assert!(ran.code == 1 && ran.err.contains("which is another job here, in the queue here"), "{ran:?}");
}
