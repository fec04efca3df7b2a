//! Tokens, and limits on how much one client may cost others.

use super::script::Talk;
use super::server::{Alone, Both};
use crate::common::binary;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

pub(crate) fn token(file: &Path, name: &str, rights: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.env_clear().args(["token", "create", name, "--tokens"]).arg(file);
    for right in rights {
        command.args(["--allow", right]);
    }
    let made = command.output().unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout)
        .unwrap()
        .split_whitespace()
        .find(|word| word.starts_with("duetime_"))
        .unwrap()
        .to_owned()
}

#[test]
fn a_token_has_rights_by_tube() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let shop = token(&file, "shop", &["push:shop.*", "work:shop.a", "read:shop.*"]);
    let admin = token(&file, "root", &["admin"]);
    let server = Both::with(&["--store", "memory", "--tokens", file.to_str().unwrap()]);
    let mut talk = Talk::open(server.address);
    for command in ["stats", "use a", "reserve", "list-tubes", "peek 1"] {
        assert_eq!(talk.ask(command), "UNAUTHENTICATED");
    }
    talk.send(b"put 1 0 1 1\r\na\r\n");
    assert_eq!(talk.line(), "UNAUTHENTICATED");
    assert_eq!(talk.ask("auth wrong"), "UNAUTHENTICATED");
    assert_eq!(talk.ask(&format!("auth {shop}")), "AUTHENTICATED");
    let mut root = Talk::open(server.address);
    assert_eq!(root.ask(&format!("auth {admin}")), "AUTHENTICATED");

    let put = |talk: &mut Talk, tube: &str| {
        talk.ask(&format!("use {tube}"));
        talk.send(b"put 1 0 60 1\r\na\r\n");
        talk.line()
    };
    assert_eq!(put(&mut talk, "mail"), "FORBIDDEN");
    let mine = put(&mut talk, "shop.a");
    let mine = mine.strip_prefix("INSERTED ").unwrap();
    let other = put(&mut root, "mail");
    let other = other.strip_prefix("INSERTED ").unwrap();
    // A job of another tube looks like one that does not exist.
    for command in ["peek", "stats-job", "delete", "kick-job", "reserve-job"] {
        assert_eq!(talk.ask(&format!("{command} {other}")), "NOT_FOUND", "{command}");
    }
    assert_eq!(talk.ask("stats"), "FORBIDDEN");
    assert_eq!(talk.ask("stats-tube mail"), "NOT_FOUND");
    assert_eq!(talk.ask("pause-tube shop.a 1"), "FORBIDDEN");
    assert_eq!(talk.ask("reserve"), "FORBIDDEN", "it watches `default`");
    assert_eq!(talk.ask("watch shop.a"), "WATCHING 2");
    assert_eq!(talk.ask("ignore default"), "WATCHING 1");
    assert_eq!(talk.ask("reserve"), format!("RESERVED {mine} 1"));
    assert_eq!(talk.line(), "a");
    assert_eq!(talk.ask(&format!("release {mine} 1 0")), "RELEASED");
    assert_eq!(talk.ask(&format!("delete {mine}")), "NOT_FOUND", "no right to `change`");
    assert!(root.ask("list-tubes").starts_with("OK "));
}

#[test]
fn a_full_tube_takes_no_job() {
    let server = Both::with(&["--store", "memory"]);
    let mut talk = Talk::open(server.address);
    talk.ask("use mail");
    for when_full in ["refuse", "drop"] {
        server.http.put("/v1/queues/mail", &serde_json::json!({"max_waiting": 1, "when_full": when_full})).ok();
        talk.send(b"put 1 0 60 1\r\na\r\nput 1 0 60 1\r\nb\r\n");
        let answers = [talk.line(), talk.line()];
        assert!(
            answers[0].starts_with(if when_full == "refuse" { "INSERTED " } else { "OUT_OF_MEMORY" }),
            "{answers:?}"
        );
        assert_eq!(answers[1], "OUT_OF_MEMORY");
    }
    assert!(talk.ask("stats-tube mail").starts_with("OK "));
}

#[test]
fn a_slow_reader_and_a_slow_sender_cost_others_nothing() {
    let server = Both::with(&["--store", "memory"]);
    let mut slow = Talk::open(server.address);
    slow.send(b"use big\r\nput 1 0 60 60000\r\n");
    slow.send(&vec![b'x'; 60_000]);
    slow.send(b"\r\n");
    slow.line();
    let id = slow.line().strip_prefix("INSERTED ").unwrap().to_owned();
    // Gigabytes of answers that nobody reads.
    let mut silent = Talk::open(server.address);
    let many = format!("peek {id}\r\n").repeat(20_000);
    silent.send(many.as_bytes());
    // Half of a body, and half of a line.
    slow.send(b"put 1 0 60 60000\r\nabc");
    let mut half = Talk::open(server.address);
    half.send(b"list-tub");
    let mut quick = Talk::open(server.address);
    quick.ask("use quick");
    for _ in 0..100 {
        quick.send(b"put 1 0 60 1\r\na\r\n");
        assert!(quick.line().starts_with("INSERTED "));
    }
    half.send(b"e-used\r\n");
    assert_eq!(half.line(), "USING default");
}

