//! TLS on the same port: a client that begins a handshake gets TLS, and other machines must use it.

use super::script::Talk;
use super::server::Alone;
use crate::certificate::Certificate;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Output, Stdio};

fn server(certificate: &Certificate, arguments: &[&str]) -> Alone {
    let (cert, key) = (certificate.path("server.pem"), certificate.path("server.key"));
    let tls = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    Alone::start(&[&tls, arguments].concat())
}

/// Runs a session over TLS, as a client that trusts this root.
fn encrypted(address: SocketAddr, root: &Certificate, said: &str) -> Output {
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-quiet", "-verify_return_error", "-connect", &address.to_string(), "-CAfile"]);
    openssl.arg(root.path("root.pem")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut openssl = openssl.spawn().unwrap();
    // If the handshake fails, nobody reads it.
    let _ = openssl.stdin.take().unwrap().write_all(said.as_bytes());
    openssl.wait_with_output().unwrap()
}

#[test]
fn a_session_is_encrypted_where_the_client_begins_so() {
    let certificate = Certificate::new();
    let server = server(&certificate, &[]);
    let mut plain = Talk::open(server.address);
    assert_eq!(plain.ask("use mail"), "USING mail");

    let body = "x".repeat(60_000);
    let said = format!("use mail\r\nput 1 0 60 60000\r\n{body}\r\nwatch mail\r\nreserve\r\nquit\r\n");
    let session = encrypted(server.address, &certificate, &said);
    let got = String::from_utf8(session.stdout).unwrap();
    let id = got.split_once("INSERTED ").unwrap().1.split_once("\r\n").unwrap().0;
    assert_eq!(got, format!("USING mail\r\nINSERTED {id}\r\nWATCHING 2\r\nRESERVED {id} 60000\r\n{body}\r\n"));

    // The end of the session gave the job back, to clients of both kinds.
    plain.ask("watch mail");
    assert_eq!(plain.ask("reserve"), format!("RESERVED {id} 60000"));
    assert_eq!(plain.line(), body);
    assert_eq!(plain.ask(&format!("delete {id}")), "DELETED");

    let stranger = encrypted(server.address, &Certificate::new(), "stats\r\nquit\r\n");
    assert!(!stranger.status.success() && stranger.stdout.is_empty(), "{stranger:?}");
    // A connection that only begins a handshake is closed, and a silent one delays nobody.
    let _silent = Talk::open(server.address);
    let mut wrong = Talk::open(server.address);
    wrong.send(b"\x16garbage that is no handshake\r\n");
    while !wrong.is_at_end() {}
    assert_eq!(plain.ask("list-tube-used"), "USING mail");
}

/// Applies if this machine has an address other than loopback.
#[test]
fn other_machines_must_begin_with_a_handshake() {
    let certificate = Certificate::new();
    let server = server(&certificate, &["-l", "0.0.0.0"]);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    // Nothing is sent: this only asks for the address that would be.
    let own = socket.connect(("192.0.2.1", 9)).and_then(|()| socket.local_addr());
    let mut addresses = vec![SocketAddr::from(([127, 0, 0, 1], server.address.port()))];
    addresses.extend(own.ok().map(|own| SocketAddr::new(own.ip(), server.address.port())));
    for address in addresses {
        let mut plain = Talk::open(address);
        if address.ip().is_loopback() {
            assert_eq!(plain.ask("list-tube-used"), "USING default");
        } else {
            assert_eq!(plain.ask("list-tube-used"), "INTERNAL_ERROR");
            assert!(plain.is_at_end());
        }
        let session = encrypted(address, &certificate, "list-tube-used\r\nquit\r\n");
        assert_eq!(String::from_utf8(session.stdout).unwrap(), "USING default\r\n");
    }
}
