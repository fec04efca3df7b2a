//! How the remote client handles connections that are refused, lost, or lead to something else.

use duetime::job::OnConflict;
use duetime::lease::{ReserveRequest, Source};
use duetime::time::Span;
use duetime::{Client, ConnectOptions, Error, ErrorKind, JobId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A peer that reads a request, sends this, and closes; and how many requests it has read.
async fn peer(reply: &'static str) -> (Client, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::connect(&format!("http://{}", listener.local_addr().unwrap())).await.unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 4_096];
            if stream.read(&mut bytes).await.unwrap() > 0 {
                counted.fetch_add(1, Ordering::Relaxed);
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        }
    });
    (client, requests)
}

fn reserve() -> ReserveRequest {
    let from = Source::Queues(vec![Arc::from("q")]);
    ReserveRequest::new(from).limit(1)
}

#[tokio::test]
async fn a_server_is_no_store_in_this_process() {
    let client = Client::connect("http://127.0.0.1:1").await.unwrap();
    let error = client.embedded().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("the client is connected to a server"), "{error}");
}

#[tokio::test]
async fn what_was_never_sent_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::connect(&format!("http://{}", listener.local_addr().unwrap())).await.unwrap();
    drop(listener);
    let error = client.push_raw("k", *b"1").await.unwrap_err();
    assert!((error.kind(), error.code()) == (ErrorKind::Unavailable, "unreachable"), "{error:?}");
}

#[tokio::test]
async fn a_lost_reply_is_asked_for_again_only_where_that_does_no_harm() {
    let (client, requests) = peer("").await;
    let sent = |error: Error| {
        assert!(error.kind() == ErrorKind::OutcomeUnknown, "{error:?}");
        requests.swap(0, Ordering::Relaxed)
    };
    assert_eq!(sent(client.push_raw("k", *b"1").await.unwrap_err()), 2);
    assert_eq!(sent(client.push_raw("k", *b"1").key("k").on_conflict(OnConflict::Reject).await.unwrap_err()), 2);
    assert_eq!(sent(client.leases().reserve(reserve()).await.unwrap_err()), 2);
    let id = JobId::from_sequence(1);
    assert_eq!(sent(client.jobs().get(id).await.unwrap_err()), 2);
    assert_eq!(sent(client.jobs().cancel(id).await.unwrap_err()), 1);
    assert_eq!(sent(client.leases().complete(duetime::lease::Receipt { id, epoch: 1 }, None).await.unwrap_err()), 2);
}

#[tokio::test]
async fn another_server_is_noticed() {
    let (client, _) = peer("HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello").await;
    let error = client.queues().list().await.unwrap_err();
    assert_eq!(error.code(), "protocol", "{error}");
    let (client, _) = peer("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(client.queues().list().await.unwrap_err().code(), "protocol");
}

#[tokio::test]
async fn a_problem_without_a_counterpart_is_passed_on() {
    const REPLY: &str = "HTTP/1.1 403 Forbidden\r\ncontent-length: 89\r\n\r\n\
        {\"type\":\"urn:duetime:forbidden\",\"title\":\"\",\"status\":403,\"detail\":\"no\",\"code\":\"forbidden\"}";
    let (client, _) = peer(REPLY).await;
    let error = client.queues().list().await.unwrap_err();
    assert!((error.kind(), error.code()) == (ErrorKind::Unauthorized, "forbidden"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn no_call_takes_for_ever() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ConnectOptions::default().time_limit(Duration::from_secs(3));
    let client = Client::connect_with(&format!("http://{}", listener.local_addr().unwrap()), options).await.unwrap();
    let start = tokio::time::Instant::now();
    let error = client.leases().reserve(reserve().wait(Span(5_000))).await.unwrap_err();
    assert_eq!(error.code(), "outcome_unknown", "{error}");
    assert_eq!(start.elapsed().as_secs(), 8);
}
