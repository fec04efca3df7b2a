//! Endpoints that fail, and the outcomes of their jobs.

use super::receiver::{Answer, Closed, Receiver};
use super::server::{Server, result, soon};
use duetime_core::api::ReasonCode;
use duetime_core::json::Timestamp;
use duetime_core::{JobRef, Stage, State as JobState};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

const TIMEOUT_MS: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_different_failures_and_then_one_completion() {
    const STEPS_MS: [u64; 5] = [600_000, 20, 30, 40, 50];
    let (server, closed) = (Server::start().await, Closed::new());
    let steps: Vec<String> = STEPS_MS.iter().map(|step| format!("{step}ms")).collect();
    let target = json!({"url": closed.url(), "timeout": format!("{TIMEOUT_MS}ms")});
    server.set("hooks", json!({"retry": {"steps": steps}, "jitter": 0, "max_attempts": 9, "target": target})).await;
    let id = server.push("hooks", "{}").await;

    let refused = server.until(id, |job| job.errors.len() == 1).await;
    assert_eq!(
        &*refused.errors[0].message,
        "not connected: Connection refused; check that the receiver runs and that this server can reach it"
    );
    // The wait is as much longer as the clock may have gone on while it was read.
    assert!(refused.due_at >= Timestamp(refused.errors[0].at.0 + STEPS_MS[0]));
    let receiver = closed.listen(|number, _| match number {
        0 => Answer::Silence,
        1 => Answer::Status(500, "no stock"),
        2 => Answer::With(429, "retry-after", "1"),
        3 => Answer::Status(503, ""),
        _ => Answer::Status(200, "thanks"),
    });
    server.client.jobs().run(JobRef::from(id)).await.unwrap();
    let job = server.completed(id).await;

    assert_eq!((job.attempt, job.errors.len(), receiver.received().len()), (6, 5, 5));
    let said: Vec<&str> = job.errors.iter().map(|error| &*error.message).collect();
    assert_eq!(
        said[1..],
        [
            "timeout: no answer within 300ms",
            "HTTP 500 Internal Server Error: no stock",
            "HTTP 429 Too Many Requests",
            "HTTP 503 Service Unavailable"
        ]
    );
    assert_eq!(result(&job), json!({"status": 200, "body": "thanks"}));
    let attempts: Vec<String> =
        receiver.received().iter().map(|got| got.header("duetime-attempt").to_owned()).collect();
    assert_eq!(attempts, ["2", "3", "4", "5", "6"]);
    // Never before its time: the steps, and what the receiver asked for. The time-out began before the receiver saw the request.
    let at: Vec<_> = receiver.received().iter().map(|got| got.at).collect();
    for (index, least_ms) in [STEPS_MS[1], STEPS_MS[2], 1_000, STEPS_MS[4]].into_iter().enumerate() {
        let passed = at[index + 1] - at[index];
        // The receiver sees a request a little after it was begun.
        assert!(passed + Duration::from_millis(5) >= Duration::from_millis(least_ms), "{index}: {passed:?}");
    }
}

