//! `duetime work --url`: each job is sent to a URL, signed, instead of a command.

use super::stop::Stop;
use crate::cli::exit::{Failure, Result};
use crate::cli::output::note;
use crate::cli::time::now;
use crate::deliver::SharedPace;
use crate::deliver::webhook::{self, Route, Sender};
use duetime::worker::Handled;
use duetime::{Context, JobError};
use duetime_core::api::{DegradedCode, Span};
use duetime_core::model::target::Target;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// The destination of jobs, and the way in which they are sent.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Send each job to this URL instead of running a command. The body is the payload, signed if there is a key. A 2xx
    /// answer completes the job, 410 and 422 fail it for good, 429 and 503 slow the worker down. See also --time-limit
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "result"], help_heading = "Webhooks")]
    pub(super) url: Option<String>,
    /// HTTP method [default: POST]
    #[arg(long, value_name = "METHOD", requires = "url", help_heading = "Webhooks")]
    method: Option<String>,
    /// Header to send; repeatable
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "url", help_heading = "Webhooks")]
    headers: Vec<String>,
    /// HTTP status that fails a job for good; repeatable [default: 410 and 422]
    #[arg(long = "final-status", value_name = "STATUS", requires = "url", help_heading = "Webhooks")]
    final_statuses: Vec<u16>,
    /// Name of the signing keys [default: default]
    #[arg(long, value_name = "NAME", requires = "url", help_heading = "Webhooks")]
    key: Option<String>,
    #[command(flatten)]
    webhook: webhook::Args,
}

/// Sends jobs.
pub(super) struct Courier {
    route: Route,
    sender: Sender,
    pub(super) pace: SharedPace,
    stop: Stop,
    _watch: AbortOnDropHandle<()>,
}

impl Courier {
    /// # Errors
    /// If an option is invalid. Nothing has been reserved then.
    pub(super) fn new(args: &Args, url: &str, limit: Option<Span>, concurrency: usize, stop: Stop) -> Result<Self> {
        let mut target = serde_json::json!({ "url": url });
        let mut set = |name: &str, value: serde_json::Value| target[name] = value;
        args.method.iter().for_each(|method| set("method", method.as_str().into()));
        args.key.iter().for_each(|key| set("key", key.as_str().into()));
        limit.iter().for_each(|limit| set("timeout", limit.to_string().into()));
        if !args.final_statuses.is_empty() {
            set("final_statuses", args.final_statuses.clone().into());
        }
        let mut headers = serde_json::Map::new();
        for header in &args.headers {
            let (name, value) = header.split_once(':').ok_or_else(|| {
                Failure::usage(
                    "--header must be a name, a colon and a value, such as `x-shop: 7`; it has no colon".to_owned(),
                )
            })?;
            headers.insert(name.trim().to_owned(), value.trim().into());
        }
        set("headers", headers.into());
        let target: Target = target.to_string().parse().map_err(|why: String| Failure::usage(why))?;
        let unfit = |error: duetime_core::Error| Failure::usage(error.to_string());
        let Target::Url(endpoint) = target else { unreachable!("it was made with a URL") };
        let route = Route::new(&endpoint, args.webhook.rules()).map_err(unfit)?;
        let sender = Sender::new(&args.webhook).map_err(|error| Failure::usage(error.to_string()))?;
        let keys = sender.keys();
        let told = |what: DegradedCode, error: Option<&str>| match error {
            Some(error) => note!("duetime: {}: {error}", what.detail()),
            None => note!("duetime: resolved: {}", what.detail()),
        };
        let watch = AbortOnDropHandle::new(tokio::spawn(async move { keys.watch(told).await }));
        // All are to one host, and each of so many may be kept.
        sender.admit(concurrency, concurrency);
        Ok(Self { route, sender, pace: SharedPace::new(concurrency), stop, _watch: watch })
    }

    /// Sends a job.
    pub(super) async fn run(&self, context: Context) -> Handled {
        let began = Instant::now();
        let delivery = tokio::select! {
            delivery = self.sender.send(&self.route, context.job(), now()) => delivery,
            () = self.stop.forced().cancelled() => return Err(JobError::release(Duration::ZERO)),
        };
        self.pace.ended(delivery.sign, began);
        if let Some(why) = delivery.why() {
            note!("duetime: job {}, attempt {}: {why}", context.id(), context.attempt());
        }
        delivery.into_handled(&context)
    }
}
