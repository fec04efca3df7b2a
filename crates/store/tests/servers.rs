//! The private servers that other tests are built on.

use duetime_store::testing::{
    MariaDbServer, PostgresServer, RedisCluster, RedisSentinel, RedisServer, shared_redis, until,
};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Tells [`holds_a_server_for_another_test`] to hold one.
const HOLD: &str = "DUETIME_TEST_HOLDS_A_SERVER";

fn answers(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[test]
fn a_server_is_private() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    assert_ne!(one.port(), other.port());
    assert_eq!(one.url(), format!("redis://127.0.0.1:{}/0", one.port()));
    one.command(&["SET", "key", "value"]);
    assert_eq!(one.command(&["GET", "key"]), "value");
    assert_eq!(other.command(&["GET", "key"]), "");
    assert!(one.try_command(&["NO-SUCH-COMMAND"]).unwrap_err().starts_with("ERR unknown command"));
}

#[test]
fn a_server_goes_with_its_folder() {
    let server = RedisServer::start();
    let (port, folder) = (server.port(), server.folder());
    assert!(folder.is_dir() && server.log().contains("Ready to accept connections"));
    drop(server);
    assert!(!answers(port) && !folder.exists());
}

#[test]
fn a_server_keeps_what_it_was_told_to_keep() {
    let mut server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let port = server.port();
    server.command(&["SET", "key", "value"]);
    server.restart();
    assert_eq!(server.command(&["GET", "key"]), "value");
    server.kill();
    assert!(server.try_command(&["PING"]).is_err());
    server.start_again();
    assert_eq!((server.command(&["GET", "key"]).as_str(), server.port()), ("value", port));

    let mut forgetful = RedisServer::start();
    forgetful.command(&["SET", "key", "value"]);
    forgetful.restart();
    assert_eq!(forgetful.command(&["EXISTS", "key"]), "0");
}

#[test]
fn a_frozen_server_answers_when_it_is_thawed() {
    let mut server = RedisServer::start();
    server.freeze();
    let port = server.port();
    let asked = thread::spawn(move || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        std::io::Write::write_all(&mut stream, b"PING\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    });
    assert!(answers(port), "the system still accepts");
    assert!(!asked.is_finished());
    server.thaw();
    assert_eq!(asked.join().unwrap(), "+PONG\r\n");
    server.freeze();
    server.restart();
}

#[test]
#[should_panic(expected = "no-such-setting")]
fn a_server_that_does_not_start_says_why() {
    RedisServer::with(&["--no-such-setting", "1"]);
}

/// Were it the child of the thread, the kernel would kill it with the thread.
#[test]
fn the_shared_server_outlives_the_thread_that_started_it() {
    let port = thread::spawn(|| shared_redis().port()).join().unwrap();
    assert_eq!(shared_redis().port(), port);
    assert_eq!(shared_redis().command(&["PING"]), "PONG");
    assert!(!shared_redis().folder().exists());
}

/// Not a test by itself: the process that [`no_server_outlives_a_killed_test`] kills.
#[test]
fn holds_a_server_for_another_test() {
    if std::env::var_os(HOLD).is_some() {
        let server = RedisServer::start();
        // libtest has begun the line with the test's name.
        let (postgres, maria_db) = (PostgresServer::start(), MariaDbServer::start());
        println!("\nport {} {} {} {}", shared_redis().port(), server.port(), postgres.port(), maria_db.port());
        thread::park();
    }
}

#[test]
fn no_server_outlives_a_killed_test() {
    // It has no time to remove its folder.
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "servers::holds_a_server_for_another_test", "--nocapture"])
        .env(HOLD, "1")
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let ports = lines.filter_map(|line| Some(line.strip_prefix("port ")?.to_owned())).next().unwrap();
    let ports: Vec<u16> = ports.split(' ').map(|port| port.parse().unwrap()).collect();
    assert!(ports.iter().all(|&port| answers(port)));
    child.kill().unwrap();
    child.wait().unwrap();
    // The signal is sent with the end of the process that we have waited for; it ends the servers soon after.
    until("the servers to end", Duration::from_secs(60), || (!ports.iter().any(|&port| answers(port))).then_some(()));
}

#[test]
fn a_cluster_of_masters_serves_all_slots() {
    let cluster = RedisCluster::masters_only();
    assert_eq!(cluster.nodes().len(), 3);
    let addresses: Vec<_> = cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    assert_eq!(cluster.url(), format!("redis+cluster://{}", addresses.join(",")));
    for node in cluster.nodes() {
        let info = node.command(&["CLUSTER", "INFO"]);
        assert!(info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384"), "{info}");
    }
    let moved = cluster.nodes()[0].try_command(&["SET", "foo", "1"]).unwrap_err();
    assert_eq!(moved, format!("MOVED 12182 {}", addresses[2]));
}

#[test]
fn a_cluster_replaces_a_killed_master() {
    let mut cluster = RedisCluster::start();
    assert_eq!(cluster.nodes().len(), 6);
    cluster.nodes()[2].command(&["SET", "foo", "1"]);
    cluster.nodes()[2].wait_for_replicas(1);
    cluster.kill_master(2);
    cluster.wait_for_failover(2);
    assert_eq!(cluster.nodes()[5].command(&["GET", "foo"]), "1");
    cluster.nodes_mut()[2].start_again();
    cluster.wait_until_ok();
}

#[test]
fn sentinels_replace_a_killed_master() {
    let mut watched = RedisSentinel::start();
    let first = watched.master_port();
    assert_eq!(first, watched.servers()[0].port());
    assert!(watched.url().starts_with("redis+sentinel://127.0.0.1:") && watched.url().ends_with("/mymaster/0"));
    watched.servers()[0].command(&["SET", "key", "value"]);
    watched.servers()[0].wait_for_replicas(2);
    assert_eq!(watched.kill_master(), first);
    let second = watched.wait_for_failover(first);
    assert_eq!(watched.master_port(), second);
    let server = watched.servers().iter().find(|server| server.port() == second).unwrap();
    assert_eq!(server.command(&["GET", "key"]), "value");
}

#[test]
fn databases_are_private_and_keep_what_they_are_told() {
    let mut postgres = PostgresServer::start();
    let mut maria_db = MariaDbServer::start();
    let folders = [postgres.folder(), maria_db.folder()];
    let ports = [postgres.port(), maria_db.port()];
    assert!(postgres.url().contains(&ports[0].to_string()) && maria_db.url().contains(&ports[1].to_string()));
    postgres.kill();
    maria_db.kill();
    assert!(!ports.into_iter().any(answers));
    postgres.start_again();
    maria_db.start_again();
    assert_eq!([postgres.port(), maria_db.port()], ports);
    drop((postgres, maria_db));
    assert!(!ports.into_iter().any(answers) && !folders.iter().any(|folder| folder.exists()));
}