/// Each says what to check.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_that_do_not_speak_http() {
    let server = Server::start().await;
    let (silent, other) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
    let (silent, other) = (silent.unwrap(), other.unwrap());
    let targets = [
        ("silent", url(&silent), "no answer: the receiver closed the connection"),
        ("other", url(&other), "no answer: it does not speak HTTP; check the URL of the target"),
        ("name", "http://name.invalid".to_owned(), "not connected: its host name is not resolved ("),
    ];
    std::thread::spawn(move || {
        let mut request = [0; 4096];
        let (mut stream, _) = silent.accept().unwrap();
        let _ = stream.read(&mut request);
        drop(stream);
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.read(&mut request);
        let _ = stream.write_all(b"+OK smtp ready\r\n");
    });
    for (queue, url, said) in targets {
        server.set(queue, json!({"target": {"url": url}, "max_attempts": 1})).await;
        let id = server.push(queue, "{}").await;
        let failed = server.failed(id).await;
        assert!(failed.starts_with(said), "{failed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_statuses_are_final() {
    let server = Server::start().await;
    let receiver = Receiver::start(|_, got| match &*got.body {
        b"410" => Answer::Status(410, "moved away"),
        b"422" => Answer::Status(422, ""),
        _ => Answer::Status(404, ""),
    });
    server.set("hooks", json!({"target": {"url": receiver.url()}})).await;
    let gone = server.push("hooks", "410").await;
    assert_eq!(server.failed(gone).await, "HTTP 410 Gone: moved away");
    let wrong = server.push("hooks", "422").await;
    assert_eq!(server.failed(wrong).await, "HTTP 422 Unprocessable Entity");
    server.set("others", json!({"target": {"url": receiver.url(), "final_statuses": [404]}})).await;
    let unknown = server.push("others", "404").await;
    assert_eq!(server.failed(unknown).await, "HTTP 404 Not Found");
    let none = server.push("others", "410").await;
    let job = server.until(none, |job| !job.errors.is_empty()).await;
    assert_eq!(job.stage, Stage::Pending);
    assert_eq!(receiver.received().len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_queue_waits_when_it_is_asked_to() {
    let server = Server::start().await;
    let receiver = Receiver::start(|number, _| match number {
        0 => Answer::With(503, "retry-after", "1"),
        _ => Answer::Status(204, ""),
    });
    server.set("hooks", json!({"target": {"url": receiver.url()}})).await;
    let first = server.push("hooks", "1").await;
    server.until(first, |job| !job.errors.is_empty()).await;
    let second = server.push("hooks", "2").await;
    server.completed(second).await;
    let got = receiver.after(2).await;
    let passed = got[1].at - got[0].at;
    assert!(passed >= Duration::from_millis(995), "{passed:?}");
    assert!(server.completed(second).await.errors.is_empty(), "what was given back does not count");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_says_that_its_target_backs_off() {
    let server = Server::start().await;
    let receiver = Receiver::start(|_, _| Answer::With(503, "retry-after", "600"));
    server.set("hooks", json!({"target": {"url": receiver.url()}})).await;
    let first = server.push("hooks", "1").await;
    server.until(first, |job| !job.errors.is_empty()).await;
    // A reserve that was under way may still get this one, which is given back until the end.
    let second = server.push("hooks", "2").await;
    let known = async {
        loop {
            let why = server.client.jobs().why(second).await.unwrap();
            if why.reasons.iter().any(|reason| reason.code != ReasonCode::Running) {
                break;
            }
        }
    };
    soon(known).await;
    let third = server.push("hooks", "3").await;
    let why = server.client.jobs().why(third).await.unwrap();
    let [reason] = &why.reasons[..] else { panic!("{why:?}") };
    let left_ms = reason.until.unwrap().0.saturating_sub(server.client.jobs().get(third).await.unwrap().created_at.0);
    assert_eq!((why.state, reason.code), (JobState::Ready, ReasonCode::TargetBackingOff));
    assert!((500_000..=600_000).contains(&left_ms), "{left_ms}");
    let held_until = server.client.queues().get("hooks").await.unwrap().target_held_until.unwrap();
    assert!(held_until.0.abs_diff(reason.until.unwrap().0) < 10_000, "{held_until}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_are_not_followed() {
    let server = Server::start().await;
    let receiver = Receiver::start(|_, got| match &*got.path {
        "/hook" => Answer::With(307, "location", "/elsewhere"),
        _ => Answer::Status(200, ""),
    });
    server.set("hooks", json!({"max_attempts": 2, "retry": "none", "target": {"url": receiver.url()}})).await;
    let id = server.push("hooks", "{}").await;
    let said = server.failed(id).await;
    assert!(said.starts_with("HTTP 307 Temporary Redirect to /elsewhere: redirects are not followed"), "{said}");
    assert!(receiver.received().iter().all(|got| got.path == "/hook"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_large_answer_the_beginning_is_kept() {
    let server = Server::start().await;
    let receiver = Receiver::start(|number, _| if number == 0 { Answer::Endless } else { Answer::Hangup });
    server
        .set("hooks", json!({"retry": {"steps": ["1ms"]}, "max_attempts": 2, "target": {"url": receiver.url()}}))
        .await;
    let id = server.push("hooks", "{}").await;
    let said = server.failed(id).await;
    assert!(said.starts_with("no answer: "), "{said}");
    let job = server.client.jobs().get(id).await.unwrap();
    assert_eq!(*job.errors[0].message, format!("HTTP 500 Internal Server Error: {}", "x".repeat(1_024)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_endpoint_holds_up_no_other_queue() {
    const JOBS: usize = 200;
    let server = Server::start().await;
    let (slow, quick) =
        (Receiver::start(|_, _| Answer::WhenOpened(200)), Receiver::start(|_, _| Answer::Status(200, "")));
    server.set("slow", json!({"max_running": 5, "target": {"url": slow.url()}})).await;
    server.set("quick", json!({"target": {"url": quick.url()}})).await;
    for number in 0..JOBS {
        server.push("slow", &number.to_string()).await;
    }
    slow.after(5).await;
    for number in 0..20 {
        let id = server.push("quick", &number.to_string()).await;
        server.completed(id).await;
    }
    assert_eq!(slow.received().len(), 5);
    slow.open();
    let got = slow.after(JOBS).await;
    let mut bodies: Vec<usize> =
        got.iter().map(|got| std::str::from_utf8(&got.body).unwrap().parse().unwrap()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (0..JOBS).collect::<Vec<_>>());
    assert_eq!(slow.at_once(), 5);
}
