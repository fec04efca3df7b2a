//! `duetime lock`: a command that runs on one of many machines at a time.

mod run;

use super::exit::{Failure, LOCK_HELD, Result};
use super::program::Program;
use super::target::{Server, Target};
use crate::signals::Signals;
use duetime::{Error, lock::Guard};
use duetime_core::Error as CoreError;
use duetime_core::api::Span;
use duetime_core::model::name;
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// Run a command while holding a lock of a server: on one of many machines at a time.
///
/// The lock is renewed while the command runs, and released when it has ended. DUETIME_FENCE is in the command's
/// environment: a number that grows with every holder, by which what the command writes to can refuse one that was
/// late; and DUETIME_LOCK, the lock's name. SIGTERM, SIGINT and SIGHUP are passed on to the command and all its
/// processes. Its standard input is ours, unless that is a terminal.
///
/// When the lock is lost, since the server was away for longer than the time to live, say, the command's processes are
/// ended (SIGTERM, after 2 s SIGKILL). When the machine dies, others can have the lock once its time to live is over.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  duetime lock deploy --wait 10m -- ./deploy.sh
  In the crontabs of five machines, for one of them to do it (held a while, since their clocks differ):
  0 3 * * *  duetime lock nightly --server http://queue:7300 -- sh -c './report.sh; sleep 20'

Exit codes: the command's own, 128 + n where signal n ended it; 69 the lock is held, also after --wait; 70 it was lost;
75 try again later; 126 and 127 as in a shell. That it is held is said only to a terminal.")]
pub(crate) struct Args {
    /// The lock: 1 to 255 bytes
    #[arg(value_name = "NAME")]
    name: Arc<str>,
    /// How long it is held after the last that was heard of us; 100ms to 24h
    #[arg(long, value_name = "SPAN", default_value = "15s")]
    ttl: Span,
    /// How long to wait for it, first come, first served; then exit with 69
    #[arg(long, value_name = "SPAN", default_value = "0s")]
    wait: Span,
    #[command(flatten)]
    server: Server,
    /// The command and its arguments, run without a shell
    #[arg(last = true, required = true, value_name = "CMD ARGS")]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: Args) -> Result {
    name::check_lock(&args.name)?;
    // Before the lock is: a command that is not there keeps nobody waiting.
    let program = Program::find(&args.command)?;
    let mut signals = Signals::listen(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    let target = Target { server: args.server, store: None, json: false };
    let client = target.open().await?;
    let lock = client.lock(args.name.clone()).ttl(Duration::from_millis(args.ttl.0));
    let guard = tokio::select! {
        guard = lock.acquire(Duration::from_millis(args.wait.0)) => guard.map_err(refused)?,
        signal = signals.next() => return Err(Failure::quiet(run::killed_by(signal as i32))),
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
    match error {
        // Not into a pipe or a file: cron sends a mail for every word.
        Error::Core(CoreError::LockHeld { .. }) if !std::io::stderr().is_terminal() => Failure::quiet(LOCK_HELD),
        Error::Core(CoreError::LockHeld { .. }) => Failure::new(LOCK_HELD, error.to_string()),
        error => error.into(),
    }
}
