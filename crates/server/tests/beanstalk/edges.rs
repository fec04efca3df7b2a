//! Input that is cut, refused or counted.

use super::script::Talk;
use super::server::Both;
use crate::common::binary;
use serde_json::json;
use std::process::Command;

fn put(talk: &mut Talk) -> String {
    talk.send(b"put 0 0 60 1\r\na\r\n");
    talk.line().strip_prefix("INSERTED ").unwrap().to_owned()
}

/// As with `printf … | nc -N`: a command after a reserve that finds nothing is carried out.
#[test]
fn what_was_sent_before_a_half_close_is_carried_out() {
    let server = Both::with(&["--store", "memory"]);
    let mut talk = Talk::open(server.address);
    talk.send(b"reserve\r\nput 0 0 60 1\r\na\r\nreserve\r\nreserve\r\nlist-tube-used\r\n");
    talk.half_close();
    assert_eq!(talk.line(), "TIMED_OUT");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    assert_eq!((talk.line(), talk.line()), (format!("RESERVED {id} 1"), "a".into()));
    assert_eq!((talk.line(), talk.line()), ("TIMED_OUT".into(), "USING default".into()));
    assert!(talk.is_at_end());
}

/// If a job is refused for too long a delay, its body must not be parsed as commands.
#[test]
fn the_body_of_a_job_that_is_refused_is_no_command() {
    let server = Both::with(&["--store", "memory"]);
    let mut talk = Talk::open(server.address);
    talk.send(b"put 0 0 60 1\r\na\r\nput 0 400000000 60 8\r\nuse oops\r\nput 0 0 60 1\r\na\r\nlist-tube-used\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    assert_eq!(talk.line(), "BAD_FORMAT");
    assert!(talk.line().starts_with("INSERTED "));
    assert_eq!(talk.line(), "USING default");
    assert_eq!((talk.ask(&format!("reserve-job {id}")), talk.line()), (format!("RESERVED {id} 1"), "a".into()));
    assert_eq!(talk.ask(&format!("release {id} 0 400000000")), "BAD_FORMAT");
    assert_eq!(talk.ask(&format!("release {id} 0 0")), "RELEASED");
}

/// A buried job whose key was taken by another one comes before others that can be kicked.
#[test]
fn a_kick_goes_past_what_cannot_be_kicked() {
    let server = Both::with(&["--store", "memory"]);
    let mut talk = Talk::open(server.address);
    for command in ["use mail", "watch mail", "ignore default"] {
        talk.ask(command);
    }
    let bury = |talk: &mut Talk, id: &str| {
        assert_eq!(talk.ask(&format!("reserve-job {id}")), format!("RESERVED {id} 1"));
        talk.line();
        assert_eq!(talk.ask(&format!("bury {id} 0")), "BURIED");
    };
    let keyed = json!({"payload": 1, "key": "k"});
    let first = server.http.push_to("mail", &keyed);
    bury(&mut talk, &first);
    let holder = server.http.push_to("mail", &keyed);
    let second = put(&mut talk);
    bury(&mut talk, &second);
    assert_eq!(talk.ask("kick 1"), "KICKED 1");
    assert_eq!(talk.stats(&format!("stats-job {second}")).unwrap()["state"], "ready");
    assert_eq!(talk.ask("kick 1"), "KICKED 0");
    assert_eq!(talk.ask(&format!("delete {holder}")), "DELETED");
    assert_eq!(talk.ask("kick 1"), "KICKED 1");
    assert_eq!(talk.stats(&format!("stats-job {first}")).unwrap()["state"], "ready");
}

/// Pipelined ones count one by one.
#[test]
fn the_rate_of_a_token_counts_commands() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let mut command = Command::new(binary());
    command.env_clear().args(["token", "create", "slow", "--allow", "push", "--rate", "0.001/s,burst=3", "--tokens"]);
    let made = String::from_utf8(command.arg(&file).output().unwrap().stdout).unwrap();
    let token = made.split_whitespace().find(|word| word.starts_with("duetime_")).unwrap();
    let server = Both::with(&["--store", "memory", "--tokens", file.to_str().unwrap()]);
    let mut talk = Talk::open(server.address);
    assert_eq!(talk.ask(&format!("auth {token}")), "AUTHENTICATED");
    talk.send("put 0 0 60 1\r\na\r\n".repeat(5).as_bytes());
    let words: Vec<String> = (0..5).map(|_| talk.line().split(' ').next().unwrap().to_owned()).collect();
    let refused = "TOO_MANY_REQUESTS";
    assert_eq!(words, ["INSERTED", "INSERTED", "INSERTED", refused, refused]);
}

/// One without an end, which only HTTP has.
#[test]
fn a_pause_over_http_is_seen() {
    let server = Both::with(&["--store", "memory"]);
    let mut talk = Talk::open(server.address);
    put(&mut talk);
    server.http.call("/v1/queues/default/pause").ok();
    let stats = talk.stats("stats-tube default").unwrap();
    assert_eq!((&*stats["pause"], &*stats["pause-time-left"]), ("4294967295", "4294967294"));
}
