//! The rules for reaching the server, read from the operator's options before there is an engine.

use super::args::Args;
use super::audit_log::Audit;
use super::middleware::hosts::{HostName, Hosts};
use super::tls::Tls;
use crate::access::Tokens;
use crate::account::Account;
use crate::file_error::FileError;
use crate::file_watch::to_health;
use duetime_core::Engine;
use futures_util::future::OptionFuture;
use std::net::SocketAddr;
use std::path::PathBuf;
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
    /// One file of TLS without the other.
    #[error("--tls-cert and --tls-key must be given together; one of them is missing")]
    HalfTls,
    /// The tokens, the files of TLS or the audit log cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Error {
    /// Whether the command line is wrong: an option is missing.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Remote(_) | Self::HalfTls)
    }
}

/// The rules for reaching the server; cheap to clone.
#[derive(Clone)]
pub(crate) struct ListenerConfig {
    /// The tokens that are asked for; `None`: everybody may do everything.
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// By which names it may be addressed.
    pub(super) hosts: Hosts,
    /// Takes down what administrators do.
    pub(crate) audit: Arc<Audit>,
    /// Encrypts connections.
    pub(super) tls: Option<Arc<Tls>>,
    /// Whether its addresses begin with `https://`.
    pub(super) is_https: bool,
    /// The memory of requests and answers, of all listeners together.
    pub(crate) account: Arc<Account>,
    /// Connections at once at most.
    pub(crate) connections_max: usize,
    /// Whether the dashboard is served.
    pub(crate) has_dashboard: bool,
}

impl ListenerConfig {
    /// Reads the options of a server that is to listen on this address.
    ///
    /// # Errors
    /// If everybody could do anything, or a file cannot be used.
    pub(crate) fn new(args: &Args, listen: SocketAddr) -> Result<Self, Error> {
        if Self::is_open_to_all(args, listen) {
            return Err(Error::Remote(listen));
        }
        let tokens = args.tokens.clone().map(Tokens::open).transpose()?.map(Arc::new);
        let tls = open_tls(args)?.map(Arc::new);
        let audit = Arc::new(Audit::open(args.audit_log.clone())?);
        let hosts = Hosts::new(&args.allow_host, tokens.is_some());
        let account = Account::new(args.requests_memory_max.0);
        let connections_max = usize::try_from(args.connections_max).expect("32 bits fit");
        let (is_https, has_dashboard) = (tls.is_some(), !args.no_dashboard);
        Ok(Self { tokens, hosts, audit, tls, is_https, account, connections_max, has_dashboard })
    }

    /// The rules for a router in a server of somebody else, who accepts connections.
    ///
    /// # Errors
    /// If the file of tokens cannot be used.
    pub(crate) fn of_mount(tokens: Option<PathBuf>, hosts: &[HostName], is_https: bool) -> Result<Self, FileError> {
        let tokens = tokens.map(Tokens::open).transpose()?.map(Arc::new);
        Ok(Self { hosts: Hosts::new(hosts, tokens.is_some()), tokens, is_https, ..Self::plain() })
    }

    /// All errors that would keep a server from listening so. Nothing is created.
    pub(crate) fn refusals(args: &Args, listen: SocketAddr) -> Vec<Error> {
        let remote = Self::is_open_to_all(args, listen).then_some(Error::Remote(listen));
        let tokens = args.tokens.clone().and_then(|file| Tokens::open(file).err()).map(Error::from);
        let tls = open_tls(args).err();
        [remote, tokens, tls].into_iter().flatten().collect()
    }

    fn is_open_to_all(args: &Args, listen: SocketAddr) -> bool {
        !listen.ip().is_loopback() && args.tokens.is_none() && !args.allow_remote
    }

    /// Whether a token is asked for.
    pub(crate) fn asks_for_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Encrypts a new connection, if there is a certificate.
    pub(crate) fn tls_acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
        self.tls.as_ref().map(|tls| tls.acceptor())
    }

    /// The scheme of the server's URL.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// Reads files again whenever they change, until the process stops. Those that cannot be read are in the engine's health.
    pub(crate) async fn watch(&self, engine: &Engine) {
        let tokens = OptionFuture::from(self.tokens.as_deref().map(|tokens| tokens.watch(to_health(engine))));
        let tls = OptionFuture::from(self.tls.as_deref().map(|tls| tls.watch(to_health(engine))));
        tokio::join!(tokens, tls, std::future::pending::<()>());
    }

    /// For this machine alone, as a server without options.
    pub(crate) fn plain() -> Self {
        Self {
            tokens: None,
            hosts: Hosts::new(&[], false),
            audit: Arc::default(),
            tls: None,
            is_https: false,
            account: Arc::default(),
            connections_max: 16,
            has_dashboard: true,
        }
    }
}

/// The files of TLS; `None` if none are given.
fn open_tls(args: &Args) -> Result<Option<Tls>, Error> {
    match (args.tls_cert.clone(), args.tls_key.clone()) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(Tls::open(cert, key)?)),
        _ => Err(Error::HalfTls),
    }
}
