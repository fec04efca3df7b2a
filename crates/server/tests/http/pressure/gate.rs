//! A gate: a plain port in front of a door that is not one, such as TLS or a unix socket, so that each row presses every door.

use crate::certificate::Certificate;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

/// Bytes that a gate buffers in each direction: few, so that unread answers stay with the server.
const HELD_BYTES: usize = 4 << 10;

/// Where a gate leads to.
#[derive(Clone)]
pub(super) enum Door {
    Tls(SocketAddr, TlsConnector),
    Unix(PathBuf),
}

impl Door {
    /// TLS at this address, by this certificate.
    pub(super) fn tls(address: SocketAddr, certificate: &Certificate) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate.path("root.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Self::Tls(address, Arc::new(config.with_root_certificates(roots).with_no_client_auth()).into())
    }
}

/// Open while it lives.
pub(super) struct Gate {
    pub(super) address: SocketAddr,
    _runtime: Runtime,
}

impl Gate {
    pub(super) fn before(door: Door) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            loop {
                let (client, from) = listener.accept().await.unwrap();
                tokio::spawn(pass(client, from, door.clone()));
            }
        });
        Self { address, _runtime: runtime }
    }
}

/// The server sees the caller's own address. A connection that it refuses is closed.
async fn pass(mut client: TcpStream, from: SocketAddr, door: Door) -> std::io::Result<()> {
    match door {
        Door::Tls(address, connector) => {
            let socket = TcpSocket::new_v4()?;
            socket.set_recv_buffer_size(4 << 10)?;
            socket.bind((from.ip(), 0).into())?;
            let stream = socket.connect(address).await?;
            let name = ServerName::from(address.ip());
            between(&mut client, &mut connector.connect(name, stream).await?).await
        }
        Door::Unix(path) => between(&mut client, &mut UnixStream::connect(path).await?).await,
    }
}

async fn between(client: &mut TcpStream, server: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<()> {
    copy_bidirectional_with_sizes(client, server, HELD_BYTES, HELD_BYTES).await.map(drop)
}
