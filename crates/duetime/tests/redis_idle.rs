//! Counts the calls that an idle engine makes to Redis.

use duetime::{Client, Worker};
use duetime_store::testing::RedisServer;
use std::time::Duration;

const QUEUES: usize = 50;
const IDLE: Duration = Duration::from_secs(5);
const CALLS_PER_SECOND_MAX: u64 = 20;

/// Commands that clients have sent, and all that were carried out: those within scripts count there, too.
fn sent(server: &RedisServer) -> (u64, u64) {
    let info = server.command(&["INFO", "commandstats"]);
    let (mut calls, mut all) = (0, 0);
    for line in info.lines() {
        let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(":calls=")) else {
            continue;
        };
        let count: u64 = rest.split(',').next().and_then(|count| count.parse().ok()).expect("a count");
        all += count;
        // The engine's calls besides scripts.
        if ["eval", "evalsha", "hgetall", "hget", "ping", "time", "publish", "subscribe"].contains(&name) {
            calls += count;
        }
    }
    (calls, all)
}

#[tokio::test]
async fn a_worker_that_waits_at_many_queues_asks_for_little() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut worker = Worker::new(&client).fallback(|| async { duetime::worker::Handled::Ok(()) });
    for n in 0..QUEUES {
        let queue = format!("queue-{n}");
        // Each has been used, so that it is known.
        client.push_raw("k", *b"1").queue(queue.clone()).after(Duration::from_secs(3_600)).await.unwrap();
        worker = worker.queue(queue);
    }
    let before = sent(&server);
    worker.run_for(IDLE).await.unwrap();
    let after = sent(&server);
    let (calls, all) = (after.0 - before.0, after.1 - before.1);
    println!("{calls} calls in {IDLE:?} for {QUEUES} queues; {all} commands with those within scripts");
    assert!(calls < CALLS_PER_SECOND_MAX * IDLE.as_secs(), "{calls} calls in {IDLE:?}");
}
