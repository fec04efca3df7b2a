//! Options for the network and access.

use super::middleware::hosts::HostName;
use crate::serve::RequestsSize;
use std::path::PathBuf;

/// What an operator says of the network.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Network")]
pub(crate) struct Args {
    /// Require a token from this file with every request. `duetime token create` manages it; changes take effect within two
    /// seconds
    #[arg(long, value_name = "FILE", env = "DUETIME_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
    /// Certificate chain for TLS, as PEM, the server's own certificate first; reloaded when it changes
    #[arg(long, value_name = "FILE", env = "DUETIME_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of that certificate, as PEM
    #[arg(long, value_name = "FILE", env = "DUETIME_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Append a line of JSON to this file for each administrative call; the log has them in any case
    #[arg(long, value_name = "FILE", env = "DUETIME_AUDIT_LOG")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Maximum number of open connections; at most half of them from one address
    #[arg(long, value_name = "NUMBER", env = "DUETIME_CONNECTIONS_MAX", default_value = "16384")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub(crate) connections_max: u32,
    /// Memory for requests and answers in progress on all connections, from 16MiB to 4GiB. Beyond it, some requests wait
    /// up to 3 s, and others get 503 `too_many_bodies`
    #[arg(long, value_name = "SIZE", env = "DUETIME_REQUESTS_MEMORY_MAX", default_value = "384MiB")]
    pub(crate) requests_memory_max: RequestsSize,
    /// Allow other machines to connect without tokens: anyone who reaches the server can do anything
    #[arg(long, env = "DUETIME_ALLOW_REMOTE")]
    pub(crate) allow_remote: bool,
    /// Serve the API without the dashboard at /
    #[arg(long, env = "DUETIME_NO_DASHBOARD")]
    pub(crate) no_dashboard: bool,
    /// Host name that requests may use; repeatable, or separated by commas. Without tokens, only localhost, IP addresses
    /// and these names are accepted; with tokens, any name
    #[arg(long, value_name = "NAME", env = "DUETIME_ALLOW_HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<HostName>,
}
