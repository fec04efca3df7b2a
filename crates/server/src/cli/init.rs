//! The first process of a container, if `duetime work` or `duetime lock` is its entry point. The system gives it every process
//! whose parent has ended, and it must wait for each of them, or they stay as zombies. A worker waits only for its own
//! commands, so the first process starts itself once more as the worker, passes signals on to it, waits for whatever ends, and
//! ends with the worker's exit code.

use super::exit::ERROR;
use super::with_lock::killed_by;
use crate::signals::Signals;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Signals that are passed on. A terminal sends them only here, since the worker is in another process group.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// Whether this process is the first one.
pub(super) fn is_first() -> bool {
    getpid() == Pid::from_raw(1)
}

/// Runs the same command line in a second process, to its end.
///
/// # Errors
/// If it cannot be started.
pub(super) async fn run() -> io::Result<ExitCode> {
    // Both are heard before anything is started, so that no end and no request to stop is missed.
    let mut signals = Signals::listen(&PASSED_ON)?;
    let mut ends = Signals::listen(&[Signal::SIGCHLD])?;
    let mut command = Command::new(std::env::current_exe()?);
    let mut line = std::env::args_os();
    if let Some(name) = line.next() {
        command.arg0(name);
    }
    #[allow(clippy::zombie_processes, reason = "`reap` waits for it, and for all others")]
    let child = command.args(line).process_group(0).spawn()?;
    let worker = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    loop {
        if let Some(code) = reap(worker)? {
            return Ok(code);
        }
        tokio::select! {
            _ = ends.next() => {}
            // If it has just ended, that comes next.
            signal = signals.next() => {
                let _ = kill(worker, signal);
            }
        }
    }
}

/// Waits for all that have ended. Returns the exit code of the worker, if it is among them.
fn reap(worker: Pid) -> io::Result<Option<ExitCode>> {
    loop {
        let code = match waitpid(None, Some(WaitPidFlag::WNOHANG))? {
            WaitStatus::Exited(pid, code) if pid == worker => u8::try_from(code).unwrap_or(ERROR),
            WaitStatus::Signaled(pid, signal, _) if pid == worker => killed_by(signal as i32),
            WaitStatus::StillAlive => return Ok(None),
            _ => continue,
        };
        return Ok(Some(ExitCode::from(code)));
    }
}
