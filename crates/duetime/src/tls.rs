//! How connections of ours are encrypted: with the roots of the system, and one more where it is named.

use crate::error::Error;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// The configuration of TLS 1.2 and 1.3; certificates are always checked.
///
/// # Errors
/// [`Error::Roots`] where the file cannot be read, or holds no certificate in PEM.
pub fn client_config(root: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = root {
        let wrong = |why: &dyn std::fmt::Display| Error::Roots { file: file.to_owned(), why: why.to_string() };
        let mut count = 0;
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
            roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
            count += 1;
        }
        if count == 0 {
            return Err(wrong(&"it holds no certificate"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring serves TLS 1.2 and 1.3");
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
