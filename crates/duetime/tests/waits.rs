//! Waits for a job, where the server answers late, or not at all.

use duetime::job::Stage;
use duetime::{Client, Job, JobId};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const HOUR: Duration = Duration::from_secs(3_600);

fn id() -> JobId {
    JobId::from_sequence(7)
}

/// What a server does with a request for the job.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// The job in this state.
    Job(&'static str),
    /// The server stops.
    Unavailable,
    /// The connection breaks.
    Nothing,
}

/// A client of a server that answers in this way, one after the other, and a task that returns the requests.
async fn peer(answers: &'static [Answer]) -> (Client, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::connect(&format!("http://{}", listener.local_addr().unwrap())).await.unwrap();
    let serves = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4_096];
            let length = stream.read(&mut request).await.unwrap();
            let line = String::from_utf8_lossy(&request[..length]).lines().next().unwrap().to_owned();
            requests.push(line);
            let (status, body) = match answer {
                Answer::Job(state) => ("200 OK", job(state)),
                Answer::Unavailable => ("503 Service Unavailable", stopping()),
                Answer::Nothing => continue,
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all((head + &body).as_bytes()).await.unwrap();
        }
        requests
    });
    (client, serves)
}

fn stopping() -> String {
    r#"{"type": "urn:duetime:stopping", "title": "t", "status": 503, "code": "stopping", "detail": "d"}"#.to_owned()
}

fn job(state: &str) -> String {
    let id = id();
    format!(
        r#"{{"attempt": 0, "created_at": "2026-11-20T00:00:00Z", "crashes": 0, "due_at": "2026-11-20T00:00:00Z", "epoch": 0,
        "errors": [], "first_due_at": "2026-11-20T00:00:00Z", "id": "{id}", "kind": "k", "payload": 1, "priority": 1024,
        "queue": "q", "state": "{state}", "tags": [], "updated_at": "2026-11-20T00:00:00Z", "version": 1}}"#
    )
}

async fn wait(client: &Client, time_limit: Duration) -> duetime::Result<Job> {
    client.jobs().wait(id(), time_limit).await
}

#[tokio::test]
async fn a_long_wait_is_made_of_several() {
    let (client, serves) = peer(&[Answer::Job("ready"), Answer::Job("running"), Answer::Job("succeeded")]).await;
    assert_eq!(wait(&client, HOUR).await.unwrap().stage, Stage::Succeeded);
    let requests = serves.await.unwrap();
    assert!(
        requests.iter().all(|line| line.starts_with("GET /v1/jobs/") && line.contains("?wait=1m ")),
        "{requests:?}"
    );
    assert_eq!(requests.len(), 3);
}

#[tokio::test]
async fn a_wait_outlives_its_connection_and_its_server() {
    // A lost connection is repeated at once, too.
    let answers = &[Answer::Job("ready"), Answer::Nothing, Answer::Nothing, Answer::Unavailable, Answer::Job("failed")];
    let (client, serves) = peer(answers).await;
    assert_eq!(wait(&client, HOUR).await.unwrap().stage, Stage::Failed);
    assert_eq!(serves.await.unwrap().len(), answers.len());
}

#[tokio::test]
async fn a_wait_that_never_reached_the_job_says_why() {
    let (client, _serves) = peer(&[Answer::Unavailable]).await;
    assert_eq!(wait(&client, HOUR).await.unwrap_err().code(), "stopping");
}
