//! How connections are encrypted: with the roots of the system, and one more where it is named.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A root that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the webhook root certificates {} cannot be read as PEM: {why}", file.display())]
pub(crate) struct Error {
    file: PathBuf,
    why: String,
}

/// The configuration of TLS; certificates are always checked.
pub(super) fn config(root: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = root {
        let wrong = |why: &dyn std::fmt::Display| Error { file: file.to_owned(), why: why.to_string() };
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
