//! `duetime bench webhooks`: how soon after its due time a job reaches an endpoint, and how many do in a second.

use super::feed::{Feed, Plan};
use super::histogram::Histogram;
use super::options::{Shape, Traffic, Where};
use super::report::Report;
use super::restart;
use super::subject::Subject;
use crate::cli::exit::{Failure, Result};
use crate::cli::progress::Progress;
use crate::cli::time::{late, now};
use duetime_core::api;
use duetime_core::limits::SECOND_MS;
use duetime_core::model::target::{Endpoint, Target};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// Jobs are pushed at this pace before the first is due, at the least.
const PUSH_PER_SECOND: u64 = 20_000;
/// The server looks for new targets every second.
const SETTLE_IN_MS: u64 = 2 * SECOND_MS;
/// The run has failed if deliveries are missing so long after the last was due.
const OVERDUE: Duration = Duration::from_secs(120);

/// Deliver jobs as webhooks to an endpoint in this process
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50_000)]
    jobs: usize,
    /// Jobs that come due each second; 0 for all at once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    rate: u64,
    /// Delay before the endpoint answers
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    answer_after: api::Span,
    /// Limit of the queue
    #[arg(long, value_name = "N")]
    max_running: Option<u32>,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    traffic: Traffic,
    /// Server to measure, started with --webhook-allow-private; by default one is started
    #[arg(long, value_name = "URL", help_heading = "What is measured")]
    server: Option<String>,
    /// Store of the server that is started: a new file or `memory`
    #[arg(long, value_name = "PATH", conflicts_with = "server", help_heading = "What is measured")]
    store: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> Result {
    let endpoint = Arc::new(Seen::new(args.jobs, Duration::from_millis(args.answer_after.0)));
    let url = listen(endpoint.clone()).await?;
    let folder = tempfile::tempdir()?;
    let store = args.store.clone().unwrap_or_else(|| folder.path().join("bench.db"));
    let mut child = match args.server {
        Some(_) => None,
        None => Some(restart::start(&store, &["--webhook-allow-private"])?),
    };
    let address = match (&args.server, &mut child) {
        (Some(address), _) => address.clone(),
        (None, Some(child)) => restart::address(child).await?,
        (None, None) => return Err(Failure::error("no server was started")),
    };
    let server_pid = child.as_ref().and_then(tokio::process::Child::id);
    let place = Where { server: Some(address), server_pid, ..Where::default() };
    let subject = Subject::open(&place).await?;
    let queue = format!("bench-webhooks-{}", std::process::id());
    let target = Target::Url(Endpoint {
        url: Arc::from(url),
        method: Arc::from("POST"),
        headers: std::collections::BTreeMap::new(),
        timeout_ms: duetime_core::model::target::TIMEOUT_MS_DEFAULT,
        final_statuses: Vec::new(),
        key: None,
    });
    let set = duetime::QueueSettings { target: Some(target), max_running: args.max_running, ..Default::default() };
    subject.client.configure(&queue, set).await?;

    let start = now() + SETTLE_IN_MS + args.jobs as u64 * SECOND_MS / PUSH_PER_SECOND;
    let plan = Plan::rate(args.jobs, start, args.rate);
    let pushing = Progress::new("push", args.jobs);
    Feed::new(&subject, &queue, args.shape, args.traffic).push(&plan, &pushing).await?;
    pushing.done();
    if now() > start {
        return Err(Failure::error("the jobs were not pushed before the first was due: lower --jobs"));
    }
    let span = args.jobs as u64 * SECOND_MS / args.rate.max(1);
    let limit = Duration::from_millis(start.saturating_sub(now()) + span) + OVERDUE;
    let is_done = tokio::time::timeout(limit, endpoint.done.notified()).await.is_ok();
    subject.client.configure(&queue, duetime::QueueSettings::default()).await?;
    let seen = endpoint.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if !is_done {
        return Err(Failure::error(format!("only {} of {} jobs were delivered in time", seen.count, args.jobs)));
    }
    let each = if args.rate == 0 { "all due at once".to_owned() } else { format!("{} due a second", args.rate) };
    let setting =
        format!("{} jobs of {} bytes, {each}; answered after {}", args.jobs, args.shape.payload, args.answer_after);
    let elapsed = seen.first.zip(seen.last).map_or(Duration::ZERO, |(first, last)| last - first);
    Report::new("webhooks", &subject.name, setting)
        .rate("delivered", args.jobs, elapsed.max(Duration::from_micros(1)))
        .timing("due to received", &seen.lateness)
        .finish(subject, args.json)
        .await
}

/// What the endpoint has seen.
struct Seen {
    jobs: usize,
    answer_after: Duration,
    seen: Mutex<Deliveries>,
    done: Notify,
}

#[derive(Clone)]
struct Deliveries {
    count: usize,
    first: Option<Instant>,
    last: Option<Instant>,
    lateness: Histogram,
}

impl Seen {
    fn new(jobs: usize, answer_after: Duration) -> Self {
        let seen = Deliveries { count: 0, first: None, last: None, lateness: Histogram::new() };
        Self { jobs, answer_after, seen: Mutex::new(seen), done: Notify::new() }
    }

    async fn take(&self, request: Request<Incoming>) -> std::result::Result<Response<Empty<Bytes>>, hyper::Error> {
        let due_at = request.headers().get("duetime-due-at").and_then(|value| value.to_str().ok());
        if let Some(api::Instant(due_at)) = due_at.and_then(|text| text.parse().ok()) {
            let (late, at) = (late(due_at), Instant::now());
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.lateness.record_late(late);
            seen.count += 1;
            seen.first.get_or_insert(at);
            seen.last = Some(at);
            if seen.count == self.jobs {
                self.done.notify_one();
            }
        }
        // Of a body that is not read the connection could not be used again.
        request.into_body().collect().await?;
        if !self.answer_after.is_zero() {
            tokio::time::sleep(self.answer_after).await;
        }
        Ok(Response::new(Empty::new()))
    }
}

/// Serves the endpoint while this process lasts, and answers its URL.
async fn listen(endpoint: Arc<Seen>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Without this an answer waits for what it answers to be acknowledged.
            let _ = stream.set_nodelay(true);
            let endpoint = endpoint.clone();
            let service = service_fn(move |request| {
                let endpoint = endpoint.clone();
                async move { endpoint.take(request).await }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(url)
}
