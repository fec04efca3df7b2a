//! What was inserted is there, whatever is killed.

use super::script::Talk;
use super::server::Alone;
use crate::common::Random;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What clients know of jobs: true while one is to be there, false once a delete of it was sent.
type Known = Mutex<HashMap<u64, bool>>;

/// Puts jobs and deletes some until the server is gone.
fn load(address: SocketAddr, seed: u64, known: &Known, answers: &AtomicU64) {
    let mut random = Random::new(seed);
    let mut talk = Talk::open(address);
    loop {
        let count = random.within(1..20);
        let puts: String = (0..count).map(|n| format!("put {n} 0 600 3\r\nabc\r\n")).collect();
        if !talk.try_send(puts.as_bytes()) {
            return;
        }
        for _ in 0..count {
            let Some(line) = talk.try_line() else { return };
            let id = line.strip_prefix("INSERTED ").expect(&line).parse().unwrap();
            // Another client may have deleted it already.
            known.lock().unwrap().entry(id).or_insert(true);
            answers.fetch_add(1, Ordering::Relaxed);
        }
        if !talk.try_send(b"reserve\r\n") {
            return;
        }
        let Some(line) = talk.try_line() else { return };
        let id: u64 = line.split(' ').nth(1).expect(&line).parse().unwrap();
        let Some(_) = talk.bytes(5) else { return };
        if random.percent(50) {
            known.lock().unwrap().insert(id, false);
            if !talk.try_send(format!("delete {id}\r\n").as_bytes()) {
                return;
            }
            let Some(line) = talk.try_line() else { return };
            assert_eq!(line, "DELETED");
        }
    }
}

#[test]
fn kill_under_load_loses_no_inserted_job() {
    let folder = tempfile::tempdir().unwrap();
    let known = Known::default();
    for round in 0..4_u64 {
        let mut server = Alone::on(folder.path());
        check(server.address, &known);
        let answers = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (address, known, answers) = (server.address, &known, &answers);
            let begin = |worker| scope.spawn(move || load(address, round * 10 + worker, known, answers));
            let clients: Vec<_> = (0..4).map(begin).collect();
            while answers.load(Ordering::Relaxed) < 300 && !clients.iter().any(|client| client.is_finished()) {
                std::thread::yield_now();
            }
            server.kill();
        });
    }
    let server = Alone::on(folder.path());
    check(server.address, &known);
    assert!(known.lock().unwrap().len() > 1_000);
}

/// Every job that is to be there is ready: what was reserved came back with the start.
fn check(address: SocketAddr, known: &Known) {
    let mut talk = Talk::open(address);
    for (id, is_there) in known.lock().unwrap().iter() {
        let stats = talk.stats(&format!("stats-job {id}"));
        match (stats, is_there) {
            (Some(stats), _) => assert_eq!(stats["state"], "ready", "{stats:?}"),
            (None, is_there) => assert!(!is_there, "the job {id} is lost"),
        }
    }
}

#[test]
fn counts_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Alone::on(folder.path());
    let mut talk = Talk::open(server.address);
    talk.send(b"put 5 0 60 1\r\na\r\n");
    let id = talk.line().strip_prefix("INSERTED ").unwrap().to_owned();
    let reserve = |talk: &mut Talk| {
        assert_eq!(talk.ask(&format!("reserve-job {id}")), format!("RESERVED {id} 1"));
        assert_eq!(talk.line(), "a");
    };
    reserve(&mut talk);
    assert_eq!(talk.ask(&format!("release {id} 9 7")), "RELEASED");
    assert_eq!(talk.ask(&format!("kick-job {id}")), "KICKED");
    reserve(&mut talk);
    assert_eq!(talk.ask(&format!("bury {id} 3")), "BURIED");
    let look = |talk: &mut Talk| {
        let stats = talk.stats(&format!("stats-job {id}")).unwrap();
        let keys = ["state", "pri", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks"];
        keys.map(|key| stats[key].clone()).join(" ")
    };
    assert_eq!(look(&mut talk), "buried 3 7 60 2 0 1 1 1");
    server.kill();
    let server = Alone::on(folder.path());
    let mut talk = Talk::open(server.address);
    assert_eq!(look(&mut talk), "buried 3 7 60 2 0 1 1 1");
    assert_eq!(talk.ask("kick 1"), "KICKED 1");
    assert_eq!(look(&mut talk), "ready 3 7 60 2 0 1 1 2");
    assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
}
