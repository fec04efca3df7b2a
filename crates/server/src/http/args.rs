//! Who may reach the server, and how.

use super::hosts::HostName;
use std::path::{Path, PathBuf};

/// What an operator says of the network.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Network")]
pub(crate) struct Args {
    /// Ask every request for a token of this file, which `duetime token create` makes and changes; it is read again when
    /// it changes
    #[arg(long, value_name = "FILE", env = "DUETIME_TOKENS")]
    pub(super) tokens: Option<PathBuf>,
    /// Speak TLS, with the certificates of this PEM file, the server's own first; they are read again when they change
    #[arg(long, value_name = "FILE", env = "DUETIME_TLS_CERT")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The private key of that certificate, as PEM
    #[arg(long, value_name = "FILE", env = "DUETIME_TLS_KEY")]
    pub(super) tls_key: Option<PathBuf>,
    /// Append a line of JSON to this file for each administrative call; they are in the log in any case
    #[arg(long, value_name = "FILE", env = "DUETIME_AUDIT_LOG")]
    pub(super) audit_log: Option<PathBuf>,
    /// Connections at once at most; half of them from one address
    #[arg(long, value_name = "NUMBER", env = "DUETIME_CONNECTIONS_MAX", default_value = "16384")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub(super) connections_max: u32,
    /// Listen also where other machines can reach it, though no tokens are asked for: whoever reaches it can do anything
    #[arg(long, env = "DUETIME_ALLOW_REMOTE")]
    pub(super) allow_remote: bool,
    /// A host name by which the server may be addressed; several by repeating it, or with a comma between. Without tokens
    /// only localhost and addresses are answered otherwise, with tokens any name
    #[arg(long, value_name = "NAME", env = "DUETIME_ALLOW_HOST", value_delimiter = ',')]
    pub(super) allow_host: Vec<HostName>,
}

impl Args {
    /// Connections at once at most.
    pub(crate) fn connections_max(&self) -> u32 {
        self.connections_max
    }

    /// The server's certificate, where TLS is spoken.
    pub(crate) fn tls_cert(&self) -> Option<&Path> {
        self.tls_cert.as_deref()
    }

    /// Whether TLS is spoken.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls_cert.is_some()
    }
}
