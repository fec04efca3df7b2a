//! The command's run, from its start to the release of the lock.

use crate::cli::exit::{ERROR, Failure, LOCK_LOST, Result};
use crate::cli::output::note;
use crate::cli::process_group::Group;
use crate::cli::program::Program;
use crate::signals::Signals;
use duetime::ErrorKind;
use duetime::lock::Guard;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};

/// How long processes have to react to SIGTERM once the lock is lost: another owner may hold it already.
const HEED: Duration = Duration::from_secs(2);

/// The end of a run.
enum End {
    /// By itself.
    Ended(ExitStatus),
    /// By this program.
    Lost,
}

pub(super) async fn run(
    program: &Program,
    environment: Vec<(&'static str, String)>,
    guard: Guard,
    signals: &mut Signals,
) -> Result {
    let end = match start(program, environment) {
        Ok((child, group)) => follow(child, group, &guard, signals).await,
        Err(error) => {
            let failure = program.not_started(&error, "the lock was released");
            let _ = guard.release().await;
            return Err(failure);
        }
    };
    let status = match end {
        Ok(End::Ended(status)) => status,
        Ok(End::Lost) => return Err(lost(&guard, "its command was ended")),
        Err(error) => {
            let _ = guard.release().await;
            return Err(error.into());
        }
    };
    let lost = lost(&guard, "its command had not ended");
    match guard.release().await {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::Lost => return Err(lost),
        // The lock expires by itself, and the command has done its work.
        Err(error) => {
            note!("duetime: the lock could not be released, and is held until its time to live is over: {error}");
        }
    }
    match code(status) {
        0 => Ok(()),
        code => Err(Failure::quiet(code)),
    }
}

fn start(program: &Program, environment: Vec<(&'static str, String)>) -> io::Result<(Child, Group)> {
    let mut command = Command::new(&program.path);
    command.arg0(&program.name).args(&program.arguments).envs(environment).process_group(0);
    if io::stdin().is_terminal() {
        // A group in the background that reads a terminal is stopped.
        command.stdin(Stdio::null());
    }
    let child = command.spawn()?;
    let group = Group::of(&child)?;
    Ok((child, group))
}

async fn follow(mut child: Child, mut group: Group, guard: &Guard, signals: &mut Signals) -> io::Result<End> {
    let lost = guard.lost();
    loop {
        tokio::select! {
            status = child.wait() => {
                group.over();
                return Ok(End::Ended(status?));
            }
            signal = signals.next() => group.signal(signal),
            () = lost.cancelled() => {
                group.end(&mut child, HEED).await?;
                group.over();
                return Ok(End::Lost);
            }
        }
    }
}

fn lost(guard: &Guard, what: &str) -> Failure {
    Failure::new(LOCK_LOST, format!("the lock {:?} was lost while it was needed; {what}", guard.name()))
}

/// In the form of a shell.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(ERROR),
        (None, signal) => signal.map_or(ERROR, killed_by),
    }
}

/// In the form of a shell, for a process that a signal ended.
pub(in crate::cli) fn killed_by(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(ERROR)
}
