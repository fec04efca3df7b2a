//! Servers that do not answer for a while, or give a wrong answer.

use crate::redis_faults::subject::{Subject, errors, has, hash, until};
use duetime_core::State;
use duetime_core::testing::fixtures::success;
use duetime_store::testing::{Fate, Proxy, RedisServer};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Longer than a call waits for its answer, so that all are sent again.
const FROZEN: Duration = Duration::from_millis(3_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_outlast_a_frozen_server() {
    let mut server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    s.push(1..=10).await.unwrap();
    let held = s.reserve(5).await.unwrap();
    server.freeze();
    let push = tokio::spawn({
        let s = s.clone();
        async move { s.push(11..=20).await }
    });
    let reserve = tokio::spawn({
        let s = s.clone();
        async move { s.reserve(5).await }
    });
    let complete = tokio::spawn({
        let (s, receipt) = (s.clone(), held[0].receipt());
        async move { s.settle(receipt, success()).await }
    });
    // Frozen for this long: that is what is tested.
    tokio::time::timeout(FROZEN, std::future::pending::<()>()).await.unwrap_err();
    assert!(!push.is_finished() && !reserve.is_finished() && !complete.is_finished());
    server.thaw();
    push.await.unwrap().unwrap();
    assert_eq!(complete.await.unwrap().unwrap(), Some(State::Succeeded));
    let mut ids: Vec<_> = reserve.await.unwrap().unwrap().iter().chain(&held).map(|job| job.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10, "each was handed out once");
    assert_eq!(s.counts().await, (10, 9, 1));
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_is_told_them_again() {
    let server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    for n in 1..=3 {
        server.command(&["SCRIPT", "FLUSH"]);
        s.push([n]).await.unwrap();
        server.command(&["SCRIPT", "FLUSH"]);
        let job = s.one().await;
        server.command(&["SCRIPT", "FLUSH"]);
        assert_eq!(s.settle(job.receipt(), success()).await.unwrap(), Some(State::Succeeded));
    }
    assert!(errors(&server, "NOSCRIPT") >= 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_outlast_a_script_of_another() {
    let server = RedisServer::with(&["--lua-time-limit", "5"]);
    let (sent, reserve) = (Arc::new(AtomicU64::new(0)), hash("reserve"));
    let count = sent.clone();
    let proxy = Proxy::to(server.port(), move |command| {
        count.fetch_add(u64::from(has(command, reserve)), Ordering::SeqCst);
        Fate::default()
    });
    let s = Subject::connect(&proxy.url()).await;
    s.push([1]).await.unwrap();
    let endless = thread::spawn({
        let port = server.port();
        move || {
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(b"EVAL \"while true do end\" 0\r\n").unwrap();
            let mut answer = [0; 100];
            let count = stream.read(&mut answer).unwrap();
            String::from_utf8_lossy(&answer[..count]).into_owned()
        }
    });
    until("the server to be busy", || server.try_command(&["PING"]).is_err_and(|error| error.starts_with("BUSY")))
        .await;
    let reserve = tokio::spawn({
        let s = s.clone();
        async move { s.reserve(1).await }
    });
    until("the call to be told, and tried again", || sent.load(Ordering::SeqCst) >= 2).await;
    assert!(!reserve.is_finished());
    server.command(&["SCRIPT", "KILL"]);
    assert!(endless.join().unwrap().starts_with("-ERR"));
    assert_eq!(reserve.await.unwrap().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_enough_replicas() {
    let server = RedisServer::start();
    let s = Subject::connect(&server.url()).await;
    s.push([1]).await.unwrap();
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let push = tokio::spawn({
        let s = s.clone();
        async move { s.push([2]).await }
    });
    until("the push to be refused, and made again", || errors(&server, "NOREPLICAS") >= 2).await;
    assert!(!push.is_finished());
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    push.await.unwrap().unwrap();
    assert_eq!(s.reserve(10).await.unwrap().len(), 2);
}

/// The number of connections that a server has refused, asked over an open one.
fn refused(stream: &mut std::net::TcpStream) -> u64 {
    stream.write_all(b"INFO stats\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let count = lines.find_map(|line| line.strip_prefix("rejected_connections:").map(str::to_owned));
    // The rest of the answer, which ends with an empty line.
    let _ = lines.take_while(|line| !line.is_empty()).count();
    count.expect("a count").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_too_many_clients_is_asked_again() {
    let server = RedisServer::with(&["--maxclients", "4"]);
    let stream = |_| std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let mut streams: Vec<_> = (0..4).map(stream).collect();
    let url = server.url();
    let connect = tokio::spawn(async move { Subject::connect(&url).await });
    until("two attempts to be refused", || refused(&mut streams[0]) >= 2).await;
    assert!(!connect.is_finished());
    drop(streams);
    connect.await.unwrap().push([1]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_outlast_a_server_that_loads() {
    // A millisecond for each key; calls in between are answered.
    let slowly = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::with(&slowly);
    let s = Subject::connect(&server.url()).await;
    s.push(1..=10).await.unwrap();
    server.command(&["EVAL", "for i = 1, 1500 do redis.call('SET', 'filler' .. i, string.rep('x', 100)) end", "0"]);
    server.command(&["SAVE"]);
    server.kill();
    let restart = tokio::task::spawn_blocking(move || {
        server.start_again();
        server
    });
    let jobs = s.reserve(10).await.unwrap();
    assert_eq!(jobs.len(), 10);
    let server = restart.await.unwrap();
    assert!(errors(&server, "LOADING") > 0, "it was asked while it loaded");
    assert_eq!(s.settle(jobs[0].receipt(), success()).await.unwrap(), Some(State::Succeeded));
}

/// By a paused clock, which advances whenever nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_not_available() {
    let mut server = RedisServer::start();
    tokio::time::resume();
    let s = Subject::connect(&server.url()).await;
    s.push([1]).await.unwrap();
    server.kill();
    tokio::time::pause();
    let error = s.push([2]).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable", "{error}");
    assert!(error.is_retryable());
}
