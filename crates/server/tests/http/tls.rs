//! TLS: untrusted clients get an error, the certificate is replaced while the server runs, and clients that do not speak TLS
//! delay nobody.

use super::client::{Connection, request};
use super::server::{Server, command, eventually};
use crate::certificate::Certificate;
use std::path::Path;
use std::process::{Command, Output};

fn server(certificate: &Certificate) -> Server {
    let (cert, key) = (certificate.path("server.pem"), certificate.path("server.key"));
    Server::with(&["--store", "memory", "--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()])
}

/// A command that trusts this root.
fn duetime(server: &Server, root: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
    command.env_clear().args(arguments).env("DUETIME_SERVER", format!("https://localhost:{}", server.address.port()));
    root.map(|root| command.env("DUETIME_CA", root));
    command.output().unwrap()
}

#[test]
fn who_trusts_the_root_is_served() {
    let certificate = Certificate::new();
    let server = server(&certificate);
    assert!(server.banner.contains("listening on https://"), "{}", server.banner);
    let root = certificate.path("root.pem");
    let pushed = duetime(&server, Some(&root), &["push", "hello"]);
    assert!(pushed.status.success(), "{pushed:?}");
    let untrusting = duetime(&server, None, &["push", "hello"]);
    let said = String::from_utf8_lossy(&untrusting.stderr);
    assert!(
        untrusting.status.code() == Some(1)
            && said.contains("it is not signed by a trusted root")
            && said.contains("--ca"),
        "{said}"
    );
    for (scheme, server, says) in
        [("http", &server, "use https://"), ("https", &Server::with(&["--store", "memory"]), "use http://")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duetime"));
        let address = format!("{scheme}://127.0.0.1:{}", server.address.port());
        let said = command.env_clear().args(["push", "hello", "--server", &address]).output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.code() == Some(1) && text.contains(says), "{text}");
    }
    let curl = Command::new("curl")
        .args(["-fsS", "--cacert"])
        .arg(&root)
        .arg(format!("https://localhost:{}/v1/queues", server.address.port()))
        .output()
        .unwrap();
    assert!(curl.status.success() && String::from_utf8_lossy(&curl.stdout).contains("\"default\""), "{curl:?}");
}

#[test]
fn who_does_not_speak_it_holds_nobody_up() {
    let certificate = Certificate::new();
    let server = server(&certificate);
    let _silent: Vec<_> = (0..50).map(|_| server.connect()).collect();
    let mut plain = Connection::open(server.address);
    plain.send(request("GET", "/healthz", &[], ""));
    assert!(duetime(&server, Some(&certificate.path("root.pem")), &["push", "hello"]).status.success());
    server.stop();
}

#[test]
fn a_new_certificate_counts_without_a_restart() {
    let (old, new) = (Certificate::new(), Certificate::new());
    let server = server(&old);
    let is_served = |root: &Certificate| duetime(&server, Some(&root.path("root.pem")), &["list"]).status.success();
    assert!(is_served(&old) && !is_served(&new));
    for name in ["server.key", "server.pem"] {
        std::fs::rename(new.path(name), old.path(name)).unwrap();
    }
    eventually(|| is_served(&new));
    assert!(!is_served(&old));
}

#[test]
fn files_that_do_not_serve_are_refused() {
    let (one, two) = (Certificate::new(), Certificate::new());
    let path = |certificate: &Certificate, name: &str| certificate.path(name).to_str().unwrap().to_owned();
    for (cert, key, says, code) in [
        (path(&one, "server.pem"), None, "together", 2),
        (path(&one, "server.pem"), Some(path(&two, "server.key")), "it does not belong to the private key", 1),
        (path(&one, "server.key"), Some(path(&one, "server.key")), "no certificate", 1),
        (path(&one, "server.pem"), Some(path(&one, "none")), "none", 1),
    ] {
        let mut command = command();
        command.args(["--store", "memory", "--listen", "127.0.0.1:0", "--tls-cert", &cert]);
        key.map(|key| command.args(["--tls-key", &key]));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(says), "{said}");
    }
}
