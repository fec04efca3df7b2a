//! Sorted sets that are used under a lock.

use super::redis_source::{Adopt, OldSet, made, now_ms, report};
use crate::cli::server::Server;
use crate::cli::support::until;
use duetime_store::testing::RedisServer;
use std::io::{BufRead as _, BufReader};

const KEY: &str = "Queue:mail";
const LOCK: &str = "Lock:Queue:mail";

fn adopt<'a>(server: &'a Server, redis: &RedisServer) -> Adopt<'a> {
    Adopt::new(server, "locked-set", &redis.url(), KEY)
}

#[test]
fn nothing_is_taken_while_the_lock_exists() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let now = now_ms() as f64 / 1e3;
    old.add_all(&[(b"due".to_vec(), now - 5.0), (b"later".to_vec(), now + 3_600.5)]);
    let look = adopt(&server, &redis).look();
    assert!(look["why"].as_str().unwrap().contains("2 members whose scores are seconds"), "{look}");
    assert!(!look["notes"].to_string().contains("exists now"), "{look}");
    assert!(look["notes"].to_string().contains("the first job stays"), "{look}");
    redis.command(&["SET", LOCK, "1"]);
    let look = adopt(&server, &redis).look();
    assert!(look["notes"].to_string().contains("It exists now."), "{look}");

    // A drain reports why it stops.
    let mut drain = adopt(&server, &redis).spawn("--drain");
    let mut err = BufReader::new(drain.0.as_mut().unwrap().stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = err.find(|line| line.contains("trying again")).unwrap();
    assert!(line.contains("the lock \"Lock:Queue:mail\" exists"), "{line}");
    // A follower asks again.
    let follower = adopt(&server, &redis).follow();
    let before = old.calls("eval");
    until("it is asked often", || (old.calls("eval") > before + 20).then_some(()));
    assert_eq!((old.count(), made(&server).len()), (2, 0));
    redis.command(&["DEL", LOCK]);
    let ran = drain.wait();
    assert_eq!(ran.code, 0, "{ran:?}");
    follower.stop();
    assert_eq!((old.count(), old.claims()), (0, 0));
    let jobs = made(&server);
    let later = jobs.iter().find(|job| job.key.as_deref() == Some("later")).unwrap();
    let exact = (now + 3_600.5) * 1e3;
    assert!(later.due_at as f64 >= exact && (later.due_at as f64) < exact + 1.1, "{exact}: {later:?}");
    assert_eq!(jobs.len(), 2);
}

#[test]
fn a_repeat_of_a_job_that_waits_keeps_the_first() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let mut old = OldSet::open(&redis.url(), KEY);
    let now = now_ms() / 1_000;
    for score in [now + 1_000, now + 2_000] {
        old.add(b"again", score);
        assert_eq!(adopt(&server, &redis).drain()["adopted"], 1);
    }
    let jobs = made(&server);
    assert_eq!((jobs.len(), jobs[0].due_at), (1, (now + 1_000) * 1_000));
}

#[test]
fn what_is_refused_goes_back_only_while_nobody_has_the_lock() {
    let redis = RedisServer::start();
    let server = Server::start_in(crate::cli::support::Place::new(), &["--payload-max", "10KiB"]);
    let mut old = OldSet::open(&redis.url(), KEY);
    let large = vec![b'x'; 20_000];
    old.add(&large, 1_700_000_000);
    let follower = adopt(&server, &redis).follow();
    until("it is claimed", || (old.claims() == 1).then_some(()));
    redis.command(&["SET", LOCK, "1"]);
    nix::sys::signal::kill(crate::cli::support::pid(follower.0.as_ref().unwrap()), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    let ran = follower.wait();
    assert_eq!(ran.code, 75, "{ran:?}");
    assert_eq!((old.count(), old.claims()), (0, 1));
    redis.command(&["DEL", LOCK]);
    let ran = adopt(&server, &redis).run(&["--drain", "--yes", "locked-set", "--json"]);
    assert_eq!((ran.code, &report(&ran.out)["refused"]), (1, &1.into()), "{ran:?}");
    assert_eq!((old.score(&large), old.claims()), (Some(1_700_000_000.0), 0));
}
