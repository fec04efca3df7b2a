//! What the server of this project needs besides the public library. Nothing here is stable.

pub use crate::error::Cause;
use crate::error::Error;
use crate::{kind_rules, tls};
use duetime_core::Retry;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, pem};
use std::path::Path;

/// The kind of jobs that clients of the beanstalkd protocol put.
pub const BEANSTALK: &str = kind_rules::BEANSTALK;

/// The retry rules of the kinds that Duetime's own ports push.
pub fn kind_rules() -> &'static [(&'static str, Retry)] {
    &kind_rules::KIND_RULES
}

/// Why a PEM file cannot be read.
pub fn pem_words(error: &pem::Error) -> String {
    tls::pem_words(error)
}

/// Reads the certificates in a file.
///
/// # Errors
/// Why they cannot be read, or that there are none.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    tls::certificates(file)
}

/// The TLS of outgoing connections, with the roots of the system and optionally one more.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if the file cannot be read, or contains no PEM certificate.
pub fn tls_config(root: Option<&Path>) -> Result<ClientConfig, Error> {
    tls::client_config(root)
}
