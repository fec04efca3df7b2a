//! `duetime demo`: a dozen jobs over some seconds, and how late each was.

mod jobs;
mod shop;
mod show;

use super::exit::{Failure, Result};
use crate::serve::address;
use duetime::worker::Handled;
use duetime::{Client, Context, JobError, Worker};
use jobs::{CANCELLED, FLAKY, JOBS, QUEUE};
use show::Show;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it is checked whether the server listens.
const SERVER_LOOK_EVERY: Duration = Duration::from_millis(50);
/// The demo has failed if it takes this long.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Watch a dozen delayed jobs run; needs no setup and leaves nothing behind.
///
/// Pushes jobs that are due over a few seconds into a temporary store, cancels one, runs the others in this process, fails
/// one attempt, and prints how late each job was.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime demo
  duetime demo --serve")]
pub(crate) struct Args {
    /// Serve a simulated shop in memory, with its dashboard, and open it in a browser
    #[arg(long, conflicts_with = "json")]
    pub(super) serve: bool,
    /// IP address and port for the shop
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7300", requires = "serve", value_parser = address)]
    listen: SocketAddr,
    /// Print JSON: one line per job, and one for all
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result {
    if args.serve {
        return serve(args.listen).await;
    }
    let folder = tempfile::tempdir()?;
    let client = Client::open(folder.path().join("demo.db")).await?;
    let result = demo(&client, args.json).await;
    let closed = client.close().await;
    result?;
    Ok(closed?)
}

/// Serves the shop until Ctrl-C or SIGTERM.
async fn serve(listen: SocketAddr) -> Result {
    let address = format!("http://{listen}");
    let client = Client::connect(&address).await?;
    let shop = async {
        while client.version().await.is_err() {
            tokio::time::sleep(SERVER_LOOK_EVERY).await;
        }
        if std::io::stdout().is_terminal() {
            open_browser(&address);
        }
        shop::run(&client).await
    };
    let server = crate::serve::run(crate::serve::Args::in_memory(listen), &[]);
    tokio::select! {
        served = server => Ok(served?),
        closed = shop => Ok(closed?),
    }
}

/// Shows a page, if this system has a command for that.
fn open_browser(address: &str) {
    let command = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let (stdin, stdout, stderr) = (Stdio::null(), Stdio::null(), Stdio::null());
    // Without it the reader opens the page by hand: the address is printed.
    drop(std::process::Command::new(command).arg(address).stdin(stdin).stdout(stdout).stderr(stderr).spawn());
}

async fn demo(client: &Client, json: bool) -> Result {
    let show = Arc::new(Show::new(json));
    show.begin()?;
    let pushed = client.push_many(JOBS.iter().map(jobs::Demo::job).collect()).await?;
    for (job, pushed) in JOBS.iter().zip(pushed) {
        let pushed = pushed?;
        if job.kind == CANCELLED {
            client.jobs().cancel(pushed.id).await?;
            show.cancelled(job.kind)?;
        }
    }
    let done = CancellationToken::new();
    let handler = {
        let (show, done) = (show.clone(), done.clone());
        move |context: Context| {
            let (show, done) = (show.clone(), done.clone());
            async move { handle(&show, &context, &done) }
        }
    };
    let worker = Worker::new(client).queue(QUEUE).fallback(handler);
    let end = async {
        tokio::select! {
            () = done.cancelled() => {}
            () = tokio::time::sleep(TIME_LIMIT) => {}
            // If the signal cannot be caught, it ends the process anyway.
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    worker.run_until(end).await?;
    show.end()?;
    let expected = JOBS.iter().filter(|job| job.kind != CANCELLED).count();
    match show.succeeded() {
        ran if ran == expected => Ok(()),
        ran => Err(Failure::error(format!("only {ran} of {expected} jobs ran"))),
    }
}

fn handle(show: &Show, context: &Context, done: &CancellationToken) -> Handled {
    let fails = &**context.kind() == FLAKY && context.attempt() == 1;
    show.ran(context, !fails).map_err(|failure| JobError::new(failure.to_string()))?;
    if fails {
        return Err(JobError::new("no answer"));
    }
    if show.succeeded() == JOBS.iter().filter(|job| job.kind != CANCELLED).count() {
        done.cancel();
    }
    Ok(())
}
