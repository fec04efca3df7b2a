//! Why a server cannot serve.

use crate::{deliver, http};
use duetime_core::Error as CoreError;
use std::net::SocketAddr;

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The server cannot listen as requested.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// The system allows too few open files.
    #[error(transparent)]
    Descriptors(#[from] crate::descriptors::TooFew),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}", listen_failure(error))]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The address of the beanstalkd protocol cannot be listened on.
    #[error("cannot listen on {address}: {}", listen_failure(error))]
    ListenBeanstalk {
        /// Which.
        address: crate::beanstalk::Address,
        /// Why.
        error: std::io::Error,
    },
    /// An option contradicts another one.
    #[error("{0}")]
    Options(String),
    /// The log cannot be set up.
    #[error("--log-level must be error, warn, info, debug, trace or a filter such as info,hyper=debug, got {0}")]
    LogLevel(String),
    /// Nothing can be delivered to targets.
    #[error(transparent)]
    Deliver(#[from] deliver::Error),
    /// A background task that the server lives by has ended.
    #[error("{0}")]
    Fault(String),
    /// Signals cannot be heard, or nothing can be printed.
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
    /// The store cannot be opened or closed.
    #[error(transparent)]
    Store(#[from] CoreError),
}

fn listen_failure(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "the address is in use; stop the other server, or choose another port".to_owned()
        }
        _ => error.to_string(),
    }
}
