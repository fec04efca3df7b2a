//! Starting: what is said, and what is refused.

use super::server::{Server, command, store_in};
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
    for words in ["SQLite, durability commit", "nothing that was acknowledged", "listening on http://127.0.0.1:"] {
        assert!(server.banner.contains(words), "{}", server.banner);
    }
    let memory = Server::with(&["--store", "memory"]);
    assert!(memory.banner.contains("everything, when this process ends"));
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder);
    for (durability, loss) in [("interval", "last 50 ms"), ("none", "power failure")] {
        let server = Server::with(&["--store", store.to_str().unwrap(), "--durability", durability]);
        assert!(server.banner.contains(loss), "{}", server.banner);
        server.stop();
    }
}

#[test]
fn other_machines_are_kept_out_unless_told() {
    fails(&["--listen", "0.0.0.0:0", "--store", "memory"], &["no tokens are asked for", "--allow-remote"]);
    fails(&["--listen", "[::]:0", "--store", "memory"], &["no tokens are asked for", "--allow-remote"]);
    let server = Server::with(&["--store", "memory", "--allow-remote"]);
    server.send("GET", "/healthz", &[("host", "jobs.example")], "").ok();
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
    fails(&["--listen", "127.0.0.1:0", "--store", path], &["held", pid]);
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
