//! TLS 1.2 and 1.3, with a certificate that is read again when it changes, as it does every few weeks.

use crate::watched::reread;
use duetime::tls::pem_words;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// One file without the other.
    #[error("--tls-cert and --tls-key must be given together; one of them is missing")]
    Half,
    /// A file that cannot be used.
    #[error("the {what} {}: {why}", file.display())]
    File {
        /// Which of the two.
        what: &'static str,
        /// Which file.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

/// What connections are encrypted with.
pub(super) struct Tls {
    cert: PathBuf,
    key: PathBuf,
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    /// Reads the files; `None` where there are none.
    ///
    /// # Errors
    /// Where one is missing, or they cannot be used.
    pub(super) fn open(cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<Self>, Error> {
        match (cert, key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => {
                let acceptor = RwLock::new(read(&cert, &key)?);
                Ok(Some(Self { cert, key, acceptor }))
            }
            _ => Err(Error::Half),
        }
    }

    /// For a new connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files whenever they have changed, until the process stops. Where they are wrong (one of the two may be new and the other
    /// not), the former ones go on to serve.
    pub(super) async fn watch(&self) {
        let take = |acceptor| *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        let files = [self.cert.clone(), self.key.clone()];
        reread(files, "certificates", || read(&self.cert, &self.key), take).await;
    }
}

fn read(cert: &Path, key: &Path) -> Result<TlsAcceptor, Error> {
    let of_cert = |why: String| Error::File { what: "certificate", file: cert.to_owned(), why };
    let of_key = |why: String| Error::File { what: "private key", file: key.to_owned(), why };
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(cert).and_then(Iterator::collect).map_err(|error| of_cert(pem_words(&error)))?;
    if chain.is_empty() {
        return Err(of_cert("it contains no certificate in PEM format".to_owned()));
    }
    // The error never shows what it read.
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
    // So that clients which connect for every request need not do the whole handshake each time.
    config.ticketer = rustls::crypto::ring::Ticketer::new()
        .map_err(|_| of_cert("the system has no random numbers for TLS tickets".to_owned()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