#[test]
fn an_open_address_needs_tokens() {
    let ended = Command::new(binary())
        .env_clear()
        .args(["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--beanstalk", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8(ended.stderr).unwrap().contains("no tokens are required"));
    let large = "serve --store memory --listen 127.0.0.1:0 --beanstalk 127.0.0.1:0 --beanstalk-job-max 2000000";
    let ended = Command::new(binary()).env_clear().args(large.split(' ')).output().unwrap();
    assert!(String::from_utf8(ended.stderr).unwrap().contains("--beanstalk-job-max"));
}

/// Half of them may come from one address.
#[test]
fn connections_are_limited() {
    let server = Alone::start(&["--connections-max", "4"]);
    let mut talks = [Talk::open(server.address), Talk::open(server.address)];
    for talk in &mut talks {
        assert_eq!(talk.ask("list-tube-used"), "USING default");
    }
    assert!(Talk::open(server.address).is_at_end());
    let [mut stays, leaves] = talks;
    drop(leaves);
    while stays.stats("stats").unwrap()["current-connections"] != "1" {}
    // The place is free a moment after the connection is no longer counted.
    let mut next = Talk::open(server.address);
    while next.try_send(b"list-tube-used\r\n").and_then(|()| next.try_line()).is_none() {
        next = Talk::open(server.address);
    }
    assert_eq!(stays.ask("list-tube-used"), "USING default");
}

/// All of them together, from however many addresses. A client beyond the limit waits until another one leaves.
#[test]
fn connections_from_many_addresses_are_limited() {
    let server = Alone::start(&["--connections-max", "4"]);
    let open = |last| Talk::open_from(Ipv4Addr::new(127, 0, 0, last), server.address);
    let mut talks: Vec<Talk> = [2, 2, 3, 3].map(open).into();
    for talk in &mut talks {
        assert_eq!(talk.ask("list-tube-used"), "USING default");
    }
    let mut waits = open(4);
    waits.send(b"list-tube-used\r\n");
    // Every place is taken, so this is answered before the one that waits is accepted.
    assert_eq!(talks[0].stats("stats").unwrap()["current-connections"], "4");
    drop(talks.pop());
    assert_eq!(waits.line(), "USING default");
    assert_eq!(talks[0].stats("stats").unwrap()["current-connections"], "4");
}

/// Like those over HTTP, with their outcomes; calls of workers are not.
#[test]
fn what_administrators_do_is_in_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let (file, log) = (folder.path().join("tokens.toml"), folder.path().join("audit.jsonl"));
    let shop = token(&file, "shop", &["push:mail", "work:mail", "read:mail"]);
    let admin = token(&file, "root", &["admin"]);
    let (tokens, audit) = (file.to_str().unwrap(), log.to_str().unwrap());
    let server = Both::with(&["--store", "memory", "--tokens", tokens, "--audit-log", audit]);
    let mut talk = Talk::open(server.address);
    assert_eq!(talk.ask("pause-tube mail 5"), "UNAUTHENTICATED");
    talk.ask(&format!("auth {shop}"));
    talk.ask("use mail");
    talk.send(b"put 1 0 60 1\r\na\r\nput 1 3600 60 1\r\na\r\npause-tube mail 5\r\n");
    assert!(talk.line().starts_with("INSERTED ") && talk.line().starts_with("INSERTED "));
    assert_eq!(talk.line(), "FORBIDDEN");
    let mut root = Talk::open(server.address);
    root.ask(&format!("auth {admin}"));
    root.ask("use mail");
    root.send(b"pause-tube mail 5\r\npause-tube mail 0\r\npause-tube nowhere 5\r\nkick 10\r\n");
    assert_eq!([root.line(), root.line(), root.line(), root.line()], ["PAUSED", "PAUSED", "NOT_FOUND", "KICKED 1"]);
    let text = std::fs::read_to_string(&log).unwrap();
    let calls: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown = |call: &Value| json!([call["who"], call["command"], call["queue"], call["reply"]]);
    assert_eq!(
        calls.iter().map(shown).collect::<Vec<_>>(),
        [
            json!(["shop", "pause-tube mail 5", "mail", "FORBIDDEN"]),
            json!(["root", "pause-tube mail 5", "mail", "PAUSED"]),
            json!(["root", "pause-tube mail 0", "mail", "PAUSED"]),
            json!(["root", "pause-tube nowhere 5", "nowhere", "NOT_FOUND"]),
            json!(["root", "kick 10", "mail", "KICKED 1"]),
        ]
    );
    assert!(calls.iter().all(|call| call["peer"].as_str().unwrap().starts_with("127.0.0.1:")), "{text}");
    assert!(calls.iter().all(|call| call["at"].is_string()) && !text.contains(&admin) && !text.contains(&shop));
}
