//! Who may reach the server, and how.

use super::middleware::hosts::HostName;
use std::path::PathBuf;

/// What an operator says of the network.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Network")]
pub(crate) struct Args {
    /// Ask every request for a token of this file, which `duetime token create` makes and changes; it is read again when
    /// it changes
    #[arg(long, value_name = "FILE", env = "DUETIME_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
    /// Speak TLS, with the certificates of this PEM file, the server's own first; they are read again when they change
    #[arg(long, value_name = "FILE", env = "DUETIME_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of that certificate, as PEM
    #[arg(long, value_name = "FILE", env = "DUETIME_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Append a line of JSON to this file for each administrative call; they are in the log in any case
    #[arg(long, value_name = "FILE", env = "DUETIME_AUDIT_LOG")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Connections at once at most; half of them from one address
    #[arg(long, value_name = "NUMBER", env = "DUETIME_CONNECTIONS_MAX", default_value = "16384")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub(crate) connections_max: u32,
    /// Listen also where other machines can reach it, though no tokens are asked for: whoever reaches it can do anything
    #[arg(long, env = "DUETIME_ALLOW_REMOTE")]
    pub(crate) allow_remote: bool,
    /// Serve the API alone, without the dashboard at /
    #[arg(long, env = "DUETIME_NO_DASHBOARD")]
    pub(crate) no_dashboard: bool,
    /// A host name by which the server may be addressed; several by repeating it, or with a comma between. Without tokens
    /// only localhost and addresses are answered otherwise, with tokens any name
    #[arg(long, value_name = "NAME", env = "DUETIME_ALLOW_HOST", value_delimiter = ',')]
    pub(crate) allow_host: Vec<HostName>,
}
