//! The client for shell scripts, as users run it, against the real server. The packages have `clients/conformance`.

mod program;
mod stub;

use crate::common::Site;
use duetime_core::engine::Query;
use duetime_core::{Job, State as JobState};
use program::{Worker, run, runs};
use serde_json::{Value, json};
use std::time::Duration;
use stub::{Answer, Stub};
use tokio::time::timeout;

/// The time limit for a condition; never reached if all is well.
const LIMIT: Duration = Duration::from_secs(90);

/// The jobs of a queue, by kind.
async fn jobs(site: &Site, queue: &str) -> Vec<(String, JobState, Job)> {
    let query = Query { queue: Some(queue.into()), ..Query::default() };
    let jobs = site.client().jobs().page(&query, None, 100).await.unwrap().jobs;
    let now = site.now();
    let mut jobs: Vec<_> = jobs.into_iter().map(|job| (job.kind.to_string(), job.state(now), job)).collect();
    jobs.sort_by(|one, other| one.0.cmp(&other.0));
    jobs
}

/// Looks until all jobs of a queue are so.
async fn until(site: &Site, queue: &str, is_so: impl Fn(JobState) -> bool) -> Vec<(String, JobState, Job)> {
    let look = async {
        loop {
            let jobs = jobs(site, queue).await;
            if jobs.iter().all(|(_, state, _)| is_so(*state)) {
                return jobs;
            }
        }
    };
    timeout(LIMIT, look).await.expect("the worker works")
}

fn has_ended(state: JobState) -> bool {
    matches!(state, JobState::Succeeded | JobState::Failed | JobState::Cancelled)
}

fn result(job: &Job) -> Value {
    serde_json::from_slice(job.result.as_deref().expect("a result")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_the_shell_works() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start_on_a_fixed_port(&folder.path().canonicalize().unwrap().join("duetime.db"));
    let server = format!("http://{}", site.address());
    let queue = "demo-shell";

    let pushed = run("push", &server).await;
    assert_eq!(pushed.out, "welcome created\nwelcome again kept\nreminder cancelled\nrefused invalid 400\n");
    let locked = run("lock", &server).await;
    assert_eq!(locked.out, "renewed true\nrefused lock_held 423\nfence grows true\n");

    // A worker cannot reach the server, reports that, and reconnects when the server is back.
    site.kill();
    let mut worker = Worker::start(&server);
    worker.says("unreachable").await;
    site.start_again();
    let jobs = until(&site, queue, has_ended).await;
    let [broken, reminder, welcome, report] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!((&*broken.0, broken.1, broken.2.attempt), ("mail.broken", JobState::Failed, 1));
    assert_eq!(broken.2.message.as_deref(), Some("there is no such address"));
    assert_eq!((&*reminder.0, reminder.1), ("mail.reminder", JobState::Cancelled));
    assert_eq!((&*welcome.0, welcome.1, welcome.2.attempt), ("mail.welcome", JobState::Succeeded, 1));
    assert_eq!(welcome.2.key.as_deref(), Some("welcome-1"));
    assert_eq!(welcome.2.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), ["demo", "user:1"]);
    assert_eq!(serde_json::from_slice::<Value>(&welcome.2.payload).unwrap(), json!({"to": "Zoë"}));
    assert_eq!(result(&welcome.2), json!({"done": "mail.welcome"}));
    // It took longer than its lease, and was not taken back.
    assert_eq!((&*report.0, report.1, report.2.attempt, report.2.crashes), ("report", JobState::Succeeded, 1, 0));
    let took = report.2.finished_at.unwrap().0 - report.2.started_at.unwrap().0;
    assert!(took > 5_000, "{took} ms");

    // A payload that it cannot read fails its own job, and is not tried again and again.
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for payload in [deep.as_bytes(), br#""\ud800""#, b"\xff\x00 no JSON", br#"{"amount": 1e400}"#] {
        let push = site.client().push_raw("mail.welcome", payload.to_vec()).queue(queue).max_attempts(1);
        push.await.unwrap();
    }
    let read = until(&site, queue, has_ended).await;
    assert_eq!(read.len(), jobs.len() + 4);
    assert!(read.iter().all(|(.., job)| job.attempt <= 1 && job.crashes == 0), "{read:?}");
    let unread =
        |(_, state, job): &&(String, JobState, Job)| *state == JobState::Failed && job.payload.starts_with(b"\xff");
    assert_eq!(read.iter().filter(unread).count(), 1, "{read:?}");

    // Asked to stop, a worker finishes its current job.
    let more = br#"{"seconds": 1}"#.to_vec();
    let id = site.client().push_raw("report", more).queue(queue).await.unwrap().id;
    let begins = async { while site.client().jobs().get(id).await.unwrap().state(site.now()) != JobState::Running {} };
    timeout(LIMIT, begins).await.expect("the worker works");
    worker.stop().await;
    let job = site.client().jobs().get(id).await.unwrap();
    assert_eq!((job.state(site.now()), job.attempt), (JobState::Succeeded, 1), "{job:?}");
}

/// The token is sent; a call is repeated as it was while the server is unavailable, and not if it is refused; the reason is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_the_shell_repeats_what_is_safe() {
    let unavailable = json!({"code": "stopping", "detail": "the server is stopping", "status": 503});
    let refusal = json!({"code": "invalid", "detail": "`kind` is too long", "status": 400});
    let pushed = |outcome| json!({"id": "1", "outcome": outcome});
    let stub = Stub::start(vec![
        // Of a push with a key.
        Answer(503, unavailable.clone()),
        Answer(201, pushed("created")),
        Answer(200, pushed("kept")),
        // Of a push without one.
        Answer(503, unavailable),
        Answer(400, refusal),
    ]);
    let ran = runs("push", &stub.address()).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.out, "welcome created\nwelcome again kept\n");
    assert!(ran.err.contains("invalid: `kind` is too long"), "{ran:?}");
    let requests = stub.requests();
    assert_eq!(requests.len(), 5, "{requests:?}");
    for request in &requests {
        assert!(request.to_lowercase().contains("\r\nauthorization: bearer secret-of-a-test\r\n"), "{request}");
    }
    let body = |request: &str| request.split_once("\r\n\r\n").unwrap().1.to_owned();
    let origin = |request: &str| serde_json::from_str::<Value>(&body(request)).unwrap()["origin"].clone();
    for (first, repeat) in [(0, 1), (3, 4)] {
        assert_eq!(body(&requests[first]), body(&requests[repeat]));
        assert!(origin(&requests[first]).is_string(), "{requests:?}");
    }
    assert_ne!(origin(&requests[1]), origin(&requests[2]), "another push has another one");
}
