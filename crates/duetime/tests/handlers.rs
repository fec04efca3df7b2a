//! Handlers and job types.

use duetime::job::{Query, State as JobState};
use duetime::prelude::*;
use duetime::time::Span;
use duetime::worker::{FromContext, FromRef, Previous, Raw};
use duetime::{JobId, new_job};
use serde_json::json;
use std::sync::{Barrier, Mutex};
use std::thread::{self, ThreadId};
use tokio::runtime::Handle;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Job)]
#[job(kind = "invoice.send", was = "invoice.mail", was = "bill", queue = "mail")]
#[job(
    retry = "15s,1m,10m",
    max_attempts = 5,
    max_age = "2d",
    timeout = "2m",
    expires = "1d",
    lease = "90s",
    priority = 7
)]
#[job(unique = "order, item", tags = "customer")]
struct SendInvoice {
    order: u64,
    item: String,
    customer: u32,
}

fn invoice(order: u64) -> SendInvoice {
    SendInvoice { order, item: "cup".to_owned(), customer: 12 }
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "add")]
struct Add {
    by: u64,
}

#[derive(Clone)]
struct App {
    notes: Arc<Mutex<Vec<String>>>,
    rate: u64,
}

#[derive(Clone, Copy)]
struct Rate(u64);

impl FromRef<App> for Rate {
    fn from_ref(app: &App) -> Self {
        Self(app.rate)
    }
}

/// The queue of the job, but for one.
struct Queue(Arc<str>);

impl<S> FromContext<S> for Queue {
    fn from_context(context: &Context, _: &S) -> Result<Self, JobError> {
        match &**context.queue() {
            "refused" => Err(JobError::fatal("not from this queue")),
            _ => Ok(Self(context.queue().clone())),
        }
    }
}

fn app() -> App {
    App { notes: Arc::default(), rate: 3 }
}

async fn result(client: &Client, id: JobId) -> Option<String> {
    let job = client.jobs().get(id).await.unwrap();
    assert_eq!(job.state(job.updated_at.0), JobState::Succeeded, "{job:?}");
    job.result.map(|result| String::from_utf8_lossy(&result).into_owned())
}

#[tokio::test]
async fn what_the_type_says_is_pushed() {
    let job = serde_json::to_value(duetime_core::api::Push::from(&new_job(&invoice(7)).unwrap())).unwrap();
    let expected = json!({
        "queue": "mail", "kind": "invoice.send", "payload": {"order": 7, "item": "cup", "customer": 12},
        "priority": 7, "key": "invoice.send:7:cup", "on_conflict": "keep", "key_until": "finished", "tags": ["customer:12"],
        "lease": "1m30s", "expires": "1d", "retry": {"steps": ["15s", "1m", "10m"]}, "max_attempts": 5, "max_age": "2d",
    });
    assert_eq!(job, expected);
    let client = Client::memory().await.unwrap();
    let other = client.push(invoice(7)).key("mine").priority(1).max_attempts(2).build().unwrap();
    assert_eq!((other.key.as_deref(), other.priority), (Some("mine"), 1));
    assert_eq!((other.options.retry.max_attempts, other.expires), (Some(2), Some(Span(86_400_000))));
}

#[tokio::test]
async fn a_handler_takes_its_arguments_in_any_order() {
    async fn first(job: Add, State(app): State<App>, Attempt(attempt): Attempt, queue: Queue) -> Result<u64, JobError> {
        app.notes.lock().unwrap().push(format!("{} {attempt}", queue.0));
        Ok(job.by + 1)
    }
    async fn last(
        Cancelled(token): Cancelled,
        State(Rate(rate)): State<Rate>,
        context: Context,
        job: SendInvoice,
    ) -> Result<u64, JobError> {
        assert!(!token.is_cancelled() && context.kind().len() == 12);
        Ok(job.order * rate)
    }
    let client = Client::memory().await.unwrap();
    let added = client.push(Add { by: 4 }).await.unwrap().id;
    let sent = client.push(invoice(7)).await.unwrap().id;
    let refused = client.push(Add { by: 4 }).queue("refused").await.unwrap().id;
    let app = app();
    let worker =
        Worker::new(&client).state(app.clone()).handle(first).handle(last).queues(["mail", "default", "refused"]);
    assert_eq!(worker.drain().await.unwrap().succeeded, 2);
    assert_eq!(result(&client, added).await.as_deref(), Some("5"));
    assert_eq!(result(&client, sent).await.as_deref(), Some("21"));
    assert_eq!(*app.notes.lock().unwrap(), ["default 1"]);
    let refused = client.jobs().get(refused).await.unwrap();
    assert_eq!(refused.message.as_deref(), Some("not from this queue"));
}

#[tokio::test]
async fn a_blocking_handler_leaves_the_runtime_alone() {
    #[expect(clippy::needless_pass_by_value, reason = "a handler gets its arguments")]
    fn add(job: Add, State(runs_on): State<ThreadId>, context: Context) -> Result<String, std::io::Error> {
        assert_eq!(context.attempt(), 1);
        match job.by {
            0 => Err(std::io::Error::other("nothing to add")),
            1 => panic!("one is too few"),
            by => Ok(format!("{by} {}", thread::current().id() == runs_on)),
        }
    }
    let client = Client::memory().await.unwrap();
    let mut ids = Vec::new();
    for by in 0..3 {
        ids.push(client.push(Add { by }).await.unwrap().id);
    }
    let summary = Worker::new(&client).state(thread::current().id()).handle_blocking(add).drain().await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (1, 2));
    assert_eq!(result(&client, ids[2]).await.as_deref(), Some("\"2 false\""));
    let why = |job: duetime::Job| job.errors[0].message.to_string();
    assert_eq!(why(client.jobs().get(ids[0]).await.unwrap()), "nothing to add");
    let panicked = why(client.jobs().get(ids[1]).await.unwrap());
    assert!(panicked.starts_with("panicked at ") && panicked.ends_with("one is too few"), "{panicked}");
    assert!(panicked.contains("handlers.rs:"), "{panicked}");
}

