//! TLS of outgoing connections, with the roots of the system and optionally one more.

use crate::error::{Cause, Error};
use duetime_core::error::system_words;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// Why a PEM file cannot be read.
pub(crate) fn pem_words(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("it cannot be read: {}", system_words(&error.to_string())),
        pem::Error::NoItemsFound => "it contains nothing of that kind in PEM format".to_owned(),
        _ => "it is not valid PEM".to_owned(),
    }
}

/// Reads the certificates in a file.
///
/// # Errors
/// Why they cannot be read, or that there are none.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|error| pem_words(&error))?;
    if found.is_empty() { Err("it contains no certificate in PEM format".to_owned()) } else { Ok(found) }
}

/// Returns the configuration for TLS 1.2 and 1.3. Certificates are always verified.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if the file cannot be read, or contains no PEM certificate.
pub(crate) fn client_config(root: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = root {
        let wrong = |why: String| Error::from(Cause::Roots { file: file.to_owned(), why });
        for certificate in certificates(file).map_err(wrong)? {
            roots.add(certificate).map_err(|_| wrong("one of its certificates is not valid".to_owned()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring serves TLS 1.2 and 1.3");
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
