//! TLS of connections.

use duetime_core::Error;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// Returns a configuration that checks certificates against this root, or against those of the machine.
///
/// # Errors
/// [`Error::Unusable`] if the root cannot be read.
pub(super) fn config(root: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    match root {
        Some(file) => {
            let unusable = |error: &dyn std::fmt::Display| {
                Error::Unusable(format!("`sslrootcert` {} cannot be read as PEM: {error}", file.display()))
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))? {
                let certificate = certificate.map_err(|error| unusable(&error))?;
                roots.add(certificate).map_err(|error| unusable(&error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Error::Unusable(format!("TLS cannot be set up: {error}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
