//! Connections: accepted within limits, encrypted if the client asks for it, and closed in order.

use super::args::Address;
use super::connection::converse;
use super::door::Door;
use super::limits::{AUTH_TIME_MAX, SEND_TIME_MAX};
use crate::http::{ACCEPT_PAUSE, ListenerConfig, STOP_TIME_MAX, UNACKNOWLEDGED_MS_MAX, encrypt, peers};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpUserTimeout;
use nix::sys::stat::{Mode, umask};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// The first byte of a TLS connection, a handshake record. No command begins with it.
const TLS_HANDSHAKE: u8 = 22;

/// A listening socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// A connection before anything was read of it.
enum Stream {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Listener {
    /// Listens there. A socket left behind by a process is replaced, unless a process listens on it.
    ///
    /// # Errors The system's errors.
    pub(crate) async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            Address::Unix(path) => {
                let listener = match bind_unix(path) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind(path).await => {
                        std::fs::remove_file(path)?;
                        bind_unix(path)?
                    }
                    listener => listener?,
                };
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// The address that it listens on.
    pub(crate) fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Self::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Self::Unix(_, path) => Address::Unix(path.clone()),
        })
    }

    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                setsockopt(&stream, TcpUserTimeout, &UNACKNOWLEDGED_MS_MAX)?;
                Ok(Stream::Tcp(stream, peer))
            }
            Self::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket that its owner may use, and its group if the umask allows that, but never others.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    // The mode is set by the system when the socket is made, so that nobody connects before it is restricted.
    let usual = umask(Mode::all());
    umask(usual | Mode::from_bits_truncate(0o117));
    let bound = UnixListener::bind(path);
    umask(usual);
    bound
}

/// True if this is a socket without a listener.
async fn is_left_behind(path: &Path) -> bool {
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        return false;
    }
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    UnixStream::connect(path).await.err().is_some_and(refused)
}

/// Serves until the door stops, then gives back what connections hold, within a limit of time.
pub(crate) async fn serve(listener: Listener, door: Arc<Door>, config: ListenerConfig) {
    let connections_max = config.connections_max;
    let slots = Arc::new(Semaphore::new(connections_max));
    let peers = peers::Peers::new((connections_max / 2).max(1));
    let conversations = TaskTracker::new();
    let accepting = async {
        loop {
            let slot = slots.clone().acquire_owned().await.expect("it is never closed");
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a beanstalkd connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (door, config) = (door.clone(), config.clone());
            match stream {
                Stream::Unix(stream) => drop(conversations.spawn(async move {
                    let _slot = slot;
                    converse(door, stream, None).await;
                })),
                Stream::Tcp(stream, peer) => {
                    let Some(admitted) = peers.admit(peer.ip()) else {
                        tracing::debug!(%peer, "closed: too many connections from this address");
                        continue;
                    };
                    conversations.spawn(async move {
                        let _room = (slot, admitted);
                        of_network(door, config, stream, peer).await;
                    });
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = door.stopping.cancelled() => {}
    }
    drop(listener);
    conversations.close();
    if timeout(STOP_TIME_MAX, conversations.wait()).await.is_err() {
        tracing::warn!(seconds = STOP_TIME_MAX.as_secs(), "beanstalkd connections were still busy and are closed");
    }
}

/// Serves a client on the network. If the server has a certificate, clients on other machines must use TLS.
async fn of_network(door: Arc<Door>, config: ListenerConfig, stream: TcpStream, peer: SocketAddr) {
    let Some(acceptor) = config.tls_acceptor() else { return converse(door, stream, Some(peer)).await };
    let mut first = [0];
    let begin = async {
        tokio::select! {
            read = stream.peek(&mut first) => read.ok(),
            () = door.stopping.cancelled() => None,
            () = tokio::time::sleep(AUTH_TIME_MAX), if door.tokens.is_some() => None,
        }
    };
    if begin.await.is_none_or(|read| read == 0) {
        return;
    }
    if first[0] != TLS_HANDSHAKE {
        if peer.ip().to_canonical().is_loopback() {
            return converse(door, stream, Some(peer)).await;
        }
        let _ = timeout(SEND_TIME_MAX, stream.writable()).await;
        let _ = stream.try_write(b"INTERNAL_ERROR\r\n");
        tracing::debug!(%peer, "closed: connections from other machines must use TLS");
        return;
    }
    match encrypt(acceptor, stream, &door.account).await {
        Ok(stream) => Box::pin(converse(door, stream, Some(peer))).await,
        Err(error) => tracing::debug!(%peer, %error, "the TLS handshake of a connection failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test]
    async fn a_socket_is_closed_to_others_whatever_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let usual = umask(Mode::empty());
        let bound = bind_unix(&path);
        umask(usual);
        bound.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    }
}
