//! Waits for a job, where its end meets the event stream of a server at each point.

use duetime::job::Stage;
use duetime::{Client, Job, JobId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3_600);
/// Sooner than the client looks at a job of which it hears nothing.
const SOON: Duration = Duration::from_secs(20);

fn id() -> JobId {
    JobId::from_sequence(7)
}

/// The last event of a server that stops.
const STOPPING: &str = "event: stopping\ndata: {}\n\n";

/// A server with one job.
struct Peer {
    client: Client,
    has_ended: Arc<AtomicBool>,
    /// One for each time that the job is read.
    looks: mpsc::UnboundedReceiver<()>,
    streams: mpsc::UnboundedReceiver<TcpStream>,
}

impl Peer {
    /// The job has ended when the first subscription begins, or else when the test says so.
    async fn start(ends_before_subscription: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::connect(&format!("http://{}", listener.local_addr().unwrap())).await.unwrap();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ((look, looks), (opened, streams)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let ended = has_ended.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4_096];
                let length = stream.read(&mut request).await.unwrap();
                if request[..length].starts_with(b"GET /v1/events?") {
                    ended.fetch_or(ends_before_subscription, Ordering::SeqCst);
                    let head =
                        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: subscribed\ndata: {}\n\n";
                    stream.write_all(head.as_bytes()).await.unwrap();
                    opened.send(stream).unwrap();
                } else {
                    let body = job(if ended.load(Ordering::SeqCst) { "succeeded" } else { "ready" });
                    let length = body.len();
                    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
                    stream.write_all((head + &body).as_bytes()).await.unwrap();
                    look.send(()).unwrap();
                }
            }
        });
        Self { client, has_ended, looks, streams }
    }

    fn waits(&self) -> tokio::task::JoinHandle<Job> {
        let client = self.client.clone();
        tokio::spawn(async move { client.jobs().wait(id(), HOUR).await.unwrap() })
    }

    /// The stream of a wait that has looked at the job after its subscription.
    async fn stream(&mut self) -> TcpStream {
        self.looks.recv().await.unwrap();
        let stream = self.streams.recv().await.unwrap();
        self.looks.recv().await.unwrap();
        stream
    }
}

fn job(state: &str) -> String {
    let id = id();
    format!(
        r#"{{"attempt": 0, "created_at": "2026-11-20T00:00:00Z", "crashes": 0, "due_at": "2026-11-20T00:00:00Z", "epoch": 0,
        "errors": [], "first_due_at": "2026-11-20T00:00:00Z", "id": "{id}", "kind": "k", "payload": 1, "priority": 1024,
        "queue": "q", "state": "{state}", "tags": [], "updated_at": "2026-11-20T00:00:00Z", "version": 1}}"#
    )
}

fn succeeded(id: JobId) -> String {
    let data = format!(
        r#"{{"what":"succeeded","id":"{id}","queue":"q","kind":"k","state":"succeeded","attempt":1,"at":"2026-11-20T00:00:01Z"}}"#
    );
    format!("event: succeeded\ndata: {data}\n\n")
}

#[tokio::test]
async fn an_end_between_look_and_subscription_is_seen() {
    let peer = Peer::start(true).await;
    assert_eq!(timeout(SOON, peer.waits()).await.unwrap().unwrap().stage, Stage::Succeeded);
}

#[tokio::test]
async fn an_end_is_told_by_its_event() {
    let mut peer = Peer::start(false).await;
    let wait = peer.waits();
    let mut stream = peer.stream().await;
    // An event that is overtaken is no end, and another job's end is nothing to look for.
    let others = succeeded(JobId::from_sequence(8)).repeat(3);
    stream.write_all((others + &succeeded(id()) + STOPPING).as_bytes()).await.unwrap();
    let mut stream = peer.stream().await;
    peer.has_ended.store(true, Ordering::SeqCst);
    stream.write_all(succeeded(id()).as_bytes()).await.unwrap();
    assert_eq!(timeout(SOON, wait).await.expect("the event is heard").unwrap().stage, Stage::Succeeded);
    peer.looks.recv().await.unwrap();
    assert!(peer.looks.try_recv().is_err(), "the job is read only for its own events");
}

/// The job ends while the stream breaks, so nothing tells it.
#[tokio::test]
async fn a_wait_outlives_its_stream() {
    for last in ["event: lost\ndata: {}\n\n", STOPPING, ": the connection breaks here\n\n"] {
        let mut peer = Peer::start(false).await;
        let wait = peer.waits();
        let mut stream = peer.stream().await;
        peer.has_ended.store(true, Ordering::SeqCst);
        stream.write_all(last.as_bytes()).await.unwrap();
        drop(stream);
        assert_eq!(timeout(SOON, wait).await.expect(last).unwrap().stage, Stage::Succeeded);
        assert!(peer.streams.recv().await.is_some(), "it subscribes again after {last:?}");
    }
}