/// Host names are looked up on the runtime's blocking threads, and files are read there.
#[test]
fn blocking_handlers_leave_the_blocking_threads_of_the_runtime_to_others() {
    #[expect(clippy::needless_pass_by_value, reason = "a handler gets its arguments")]
    fn meet(job: Add, State(all): State<Arc<Barrier>>) -> Result<String, JobError> {
        all.wait();
        Handle::current().block_on(async { tokio::task::spawn_blocking(|| ()).await }).map_err(JobError::new)?;
        Ok(format!("{}", job.by))
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::memory().await.unwrap();
        client.push_all((0..8).map(|by| Add { by })).await.unwrap();
        let worker = Worker::new(&client).state(Arc::new(Barrier::new(8))).concurrency(8).handle_blocking(meet);
        assert_eq!(worker.drain().await.unwrap().succeeded, 8, "they wait for each other");
    });
}

#[tokio::test]
async fn former_kinds_are_handled_and_raw_payloads() {
    let client = Client::memory().await.unwrap();
    let payload = serde_json::to_vec(&invoice(7)).unwrap();
    let old = client.push_raw("invoice.mail", payload).queue("mail").await.unwrap().id;
    let raw = client.push_raw("bytes", *b"\xff\x00").queue("mail").await.unwrap().id;
    let other = client.push_raw("other", *b"{}").queue("mail").await.unwrap().id;
    let unreadable = client.push_raw("bill", *b"{\"order\":7,\"item\":8}").queue("mail").await.unwrap().id;
    let worker = Worker::new(&client)
        .handle(async |job: SendInvoice| Ok::<_, JobError>(job.order))
        .handle_raw("bytes", async |Raw(payload): Raw| Ok::<_, JobError>(payload.len()))
        .fallback(async || Ok::<(), JobError>(()));
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (3, 1));
    assert_eq!(result(&client, old).await.as_deref(), Some("7"));
    assert_eq!(result(&client, raw).await.as_deref(), Some("2"));
    assert_eq!(result(&client, other).await, None);
    let message = client.jobs().get(unreadable).await.unwrap().errors[0].message.to_string();
    assert!(message.starts_with("the payload cannot be read as \"invoice.send\": `item` must be"), "{message}");
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "slow", timeout = "10ms", max_attempts = 1)]
struct Slow;

/// What cannot be kept is no reason to do the work again.
#[tokio::test]
async fn an_attempt_ends_at_its_limits() {
    let client = Client::memory().await.unwrap();
    let slow = client.push(Slow).await.unwrap().id;
    let large = client.push(Add { by: 2_000_000 }).await.unwrap().id;
    let worker = Worker::new(&client)
        .handle(async |_: Slow, Cancelled(token): Cancelled| {
            token.cancelled().await;
            Ok::<_, JobError>(())
        })
        .handle(async |job: Add| Ok::<_, JobError>("x".repeat(usize::try_from(job.by)?)));
    assert_eq!(worker.drain().await.unwrap().failed, 2);
    let message = async |id| client.jobs().get(id).await.unwrap().message.unwrap_or_default().to_string();
    assert!(message(slow).await.contains("time limit of 10ms exceeded"), "{}", message(slow).await);
    let said = message(large).await;
    assert!(
        said.contains("the handler succeeded, but its result cannot be kept") && said.contains("1048576"),
        "{said}"
    );
}

#[tokio::test]
async fn a_handler_gets_the_result_of_the_job_before_it() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "total", queue = "totals")]
    struct Total {}
    async fn add(job: Add) -> Result<u64, JobError> {
        Ok(job.by + 1)
    }
    async fn total(_: Total, Previous(sum): Previous<u64>, context: Context) -> Result<String, JobError> {
        let previous = context.previous().ok_or_else(|| JobError::fatal("none"))?;
        Ok(format!("{sum} by {}", previous.queue))
    }
    let client = Client::memory().await.unwrap();
    client.push(Add { by: 7 }).then(client.push(Total {}).tag("t")).otherwise(Add { by: 0 }).await.unwrap();
    let alone = client.push(Total {}).await.unwrap();
    Worker::new(&client).queues(["default", "totals"]).handle(add).handle(total).drain().await.unwrap();
    let next = client.jobs().find(Query::default().tag("t")).next().await.unwrap().unwrap();
    assert_eq!(result(&client, next.id).await.as_deref(), Some(r#""8 by default""#));
    let alone = client.jobs().get(alone.id).await.unwrap();
    assert_eq!(alone.message.as_deref(), Some("no other job has pushed this one by its end"));
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_handler_adds_jobs_to_its_end() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "next", queue = "next")]
    struct Next {
        of: u64,
    }
    async fn add(job: Add, context: Context) -> Result<(), JobError> {
        context.follow_with(Next { of: job.by })?;
        if job.by == 0 { Err(JobError::fatal("dropped with the attempt")) } else { Ok(()) }
    }
    let client = Client::memory().await.unwrap();
    client.push_all([Add { by: 0 }, Add { by: 7 }]).await.unwrap();
    Worker::new(&client).handle(add).drain().await.unwrap();
    let next = client.jobs().find(Query::default().queue("next")).take(9).await.unwrap();
    let payloads: Vec<&[u8]> = next.iter().map(|job| &*job.payload).collect();
    assert_eq!(payloads, [br#"{"of":7}"#]);
    client.close().await.unwrap();
}
