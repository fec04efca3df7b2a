//! The command line on Redis itself, without a server.

use crate::cli::support::{Place, Ran, finish};
use duetime_store::testing::RedisServer;
use std::path::Path;
use std::process::Command;

/// An authority and a certificate by it for 127.0.0.1, as PEM files in this folder.
fn certify(folder: &Path) {
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem");
    openssl("req -newkey rsa:2048 -nodes -subj /CN=redis -keyout redis.key -out redis.csr");
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl("x509 -req -in redis.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out redis.pem");
}

fn run(place: &Place, arguments: &[&str], (name, value): (&str, &str)) -> Ran {
    let mut command = place.bare(arguments);
    command.env(name, value);
    finish(command, b"")
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Pushed by one process and taken by another, with no server between.
#[test]
fn jobs_go_from_process_to_process() {
    let (place, redis) = (Place::new(), RedisServer::start());
    let url = format!("{}?namespace=shop", redis.url());
    let run = |arguments: &[&str]| run(&place, arguments, ("DUETIME_SERVER", &url));
    let pushed = run(&["push", "--queue", "orders", "--tag", "o-7", "{\"order\":7}"]);
    assert_eq!(pushed.code, 0, "{}", pushed.err);
    let listed = run(&["list", "--tag", "o-7"]);
    assert!(listed.out.contains("orders"), "{}", listed.out);
    let taken = run(&["take", "orders"]);
    assert!(taken.out.contains("o-7") && taken.out.contains("succeeded"), "{}", taken.out);
    assert_eq!(run(&["lock", "nightly", "--", "sh", "-c", "test -n \"$DUETIME_FENCE\""]).code, 0);
    let elsewhere = super::redis::run(&place, &["list", "--queue", "orders"], ("DUETIME_SERVER", &redis.url()));
    assert!(!elsewhere.out.contains("o-7"), "another namespace: {}", elsewhere.out);
}

/// With a certificate from an authority that the machine trusts, and not without.
#[test]
fn tls_is_spoken_and_checked() {
    let place = Place::new();
    let folder = place.path("");
    certify(&folder);
    let file = |name: &str| folder.join(name).display().to_string();
    let port = free_port().to_string();
    let (certificate, key, authority) = (file("redis.pem"), file("redis.key"), file("ca.pem"));
    let _redis = RedisServer::with(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &authority,
        "--tls-auth-clients",
        "no",
    ]);
    let url = format!("rediss://127.0.0.1:{port}/0");
    let queues = |trusted: &str| run(&place, &["queues", "--server", &url], ("SSL_CERT_FILE", trusted));
    let trusted = queues(&authority);
    assert_eq!(trusted.code, 0, "{}", trusted.err);
    let refused = queues("/etc/ssl/certs/ca-certificates.crt");
    assert_ne!(refused.code, 0, "{}", refused.out);
    assert!(refused.err.contains("certificate"), "{}", refused.err);
}
