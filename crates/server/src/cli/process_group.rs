//! The processes of a command: their own group, which is signalled and ended as a whole.

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::Child;

/// How often it is checked whether they are gone.
const LOOK: Duration = Duration::from_millis(20);

/// The processes of a run. If it is dropped before the run is over, it kills them.
pub(super) struct Group {
    leader: Pid,
    is_over: bool,
}

impl Group {
    /// The group that a child leads, which was started with `process_group(0)`.
    pub(super) fn of(child: &Child) -> io::Result<Self> {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { leader: Pid::from_raw(leader), is_over: false })
    }

    /// Sends a signal to the group. Does nothing if no process is left.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = killpg(self.leader, signal);
    }

    /// Ends all of them: SIGTERM, then SIGKILL if they have not ended within this time.
    pub(super) async fn end(&mut self, child: &mut Child, heed: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::SIGTERM);
        let gone = async {
            let _ = child.wait().await;
            while self.is_there() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(heed, gone).await.is_err() {
            self.signal(Signal::SIGKILL);
        }
        child.wait().await
    }

    /// The run is over: processes left behind are not signalled.
    pub(super) fn over(&mut self) {
        self.is_over = true;
    }

    fn is_there(&self) -> bool {
        killpg(self.leader, None) != Err(Errno::ESRCH)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::SIGKILL);
        }
    }
}
