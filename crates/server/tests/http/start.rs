//! Starting: messages and refusals.

use super::client::Connection;
use super::server::{Server, command, store_in};
use std::net::Ipv4Addr;
use std::process::Output;

fn run(arguments: &[&str]) -> Output {
    command().args(arguments).output().unwrap()
}

#[track_caller]
fn fails(arguments: &[&str], says: &[&str]) {
    let output = run(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code != 0), "{text}");
    assert!(says.iter().all(|words| text.contains(words)), "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_start_says_what_could_be_lost() {
    let server = Server::start();
    let pid = server.banner.split_whitespace().last().unwrap().parse::<u32>();
    assert!(pid.is_ok(), "{}", server.banner);
    for words in ["SQLite, durability commit", "nothing acknowledged", "listening on http://127.0.0.1:"] {
        assert!(server.banner.contains(words), "{}", server.banner);
    }
    let memory = Server::with(&["--store", "memory"]);
    assert!(memory.banner.contains("everything, when this process ends"));
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    for (durability, loss) in [("interval", "up to 50 ms"), ("none", "power failure")] {
        let server = Server::with(&["--store", store.to_str().unwrap(), "--durability", durability]);
        assert!(server.banner.contains(loss), "{}", server.banner);
        server.stop();
    }
}

#[test]
fn other_machines_are_kept_out_unless_told() {
    fails(&["--listen", "0.0.0.0:0", "--store", "memory"], &["no tokens are required", "--allow-remote"]);
    fails(&["--listen", "[::]:0", "--store", "memory"], &["no tokens are required", "--allow-remote"]);
}

/// DNS rebinding: a page whose name resolves to the server is refused, even if other machines may reach the server.
#[test]
fn foreign_names_are_refused_also_where_other_machines_may_ask() {
    let arguments =
        ["--store", "memory", "--listen", "0.0.0.0:0", "--allow-remote", "--allow-host", "jobs.example,b.example"];
    let server = Server::with(&arguments);
    let page = [("origin", "http://evil.example"), ("host", "evil.example")];
    let asked = |headers: &[(&str, &str)]| {
        let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut connection = Connection::open((Ipv4Addr::LOCALHOST, server.address.port()).into());
        connection.send(format!("POST /v1/queues/q/purge HTTP/1.1\r\n{head}\r\n"));
        connection.reply()
    };
    asked(&page).problem(421, "foreign_host");
    asked(&page[1..]).problem(421, "foreign_host");
    asked(&[("host", "localhost"), ("host", "localhost")]).problem(421, "foreign_host");
    asked(&[("host", "\u{e9}vil.example")]).problem(421, "foreign_host");
    asked(&[("origin", "http://evil.example"), ("host", "jobs.example")]).problem(403, "foreign_origin");
    for host in ["jobs.example", "B.example:7300", "localhost", "127.0.0.1:7300"] {
        asked(&[("host", host)]).ok();
        asked(&[("host", host), ("origin", &format!("http://{host}"))]).ok();
    }
}

#[test]
fn what_cannot_be_served_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    let path = store.to_str().unwrap();
    let server = Server::on(&store);
    let address = server.address.to_string();
    fails(&["--listen", &address, "--store", "memory"], &["cannot listen", &address]);
    let pid = server.banner.split_whitespace().last().unwrap();
    fails(&["--listen", "127.0.0.1:0", "--store", path], &["is open in process", pid]);
    fails(&["--listen", "127.0.0.1:0", "--store", folder.path().to_str().unwrap()], &["folder"]);
    fails(&["--log-level", "x=y=z", "--store", "memory"], &["--log-level"]);
    fails(&["--payload-max", "65MiB"], &["64MiB"]);
    fails(&["--durability", "sometimes"], &["commit", "interval"]);
    fails(&["--listen", "here"], &["--listen"]);
    assert!(server.get("/healthz").status == 200);
}

#[test]
fn the_environment_is_read() {
    let mut command = command();
    let output = command.env("DUETIME_LISTEN", "0.0.0.0:1").env("DUETIME_STORE", "memory").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("0.0.0.0:1"));
}
