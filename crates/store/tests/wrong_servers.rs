//! Addresses of servers that are not there, or not of this kind: each error says what to do.

use duetime_core::Error;
use duetime_store::open::{self, Spec};
use duetime_store::sql::Options;
use duetime_store::testing::{MariaDbServer, PostgresServer, RedisServer};
use std::io::{Read, Write};
use std::net::TcpListener;

/// A port on which something answers each connection as a web server answers what it does not understand.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let (mut stream, mut request) = (stream.unwrap(), [0; 1024]);
                let _ = stream.read(&mut request);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            });
        }
    });
    port
}

/// A port on which nothing listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_another_server_is_an_error_that_says_what_to_do() {
    let (redis, postgres, maria_db) = (RedisServer::start(), PostgresServer::start(), MariaDbServer::start());
    let (redis_port, web, closed) = (redis.port(), web_server(), closed_port());
    let locked = RedisServer::start();
    locked.command(&["CONFIG", "SET", "requirepass", "secret"]);
    let start_it = "nothing listens there: start the server, or check host and port";
    let brokers = [
        (format!("redis://127.0.0.1:{closed}"), start_it),
        (format!("redis://127.0.0.1:{web}"), "is not Redis: check host and port in its URL"),
        ("redis://name.invalid".to_owned(), "check the host name"),
        (format!("redis://127.0.0.1:{redis_port}/99"), "change the number at the end of its URL"),
        (format!("redis://user:secret@127.0.0.1:{redis_port}"), "rejected the user or password; check them in its URL"),
        (locked.url(), "needs a password: write redis://:PASSWORD@HOST"),
        (format!("rediss://127.0.0.1:{redis_port}"), "use `redis` instead of `rediss`"),
        (format!("redis+cluster://127.0.0.1:{redis_port}"), "use redis:// in its URL"),
        (format!("redis+sentinel://127.0.0.1:{redis_port}/main"), "use redis:// for a Redis"),
    ];
    let with_tls = |url: &str, option: &str| format!("{url}{}{option}", if url.contains('?') { '&' } else { '?' });
    let ledgers = [
        (format!("postgres://127.0.0.1:{closed}/jobs"), start_it),
        (format!("mysql://127.0.0.1:{closed}/jobs"), start_it),
        ("postgres://name.invalid/jobs".to_owned(), "check the host name"),
        (format!("postgres://127.0.0.1:{web}/jobs"), "check host and port in the URL"),
        (format!("postgres://127.0.0.1:{redis_port}/jobs"), "check that PostgreSQL, and not another kind of server"),
        (format!("mysql://127.0.0.1:{redis_port}/jobs"), "check that MySQL or MariaDB, and not another kind of server"),
        (with_tls(&postgres.url(), "sslmode=require"), "take `sslmode` out of the URL"),
        (with_tls(&maria_db.url(), "sslmode=require"), "take `sslmode` out of the URL"),
    ];
    let broker = redis.url();
    let of_ledger = |ledger: String| Spec::Pair { broker: broker.clone(), ledger, options: Options::default() };
    let specs = brokers.map(|(url, said)| (Spec::Redis { url, memory_max: None }, said)).into_iter();
    let opened = specs.chain(ledgers.map(|(url, said)| (of_ledger(url), said))).map(async |(spec, said)| {
        let error = open::open(spec.clone()).await.expect_err("it is not opened");
        // Trying again does not turn a web server into Redis.
        assert!(!said.contains("is not Redis") || matches!(error, Error::Unusable(_)), "{error:?}");
        let error = error.to_string();
        assert!(error.contains(said) && !error.contains("secret"), "{spec:?}: expected {said:?}, got {error:?}");
    });
    futures_util::future::join_all(opened).await;
}
