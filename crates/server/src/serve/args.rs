//! The options of `duetime serve`.

use super::instance::Instance;
use super::port::port_bound;
use super::size::{MemorySize, Size};
use crate::log;
use clap::ValueEnum;
use duetime_core::api::Span;
use duetime_store::open::Spec;
use duetime_store::sql;
use duetime_store::sqlite::Durability;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

const BROKER_HELP: &str = "Redis to keep jobs in instead of a file; several servers can share it: \
    redis://[user:password@]host[:port][/db][?namespace=name], rediss:// for TLS, \
    redis+sentinel://host:port,…/master[/db], redis+cluster://host:port,…";

/// Run the server: HTTP API and dashboard.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) config: crate::config::Args,
    /// IP address and port to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", env = "DUETIME_LISTEN", default_value = "127.0.0.1:7300", value_parser = address)]
    #[arg(default_value_if("test", "true", "127.0.0.1:0"))]
    pub(super) listen: SocketAddr,
    /// Serve the tests of a program: in memory, on this machine only, on a free port, with a clock that requests can move.
    /// Prints its address as its first line, logs warnings only, reads no configuration file and no variables, and ends when
    /// its standard input ends if that is a pipe
    #[arg(long, conflicts_with_all = ["config", "store", "broker", "ledger"])]
    pub(crate) test: bool,
    /// Store file, created if it does not exist; or `memory`, which is lost when the server stops
    #[arg(long, value_name = "PATH", env = "DUETIME_STORE", default_value = "duetime.db")]
    pub(super) store: PathBuf,
    /// The address of a Redis that other servers share, instead of a file.
    #[arg(long, value_name = "URL", env = "DUETIME_BROKER", hide_env_values = true, help = BROKER_HELP)]
    pub(super) broker: Option<String>,
    /// Database that records every job beside that Redis: mysql://user:password@host:port/database or postgres://…; add
    /// ?sslmode=require for TLS
    #[arg(long, value_name = "URL", env = "DUETIME_LEDGER", hide_env_values = true)]
    pub(super) ledger: Option<String>,
    /// Maximum number of connections to that database
    #[arg(long, value_name = "NUMBER", env = "DUETIME_LEDGER_CONNECTIONS", default_value = "8")]
    pub(super) ledger_connections: usize,
    /// Never change the database's tables; refuse to start if they are not up to date (see `duetime migrate`)
    #[arg(long, env = "DUETIME_NO_MIGRATE")]
    pub(super) no_migrate: bool,
    /// Accept a database whose settings allow it to lose committed jobs when its machine crashes
    #[arg(long, env = "DUETIME_LEDGER_MAY_LOSE")]
    pub(super) ledger_may_lose: bool,
    /// Horizon: jobs due within this time are held in memory or Redis, later ones only in the file or database; in steps of
    /// 10 minutes
    #[arg(long, value_name = "DURATION", env = "DUETIME_HORIZON", default_value = "1h")]
    #[arg(default_value_if("test", "true", "3652d12h"))]
    pub(super) horizon: Span,
    /// Memory for live jobs, in the server or in Redis, such as 512MiB or 2GiB. Beyond it, due jobs wait in the file or
    /// database; with Redis alone, pushes are refused [default: 512MiB; with Redis 75 % of its maxmemory, 90 % without a
    /// ledger]
    #[arg(long, value_name = "SIZE", env = "DUETIME_MEMORY_MAX")]
    pub(super) memory_max: Option<MemorySize>,
    /// Acknowledge an outcome once it is in the `broker`, or once it is `recorded` in the database
    #[arg(long, value_name = "WHEN", env = "DUETIME_SETTLE", default_value = "broker")]
    pub(super) settle: Settle,
    /// Write changes to disk: `commit` before they are acknowledged, `interval` within 50 ms after, `none` when the
    /// operating system does
    #[arg(long, value_name = "WHEN", env = "DUETIME_DURABILITY", default_value = "commit")]
    pub(super) durability: Durability,
    /// Log level: error, warn, info, debug, trace, or a filter such as `info,hyper=debug`
    #[arg(long, value_name = "LEVEL", env = "DUETIME_LOG_LEVEL", default_value = "info")]
    #[arg(default_value_if("test", "true", "warn"))]
    pub(super) log_level: String,
    /// Format of the log on standard error
    #[arg(long, value_name = "FORMAT", env = "DUETIME_LOG_FORMAT", default_value = "text")]
    pub(super) log_format: log::Format,
    /// Name of this process in the log, 1 to 64 characters without spaces [default: host name and process id]
    #[arg(long, value_name = "NAME", env = "DUETIME_INSTANCE")]
    pub(super) instance: Option<Instance>,
    /// Maximum payload of a job, up to 64MiB
    #[arg(long, value_name = "SIZE", env = "DUETIME_PAYLOAD_MAX", default_value = "1MiB")]
    pub(super) payload_max: Size,
    #[command(flatten)]
    pub(crate) http: crate::http::Args,
    #[command(flatten)]
    pub(super) beanstalk: crate::beanstalk::Args,
    #[command(flatten)]
    pub(super) deliver: crate::deliver::Args,
}

/// When an outcome counts as acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Settle {
    /// Once it is in the broker; it is recorded in the database a moment later
    Broker,
    /// Once it is recorded in the database
    Recorded,
}

impl Args {
    /// A server without a file, that listens there and takes nothing from the environment.
    pub(crate) fn in_memory(listen: SocketAddr) -> Self {
        let command = <Self as clap::Args>::augment_args(clap::Command::new("serve"));
        let command = command.mut_args(|arg| arg.env(None::<&str>));
        let line =
            ["serve", "--store", "memory", "--log-level", "error", "--listen", &listen.to_string()].map(str::to_owned);
        let matches = command.get_matches_from(line);
        <Self as clap::FromArgMatches>::from_arg_matches(&matches).expect("each option is right")
    }

    /// The store for the jobs.
    pub(crate) fn store(&self) -> Spec {
        match (self.broker.clone(), self.ledger.clone()) {
            (Some(broker), Some(ledger)) => {
                let options = sql::Options {
                    connections: self.ledger_connections,
                    migrates: !self.no_migrate,
                    may_lose: self.ledger_may_lose,
                    ..sql::Options::default()
                };
                Spec::Pair { broker, ledger, options }
            }
            (Some(url), None) => Spec::Redis { url, memory_max: self.memory_max.map(|size| size.0) },
            (None, _) if self.test || self.store.as_os_str() == "memory" => Spec::Memory,
            (None, _) => Spec::File { path: self.store.clone(), durability: self.durability, inbox: None },
        }
    }

    /// The address at which this machine reaches a server that listens there.
    pub(crate) fn reached_at(&self) -> SocketAddr {
        let ip = match self.listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.listen.port())
    }
}

/// An address to listen on.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let bound = port_bound(text);
        format!("expected an IP address and a port{bound}, such as 127.0.0.1:7300 or [::]:7300")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_too_large_is_told() {
        assert!(address("127.0.0.1:7300").is_ok() && address("[::]:65535").is_ok());
        for (text, is_large) in [("127.0.0.1:99999", true), ("[::1]:65536", true), ("here", false), ("::1", false)] {
            let error = address(text).unwrap_err();
            assert_eq!(error.contains("a port of at most 65535"), is_large, "{error}");
        }
    }
}
