//! `duetime lock`: a command that runs on one of many machines at a time.

mod run;

pub(super) use run::killed_by;

use super::exit::{Failure, LOCK_HELD, Result};
use super::program::Program;
use super::target::{Server, Target};
use crate::cli::usage::span;
use crate::signals::Signals;
use duetime::{Error, lock::Guard};
use duetime_core::api::Span;
use duetime_core::limits::{LOCK_TTL_MS_MAX, LOCK_TTL_MS_MIN};
use duetime_core::model::name;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// Run a command while holding a lock, so that only one machine runs it at a time.
///
/// The lock is renewed while the command runs, and released when it ends. The command finds the lock's name in DUETIME_LOCK
/// and its fence in DUETIME_FENCE. The fence is a number that grows with every holder: a database can use it to reject
/// writes of an earlier holder. SIGTERM, SIGINT and SIGHUP are passed on to the command and all its processes. Standard
/// input is passed on unless it is a terminal.
///
/// If the lock is lost, for example because the server was unavailable for longer than --ttl, the command's processes are
/// ended (SIGTERM, then SIGKILL after 2 s). If the machine crashes, the lock becomes free after --ttl.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime lock deploy --wait 10m -- ./deploy.sh
  In the crontabs of several machines, so that one of them runs it (the sleep covers differences of their clocks):
  0 3 * * *  duetime lock nightly --server http://queue:7300 -- sh -c './report.sh; sleep 20'

Exit codes: the command's own, or 128 + n if signal n ended it; 69 the lock is held; 70 the lock was lost; 75 try again
later; 126 and 127 the command cannot be run or was not found. Exit code 69 comes with a message only in a terminal.")]
pub(crate) struct Args {
    /// Lock name, 1 to 255 bytes
    #[arg(value_name = "NAME")]
    name: Arc<str>,
    /// Time to live: the lock becomes free this long after its last renewal; 100ms to 24h
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = span::<LOCK_TTL_MS_MIN, LOCK_TTL_MS_MAX>)]
    ttl: Span,
    /// Wait this long for the lock, first come, first served, then exit with 69
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    wait: Span,
    #[command(flatten)]
    server: Server,
    /// Command and its arguments, run without a shell
    #[arg(last = true, required = true, value_name = "CMD ARGS")]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: Args) -> Result {
    name::check_lock(&args.name)?;
    // Before the lock is taken: a missing command must not keep others waiting.
    let program = Program::find(&args.command)?;
    let mut signals = Signals::listen(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    let target = Target { server: args.server, store: None, json: false };
    let client = target.open().await?;
    let lock = client.locks().named(args.name.clone()).ttl(Duration::from_millis(args.ttl.0));
    let guard = tokio::select! {
        guard = lock.acquire(Duration::from_millis(args.wait.0)) => guard.map_err(refused)?,
        signal = signals.next() => return Err(Failure::quiet(killed_by(signal as i32))),
    };
    let environment = environment(&guard, &target);
    run::run(&program, environment, guard, &mut signals).await
}

fn environment(guard: &Guard, target: &Target) -> Vec<(&'static str, String)> {
    vec![
        ("DUETIME_FENCE", guard.fence().to_string()),
        ("DUETIME_LOCK", guard.name().to_string()),
        ("DUETIME_SERVER", target.address()),
    ]
}

fn refused(error: Error) -> Failure {
    let is_held = error.code() == "lock_held";
    match error {
        // No message into a pipe or a file: cron sends a mail for any output.
        _ if is_held && !std::io::stderr().is_terminal() => Failure::quiet(LOCK_HELD),
        _ if is_held => Failure::new(LOCK_HELD, error.to_string()),
        error => error.into(),
    }
}
