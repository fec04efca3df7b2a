//! The signals that are passed on.

use nix::sys::signal::Signal;
use std::io;
use tokio::signal::unix::{self, SignalKind, signal};

/// From when it is made, none of them ends this process.
pub(super) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hangup: signal(SignalKind::hangup())? })
    }

    /// The next one. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.hangup.recv() => Signal::SIGHUP,
        }
    }
}
