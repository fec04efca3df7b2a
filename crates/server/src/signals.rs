//! Signals that a process handles instead of being ended by them.

use nix::sys::signal::Signal;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind, signal};

/// Once this exists, none of them ends the process.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// The signals that ask a process to stop.
    pub(crate) fn to_stop() -> io::Result<Self> {
        Self::listen(&[Signal::SIGTERM, Signal::SIGINT])
    }

    /// The signals that ask a server to stop. A write beyond a limit of file sizes then fails instead of ending the process.
    pub(crate) fn of_server() -> io::Result<Self> {
        drop(signal(SignalKind::from_raw(Signal::SIGXFSZ as i32))?);
        Self::to_stop()
    }

    /// Hears these.
    pub(crate) fn listen(which: &[Signal]) -> io::Result<Self> {
        let one = |&which: &Signal| Ok((which, signal(SignalKind::from_raw(which as i32))?));
        which.iter().map(one).collect::<io::Result<_>>().map(Self)
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
