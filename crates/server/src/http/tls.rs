//! TLS 1.2 and 1.3, with a certificate that is read again when it changes, as it does every few weeks.

use super::limits::HANDSHAKE_TIME_MAX;
use super::middleware::heads::Heads;
use crate::account::Account;
use crate::file_error::FileError;
use crate::file_watch::FileWatch;
use duetime::server::{certificates, pem_words};
use duetime_core::api::DegradedCode;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// An encrypted connection.
pub(super) type Encrypted<S> = TlsStream<Heads<S>>;

/// The TLS configuration of connections.
pub(super) struct Tls {
    acceptor: FileWatch<TlsAcceptor>,
}

impl Tls {
    /// Reads the certificate and its key.
    ///
    /// # Errors
    /// If a file is missing, or they cannot be used.
    pub(super) fn open(cert: PathBuf, key: PathBuf) -> Result<Self, FileError> {
        Ok(Self { acceptor: FileWatch::open(DegradedCode::Certificate, [cert, key], read)? })
    }

    /// For a new connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.get()
    }

    /// Reads the files again whenever they change, until the process stops. If they are invalid (one of the two may be new
    /// and the other not), the previous ones stay in use.
    pub(super) async fn watch(&self, report: impl Fn(DegradedCode, Option<&str>)) {
        self.acceptor.watch(report).await;
    }
}

/// Reads the certificate and its key.
fn read(files: &[PathBuf], _: Option<&TlsAcceptor>) -> Result<TlsAcceptor, FileError> {
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

/// Agrees with a client on how a connection is encrypted, within a limit of time. What is read before that is counted.
///
/// # Errors
/// If they do not agree, or if unfinished handshakes use too much memory.
pub(crate) async fn encrypt<S>(acceptor: TlsAcceptor, stream: S, account: &Account) -> io::Result<Encrypted<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = Heads::new(stream, account);
    let handshake = stream.head();
    let agreed = timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await??;
    handshake.arrived();
    Ok(agreed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::BYTES_MIN;
    use crate::http::limits::HEAD_FREE_BYTES;
    use futures_util::FutureExt;
    use rustls::server::ResolvesServerCertUsingSni;
    use tokio::io::AsyncWriteExt;

    /// A first message of 64 KiB in records of 16 KiB, of which three come.
    fn unfinished() -> Vec<u8> {
        let mut message = vec![0; 3 << 14];
        message[..4].copy_from_slice(&[1, 0, 0xff, 0]);
        message.chunks(1 << 14).flat_map(|part| [&[22, 3, 1, 0x40, 0], part].concat()).collect()
    }

    /// The TLS library holds all of a message until it is complete, and strangers send it.
    #[tokio::test]
    async fn unfinished_handshakes_have_a_bound() {
        let account = Account::new(BYTES_MIN);
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let hello = unfinished();
        let fit = account.strangers.bytes() / (hello.len() - HEAD_FREE_BYTES);
        let (mut theirs, mut held) = (Vec::new(), Vec::new());
        for n in 0..=fit {
            let (mut client, server) = tokio::io::duplex(hello.len());
            client.write_all(&hello).await.unwrap();
            theirs.push(client);
            let mut handshake = Box::pin(encrypt(acceptor.clone(), server, &account));
            // So that it may read all of it at once.
            tokio::task::yield_now().await;
            let refused = (&mut handshake).now_or_never().map(|agreed| agreed.map(drop).unwrap_err().to_string());
            assert_eq!(refused.is_some(), n == fit, "{n}: {refused:?}");
            assert!(refused.is_none_or(|why| why.contains("too much memory")));
            held.push(handshake);
        }
    }
}
