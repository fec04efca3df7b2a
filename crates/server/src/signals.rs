//! Signals that a process handles instead of being ended by them.

use nix::sys::signal::Signal;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind, signal};

/// Once this exists, none of them ends the process.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// The signals that ask a process to stop. A terminal that closes sends SIGHUP.
    pub(crate) fn to_stop() -> io::Result<Self> {
        Self::listen(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])
    }

    /// The signals that ask a server to stop. A write beyond a limit of file sizes then fails instead of ending the process.
    pub(crate) fn of_server() -> io::Result<Self> {
        drop(signal(SignalKind::from_raw(Signal::SIGXFSZ as i32))?);
        Self::to_stop()
    }

    /// Hears these, but not a SIGHUP that the process was started to ignore, as by `nohup`.
    pub(crate) fn listen(which: &[Signal]) -> io::Result<Self> {
        let one = |which: Signal| Ok((which, signal(SignalKind::from_raw(which as i32))?));
        let heard = which.iter().copied().filter(|which| *which != Signal::SIGHUP || !is_ignored(*which));
        heard.map(one).collect::<io::Result<_>>().map(Self)
    }

    /// The next one that insists on an earlier request to stop. A terminal that closes and its shell both send SIGHUP, so that
    /// one never does. May be dropped and called again.
    pub(crate) async fn again(&mut self) {
        while self.next().await == Signal::SIGHUP {}
    }

    /// The next one. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let came =
                self.0.iter_mut().find_map(|(which, stream)| stream.poll_recv(context).is_ready().then_some(*which));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Whether the process was started to ignore it. Must be called before it is heard. False where it cannot be found out.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal as i32 - 1)) != 0
}
