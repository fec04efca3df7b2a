//! Asks the server that the options of `serve` describe, as a container's health check does: on its address, and over TLS
//! if it uses TLS. The server must present exactly the certificate of the configuration; the names in it do not matter.

use crate::cli::exit::{CONFIG, Failure, Result, TRY_LATER};
use crate::config::{Surroundings, parse};
use crate::serve;
use bytes::Bytes;
use clap::{Command, FromArgMatches};
use duetime_core::engine::Health;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// Time limit for the server, less than the three seconds of a container's health check.
const TIME_MAX: Duration = Duration::from_millis(2_500);
/// Far more than a server says of its health.
const ANSWER_BYTES_MAX: usize = 1 << 20;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The health of the server.
pub(super) async fn health(command: &Command) -> Result<Health> {
    let args = configuration(command)?;
    let address = args.reached_at();
    let asked = async {
        let stream = TcpStream::connect(address).await?;
        match &args.http.tls_cert {
            None => ask(stream).await,
            Some(cert) => ask(encrypt(stream, cert).await?).await,
        }
    };
    let failed = |why: String| {
        Failure::new(TRY_LATER, format!("cannot check the server at {address}: {why}"))
            .hint("`duetime config show` prints the address and the certificate that were used")
    };
    match tokio::time::timeout(TIME_MAX, asked).await {
        Ok(Ok(health)) => Ok(health),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("no answer within {} ms", TIME_MAX.as_millis()))),
    }
}

/// The options that `duetime serve` has here, from its file and variables.
fn configuration(command: &Command) -> Result<serve::Args> {
    let line = ["duetime", "serve"].map(OsString::from);
    let wrong = |error: clap::Error| Failure::new(CONFIG, error.to_string());
    let parsed = parse(command, &line, &Surroundings::own()).map_err(wrong)?;
    if let Some(mistake) = parsed.settings.iter().flat_map(|settings| &settings.mistakes).next() {
        return Err(Failure::new(CONFIG, mistake.text.clone()));
    }
    let (_, of_serve) = parsed.matches.subcommand().expect("the line has a command");
    serve::Args::from_arg_matches(of_serve).map_err(wrong)
}

async fn ask(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> std::result::Result<Health, Failed> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = Request::get("/readyz").header(HOST, "localhost").body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
    Ok(serde_json::from_slice(&body)?)
}

async fn encrypt(
    stream: TcpStream,
    cert: &Path,
) -> std::result::Result<tokio_rustls::client::TlsStream<TcpStream>, Failed> {
    let own = CertificateDer::from_pem_file(cert).map_err(|error| format!("{}: {error}", cert.display()))?;
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Pinned { own, provider: provider.clone() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost")?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

/// Trusts one certificate and no other.
#[derive(Debug)]
struct Pinned {
    own: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if *shown == self.own {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General("its certificate is not the configured one".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
