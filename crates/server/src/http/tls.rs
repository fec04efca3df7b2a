//! TLS 1.2 and 1.3, with a certificate that is read again when it changes, as it does every few weeks.

use crate::file_error::FileError;
use crate::watched::Watched;
use duetime::server::{certificates, pem_words};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The TLS configuration of connections.
pub(super) struct Tls {
    acceptor: Watched<TlsAcceptor>,
}

impl Tls {
    /// Reads the certificate and its key.
    ///
    /// # Errors
    /// If a file is missing, or they cannot be used.
    pub(super) fn open(cert: PathBuf, key: PathBuf) -> Result<Self, FileError> {
        Ok(Self { acceptor: Watched::open("certificates", [cert, key], read)? })
    }

    /// For a new connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.get()
    }

    /// Reads the files again whenever they change, until the process stops. If they are invalid (one of the two may be new
    /// and the other not), the previous ones stay in use.
    pub(super) async fn watch(&self) {
        self.acceptor.watch(read).await;
    }
}

/// Reads the certificate and its key.
fn read(files: &[PathBuf]) -> Result<TlsAcceptor, FileError> {
    let (cert, key) = (&files[0], &files[1]);
    let of_cert = |why: String| FileError::new("the certificate", cert, why);
    let of_key = |why: String| FileError::new("the private key", key, why);
    let chain = certificates(cert).map_err(of_cert)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| of_key(pem_words(&error)))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring serves TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                of_cert("it does not belong to the private key of --tls-key".to_owned())
            }
            _ => of_cert("it, or the private key, is not valid or of a kind that is not supported".to_owned()),
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Clients that connect for every request can resume their session, without a full handshake each time.
    config.ticketer = rustls::crypto::ring::Ticketer::new()
        .map_err(|_| of_cert("the system has no random numbers for TLS tickets".to_owned()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
