//! A call about one queue costs the same beside many others: Redis counts only the requested queues.

use duetime_core::Job;
use duetime_core::ports::{Broker, BrokerClock, Find, Ledger, Queues, Registry, Selector, Window};
use duetime_core::testing::fixtures::{FixedHost, due, reserve};
use duetime_store::redis::{Options, Redis};
use duetime_store::testing::RedisServer;
use std::sync::Arc;

const MANY: u64 = 3_000;

/// Commands that Redis has executed so far, including those within scripts, except INFO and PING.
fn commands(server: &RedisServer) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    let counts = info.lines().filter(|line| !line.starts_with("cmdstat_info") && !line.starts_with("cmdstat_ping"));
    counts.filter_map(|line| line.split_once(":calls=")?.1.split(',').next()?.parse::<u64>().ok()).sum()
}

async fn connect(server: &RedisServer, namespace: &str, queues: u64) -> Redis {
    let url = format!("{}?namespace={namespace}", server.url());
    let redis = Redis::connect(&url, Options::default()).await.unwrap();
    redis.begin(Arc::new(FixedHost::default())).await.unwrap();
    let now = redis.now();
    let of = |n: u64| Job { queue: format!("q{n}").into(), ..due(n, now) };
    redis.record((1..=queues).map(of).collect(), u64::MAX).await.unwrap();
    redis
}

/// The number of one kind.
pub(super) fn calls(server: &RedisServer, command: &str) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// The number of commands that this takes.
async fn cost<T>(server: &RedisServer, asked: impl Future<Output = T>) -> (u64, T) {
    let before = commands(server);
    let answer = asked.await;
    (commands(server) - before, answer)
}

#[tokio::test]
async fn one_queue_costs_the_same_beside_many_others() {
    let server = RedisServer::start();
    let mut costs = Vec::new();
    // The first one has Redis learn the scripts.
    for (namespace, queues) in [("first", 1), ("one", 1), ("many", MANY)] {
        let redis = connect(&server, namespace, queues).await;
        let one = || Queues::one(&Arc::from("q1"));
        let (counts, counted) = cost(&server, redis.counts(one())).await;
        assert_eq!(counted.unwrap()[0].1.ready, 1);
        let (tallies, counted) = cost(&server, redis.tallies(one())).await;
        assert_eq!(counted.unwrap()[0].1.pending, 1);
        let (leased, reserved) = cost(&server, redis.reserve(reserve("q1", 1))).await;
        assert_eq!(reserved.unwrap().leases.len(), 1);
        costs.push([counts, tallies, leased]);
    }
    assert_eq!(costs[1], costs[2], "commands to count, tally and reserve");
    assert!(costs[0].iter().all(|&count| count < 60), "{costs:?}");
}

#[tokio::test]
async fn many_queues_are_counted_in_bounded_steps() {
    let server = RedisServer::start();
    let redis = connect(&server, "many", MANY).await;
    let (count, page) = cost(&server, redis.counts(Queues::From("q2".into(), 10))).await;
    let names: Vec<String> = page.unwrap().iter().map(|(queue, ..)| queue.to_string()).collect();
    assert_eq!((names.len(), names[0].as_str(), names[1].as_str()), (10, "q2", "q20"));
    assert!(count < 300, "{count} commands for ten of many");

    // A walk through what waits asks for one queue after the other, not for all each time.
    let find = Find {
        selector: Selector::All,
        queue: None,
        states: Vec::new(),
        kind: None,
        due: Window::ALL,
        after: None,
        limit: 5,
    };
    let (count, found) = cost(&server, redis.find(find)).await;
    assert!(!found.unwrap().jobs.is_empty());
    assert!(count < 300, "{count} commands for some jobs of many queues");
    assert!(redis.counts(Queues::one(&"q77".into())).await.unwrap()[0].1.ready == 1);
}

#[tokio::test]
async fn many_documents_are_read_in_bounded_steps() {
    let server = RedisServer::start();
    let redis = Redis::connect(&server.url(), Options::default()).await.unwrap();
    for n in 0..MANY {
        redis.put_if("queue", &format!("q{n:04}"), "{}", 0).await.unwrap();
    }
    let (count, documents) = cost(&server, redis.documents("queue")).await;
    let names: Vec<String> = documents.unwrap().into_iter().map(|document| document.name).collect();
    assert!(names.is_sorted() && names.len() == MANY as usize);
    assert!(count > 2, "not in one step");
}
