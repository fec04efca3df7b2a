//! The PHP programs of `examples/after-sale`, as a shop runs them.

use super::database::Database;
use super::{LIMIT, Server, blocking};
use duetime_core::engine::Query;
use duetime_core::{JobRef, State as JobState};
use duetime_store::testing::RedisServer;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use tokio::time::{interval, timeout};

/// The successive answers of the payment service for each order.
fn answers(order: &str) -> &'static [u16] {
    match order {
        "1003" => &[503, 500, 200],
        "1004" => &[422],
        _ => &[200],
    }
}

/// A payment service; returns its address.
fn payments() -> String {
    let mut calls: Vec<String> = Vec::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/refunds", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap(), &mut calls)));
    address
}

fn answer(mut stream: TcpStream, calls: &mut Vec<String>) {
    let mut request = Vec::new();
    let mut part = [0; 1_024];
    while !request.ends_with(b"}") {
        let count = stream.read(&mut part).unwrap();
        request.extend_from_slice(&part[..count]);
    }
    let request = String::from_utf8(request).unwrap();
    let order = request.split_once("\"order\":\"").unwrap().1.split_once('"').unwrap().0.to_owned();
    let count = calls.iter().filter(|call| **call == order).count();
    let status = answers(&order)[count.min(answers(&order).len() - 1)];
    calls.push(order);
    write!(stream, "HTTP/1.1 {status} Said\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsaid").unwrap();
}

/// Runs one of the programs; returns its output.
fn php(server: &Server, payments: &str, arguments: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/after-sale");
    let mut command = Command::new("php");
    command.current_dir(folder).args(arguments);
    command.env("DUETIME_SERVER", &server.address).env("REFUND_API", payments);
    let ran = command.output().expect("php is there");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&ran.stderr));
    said
}

async fn refunds(database: Database) {
    let redis = blocking(RedisServer::start).await;
    let server = Server::start(&redis, &database).await;
    let payments = payments();
    let run = |arguments: &[&str]| php(&server, &payments, arguments);
    for order in ["1001", "1002", "1003", "1004"] {
        let delay = if order == "1001" { "48h" } else { "10ms" };
        assert!(run(&["request.php", order, "19.90", delay]).ends_with(" created\n"));
    }
    assert!(run(&["request.php", "1001", "19.90"]).ends_with(" kept\n"), "an order has one request");
    assert!(run(&["handled.php", "1001"]).contains("\"cancelled\":1"));

    let query = Query { queue: Some("after-sale".into()), ..Query::default() };
    let all_have_ended = async {
        let mut looks = interval(std::time::Duration::from_millis(20));
        loop {
            looks.tick().await;
            run(&["worker.php", "--once"]);
            let jobs = server.client.jobs().page(&query, None, 10).await.unwrap().jobs;
            if jobs.iter().all(|job| !job.is_pending()) {
                return jobs;
            }
            // The rule has it wait for 15 s; an operator does not.
            for job in jobs.iter().filter(|job| job.is_pending() && job.attempt > 0) {
                // A wait begins at the latest that the clock can read when it is decided, a moment before it is recorded.
                let waits = job.due_at.0 - job.updated_at.0;
                assert!(
                    (13_000..17_000).contains(&waits),
                    "the first two steps are 15 s each, or a tenth longer: {waits} ms"
                );
                server.client.jobs().run(JobRef::from(job.id)).await.unwrap();
            }
        }
    };
    let mut jobs = timeout(LIMIT, all_have_ended).await.expect("all come to an end");
    jobs.sort_by_key(|job| job.id);
    let state = |job: &duetime::Job| (job.state(0), job.attempt, job.errors.len());
    assert_eq!(
        jobs.iter().map(state).collect::<Vec<_>>(),
        [
            (JobState::Cancelled, 0, 0),
            (JobState::Succeeded, 1, 0),
            (JobState::Succeeded, 3, 2),
            (JobState::Failed, 1, 1)
        ]
    );
    let readable = timeout(LIMIT, readable(&database)).await.expect("it is recorded");
    assert_eq!(
        readable,
        ["cancelled ", "succeeded ", "succeeded the payment service answered 500", "failed refused: said"]
    );
}

/// JobState and last message of each job, by the view, once all have reached the database.
async fn readable(database: &Database) -> Vec<String> {
    let mut looks = interval(std::time::Duration::from_millis(20));
    loop {
        looks.tick().await;
        let rows =
            database.texts("SELECT concat(state, ' ', coalesce(message, '')) FROM duetime_readable ORDER BY id").await;
        if rows.iter().all(|row| !row.starts_with("scheduled") && !row.starts_with("ready")) {
            return rows;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_are_granted_beside_mariadb() {
    refunds(Database::mysql().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_are_granted_beside_postgres() {
    refunds(Database::postgres().await).await;
}
