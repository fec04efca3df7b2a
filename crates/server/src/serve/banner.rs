//! What is said at the start: where to reach the server, what the store is, what it could lose, how to stop.

use super::args::Args;
use duetime_store::sqlite::Durability;
use std::io::Write;
use std::net::SocketAddr;

/// Says it on standard output. That nobody reads it is no reason not to serve.
pub(super) fn print(address: SocketAddr, args: &Args) {
    if let Err(error) = try_print(address, args) {
        tracing::warn!(%error, "standard output is closed; listening on http://{address}");
    }
}

fn try_print(address: SocketAddr, args: &Args) -> std::io::Result<()> {
    let (store, loss) = match (args.file(), args.durability) {
        (None, _) => ("memory".to_owned(), "everything, when this process ends"),
        (Some(path), durability) => (format!("{} (SQLite, durability {durability})", path.display()), loss(durability)),
    };
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

fn loss(durability: Durability) -> &'static str {
    match durability {
        Durability::Commit => "nothing that was acknowledged, as far as the disk keeps what it was told to sync",
        Durability::Interval => "what was acknowledged in the last 50 ms, in a power failure; nothing in a crash",
        Durability::None => "the whole file, in a power failure; nothing in a crash of this process",
    }
}
