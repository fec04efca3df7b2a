//! What is said at the start: where to reach the server, what the store is, what it could lose, how to stop.

use super::args::Args;
use super::store::Opened;
use std::io::Write;
use std::net::SocketAddr;

/// Says it on standard output. That nobody reads it is no reason not to serve.
pub(super) fn print(address: SocketAddr, args: &Args, opened: &Opened) {
    if let Err(error) = try_print(address, args, opened) {
        tracing::warn!(%error, "standard output is closed; listening on http://{address}");
    }
}

fn try_print(address: SocketAddr, args: &Args, opened: &Opened) -> std::io::Result<()> {
    let Opened { store, loss, .. } = opened;
    let mut out = std::io::stdout().lock();
    writeln!(out, "duetime {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  listening on http://{address}")?;
    if args.allow_remote && !address.ip().is_loopback() {
        writeln!(out, "  open to      whoever can reach this address: there is no authentication yet")?;
    }
    writeln!(out, "  store        {store}")?;
    writeln!(out, "  could lose   {loss}")?;
    writeln!(out, "  stop         Ctrl-C, or SIGTERM to process {}", std::process::id())?;
    out.flush()
}
