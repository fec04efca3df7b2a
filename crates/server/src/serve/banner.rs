//! The banner at the start: the server's address, its store, what a crash could lose, and how to stop.

use crate::beanstalk::Address;
use crate::http::ListenerConfig;
use duetime_store::open::Opened;
use std::io::Write;
use std::net::SocketAddr;

/// Prints the banner on standard output. If it cannot be written, the server still starts.
pub(super) fn print(
    address: SocketAddr,
    beanstalk: Option<Address>,
    listener_config: &ListenerConfig,
    opened: &Opened,
) {
    if let Err(error) = try_print(address, beanstalk, listener_config, opened) {
        tracing::warn!(%error, "standard output is closed; listening on {}://{address}", listener_config.scheme());
    }
}

/// Prints the address alone, for a program that starts a server for its tests.
pub(super) fn print_address(address: SocketAddr, listener_config: &ListenerConfig) {
    let mut out = std::io::stdout().lock();
    let printed = writeln!(out, "{}://{address}", listener_config.scheme()).and_then(|()| out.flush());
    if let Err(error) = printed {
        tracing::warn!(%error, "standard output is closed; listening on {}://{address}", listener_config.scheme());
    }
}

fn try_print(
    address: SocketAddr,
    beanstalk: Option<Address>,
    listener_config: &ListenerConfig,
    opened: &Opened,
) -> std::io::Result<()> {
    let Opened { name, loss, .. } = opened;
    let mut out = std::io::stdout().lock();
    writeln!(out, "duetime {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  listening on {}://{address}", listener_config.scheme())?;
    if let Some(address) = beanstalk {
        writeln!(out, "  beanstalk    {address}")?;
    }
    if listener_config.has_dashboard {
        writeln!(out, "  dashboard    {}://{address}/", listener_config.scheme())?;
    }
    writeln!(out, "  open to      {}", open_to(address, listener_config))?;
    writeln!(out, "  store        {name}")?;
    writeln!(out, "  could lose   {loss}")?;
    writeln!(out, "  stop         Ctrl-C, or SIGTERM to process {}", std::process::id())?;
    out.flush()
}

/// The callers with access to this server, in words.
fn open_to(address: SocketAddr, listener_config: &ListenerConfig) -> &'static str {
    match (listener_config.asks_for_tokens(), listener_config.scheme() == "https", address.ip().is_loopback()) {
        (true, true, _) | (true, _, true) => "holders of a token",
        (true, false, false) => "holders of a token, sent unencrypted: use --tls-cert, or put a TLS proxy in front",
        (false, _, true) => "anyone on this machine: no tokens are required",
        (false, _, false) => "anyone who can reach this address: no tokens are required",
    }
}
