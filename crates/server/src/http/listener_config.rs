//! Who may reach the server, and how: read from what the operator says before there is an engine.

use super::args::Args;
use super::middleware::audit::{self, Audit};
use super::middleware::hosts::Hosts;
use super::tls::{self, Tls};
use crate::access::{self, Caller, Tokens};
use duetime_core::Millis;
use std::net::SocketAddr;
use std::sync::Arc;

/// Why the server cannot be reached as it is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// Everybody could do anything.
    #[error(
        "other machines can reach {0}, and no tokens are required: anyone who reaches it can do anything with your \
         jobs. Create a token with `duetime token create NAME --allow admin` and use --tokens FILE; or listen on \
         127.0.0.1; or use --allow-remote if only trusted machines can reach the network"
    )]
    Remote(SocketAddr),
    /// The tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] access::Error),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// Nothing can be written into the audit log.
    #[error(transparent)]
    Audit(#[from] audit::Error),
}

impl Error {
    /// Whether the command line is wrong: an option is missing.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Remote(_) | Self::Tls(tls::Error::Half))
    }
}

/// Who may reach the server, and how; a cheap handle.
#[derive(Clone)]
pub(crate) struct ListenerConfig {
    /// The tokens that are asked for; `None`: everybody may do everything.
    pub(super) tokens: Option<Arc<Tokens>>,
    /// By which names it may be addressed.
    pub(super) hosts: Hosts,
    /// Takes down what administrators do.
    pub(super) audit: Arc<Audit>,
    /// Encrypts connections.
    pub(super) tls: Option<Arc<Tls>>,
    /// Connections at once at most.
    pub(super) connections_max: usize,
    /// Whether the dashboard is served.
    pub(super) has_dashboard: bool,
}

impl ListenerConfig {
    /// Reads what the operator says of a server that is to listen here.
    ///
    /// # Errors
    /// Where everybody could do anything; where a file cannot be used.
    pub(crate) fn new(args: &Args, listen: SocketAddr) -> Result<Self, Error> {
        if Self::is_open_to_all(args, listen) {
            return Err(Error::Remote(listen));
        }
        let tokens = args.tokens.clone().map(Tokens::open).transpose()?.map(Arc::new);
        let tls = Tls::open(args.tls_cert.clone(), args.tls_key.clone())?.map(Arc::new);
        let audit = Arc::new(Audit::open(args.audit_log.clone())?);
        let hosts = Hosts::new(&args.allow_host, tokens.is_some());
        let connections_max = usize::try_from(args.connections_max).expect("32 bits fit");
        Ok(Self { tokens, hosts, audit, tls, connections_max, has_dashboard: !args.no_dashboard })
    }

    /// All that keeps a server from being reached so, as far as it is seen without making anything.
    pub(crate) fn refusals(args: &Args, listen: SocketAddr) -> Vec<Error> {
        let remote = Self::is_open_to_all(args, listen).then_some(Error::Remote(listen));
        let tokens = args.tokens.clone().and_then(|file| Tokens::open(file).err()).map(Error::from);
        let tls = Tls::open(args.tls_cert.clone(), args.tls_key.clone()).err().map(Error::from);
        [remote, tokens, tls].into_iter().flatten().collect()
    }

    fn is_open_to_all(args: &Args, listen: SocketAddr) -> bool {
        !listen.ip().is_loopback() && args.tokens.is_none() && !args.allow_remote
    }

    /// Whether the dashboard is served.
    pub(crate) fn has_dashboard(&self) -> bool {
        self.has_dashboard
    }

    /// Whether a token is asked for.
    pub(crate) fn asks_for_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// The tokens that are asked for.
    pub(crate) fn tokens(&self) -> Option<Arc<Tokens>> {
        self.tokens.clone()
    }

    /// Writes down the calls of administrators.
    pub(crate) fn audit(&self) -> Arc<Audit> {
        self.audit.clone()
    }

    /// Encrypts a new connection, where there is a certificate.
    pub(crate) fn tls_acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
        self.tls.as_ref().map(|tls| tls.acceptor())
    }

    /// Connections at once at most.
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Whether whoever was let in may stay: their token is neither revoked nor over.
    pub(super) fn still_lets(&self, caller: &Caller, now: Millis) -> bool {
        match (caller, &self.tokens) {
            (Caller::Token(known), Some(tokens)) => tokens.knows(known, now),
            _ => true,
        }
    }

    /// What an address of the server begins with.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Reads files again whenever they change, until the process stops.
    pub(crate) async fn watch(&self) {
        let tokens = async {
            match &self.tokens {
                Some(tokens) => tokens.watch().await,
                None => std::future::pending().await,
            }
        };
        let tls = async {
            match &self.tls {
                Some(tls) => tls.watch().await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(tokens, tls);
    }

    /// For this machine alone, as a server without options.
    #[cfg(test)]
    pub(crate) fn local() -> Self {
        let audit = Arc::new(Audit::default());
        Self { tokens: None, hosts: Hosts::new(&[], false), audit, tls: None, connections_max: 16, has_dashboard: true }
    }
}
