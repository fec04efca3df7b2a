//! A server for the tests of a program: `duetime serve --test`.

use super::args::Args;
use super::error::Error;
use nix::sys::stat::{SFlag, fstat};
use std::io::Read;
use tokio_util::sync::CancellationToken;

/// Checks that only this machine can reach a server for tests.
pub(super) fn check(args: &Args) -> Result<(), Error> {
    if !args.test || args.listen.ip().is_loopback() {
        return Ok(());
    }
    let listen = args.listen;
    let why =
        format!("with --test, --listen must be an address of this machine alone, such as 127.0.0.1:0, got {listen}");
    Err(Error::Options(why))
}

/// Stops the server when its standard input ends: then the program that started it has ended, however it did. Only a pipe
/// is watched, since a terminal, a file or `/dev/null` says nothing about that program.
pub(super) fn watch_stdin(stop: &CancellationToken) {
    let kind = fstat(std::io::stdin()).map(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
    if !matches!(kind, Ok(SFlag::S_IFIFO | SFlag::S_IFSOCK)) {
        return;
    }
    let stop = stop.clone();
    let watch = move || {
        let mut read = [0; 256];
        while std::io::stdin().read(&mut read).is_ok_and(|count| count > 0) {}
        tracing::info!("stopping: standard input has ended");
        stop.cancel();
    };
    if let Err(error) = std::thread::Builder::new().name("duetime-stdin".to_owned()).spawn(watch) {
        tracing::warn!(%error, "the end of standard input cannot be watched; stop this server by a signal");
    }
}
