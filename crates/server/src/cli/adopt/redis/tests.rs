//! Tests of claiming scripts and of the claim log.

use super::*;
use duetime_store::testing::RedisServer;

const TAKE: &str =
    "take(KEYS[2], '-inf', ARGV[2], tonumber(ARGV[3]), function(...) claim(KEYS[2], ...) end) wait_for(KEYS[2], 1000)";
const GIVE: &str = "redis.call('ZADD', parts[1], parts[3], parts[2])";

#[test]
fn the_log_is_in_the_slot_of_the_key() {
    assert_eq!(claims_key("jobs"), "duetime:adopt:{jobs}:jobs:claims");
    assert_eq!(claims_key("queues:{mail}:delayed"), "duetime:adopt:{mail}:queues:{mail}:delayed:claims");
    assert_eq!(claims_key("a{}b"), "duetime:adopt:{a{}b}:a{}b:claims");
}

#[tokio::test]
async fn a_claim_is_replayed_until_it_is_done_or_put_back() {
    let server = RedisServer::start();
    let key = &b"jobs"[..];
    let odd = b"1:\r\n\0\xff:".to_vec();
    let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
    let mut add = redis::cmd("ZADD");
    add.arg(key).arg("1.5").arg(&odd).arg(2).arg("b").arg(3).arg("c");
    let _: Value = redis.ask(&add).await.unwrap();
    let ClaimResult { logged: claimed, now, wait_ms, .. } = redis.claim(TAKE, &[key], ("+inf", 2)).await.unwrap();
    let parts: Vec<_> = claimed.iter().map(|(_, parts)| parts.clone()).collect();
    let part = |member: &[u8], score: &[u8]| vec![key.to_vec(), member.to_vec(), score.to_vec()];
    assert_eq!(parts, [part(&odd, b"1.5"), part(b"b", b"2")]);
    assert!(now > 1_700_000_000_000);
    assert_eq!(wait_ms, 0, "the next is due");
    assert!(redis.replay().await.unwrap().is_empty(), "they are in hand");

    // Another run finds them, with their ids.
    let mut next = Redis::new(&server.url(), "jobs", None).unwrap();
    let mut replayed = next.replay().await.unwrap();
    replayed.sort();
    assert_eq!(replayed, claimed);
    assert!(next.replay().await.unwrap().is_empty());
    next.done(&[claimed[1].0.clone()]).await.unwrap();
    next.put_back(GIVE, &[key], &[claimed[0].0.clone(), claimed[1].0.clone()]).await.unwrap();
    assert_eq!(next.count().await.unwrap(), 0);
    let left: Vec<(Vec<u8>, f64)> =
        next.ask(redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES")).await.unwrap();
    assert_eq!(left, [(odd, 1.5), (b"c".to_vec(), 3.0)]);
    let again = next.claim(TAKE, &[key], ("+inf", 2)).await.unwrap().logged;
    assert!(again.iter().all(|(id, _)| claimed.iter().all(|(other, _)| id != other)), "ids are fresh");
    // A connection broke: the claims in hand are replayed.
    next.forget();
    assert_eq!(next.replay().await.unwrap().len(), again.len());
}

#[tokio::test]
async fn a_claim_waits_until_the_head_is_due_and_a_second_at_most() {
    let server = RedisServer::start();
    let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
    let head = redis.now().await.unwrap() + 700;
    for (unit_ms, score) in [(1_000.0, head as f64 / 1e3), (1.0, head as f64)] {
        let key = format!("of {unit_ms}");
        let _: Value = redis.ask(redis::cmd("ZADD").arg(&key).arg(score).arg("later")).await.unwrap();
        let script = format!("take(KEYS[2], '-inf', now_ms / {unit_ms}, 10, claim) wait_for(KEYS[2], {unit_ms})");
        let claimed = redis.claim(&script, &[key.as_bytes()], "").await.unwrap();
        assert!(claimed.logged.is_empty());
        assert_eq!(claimed.now + claimed.wait_ms, head.max(claimed.now));
    }
    let none =
        redis.claim("take(KEYS[2], '-inf', now_ms, 10, claim) wait_for(KEYS[2], 1)", &["empty"], "").await.unwrap();
    assert_eq!((none.logged.len(), none.wait_ms), (0, 1_000));
}

/// Large members, from a sorted set and from both ends of a list.
#[tokio::test]
async fn a_claim_is_bounded_by_bytes_too() {
    let server = RedisServer::start();
    let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
    let key = &b"jobs"[..];
    let member = |n: usize| [format!("{n:03}").as_bytes(), &[b'x'; 100_000]].concat();
    for script in [
        "take(KEYS[2], '-inf', '+inf', 500, claim)",
        "take_list(KEYS[2], 'left', 500, claim)",
        "take_list(KEYS[2], 'right', 500, claim)",
    ] {
        for n in 0..50 {
            let (is_list, is_right) = (script.contains("list"), script.contains("right"));
            let mut add = redis::cmd(if !is_list {
                "ZADD"
            } else if is_right {
                "LPUSH"
            } else {
                "RPUSH"
            });
            add.arg(key);
            if !is_list {
                add.arg(n);
            }
            let _: Value = redis.ask(add.arg(member(n))).await.unwrap();
        }
        let mut taken = Vec::new();
        loop {
            let some = redis.claim(script, &[key], "").await.unwrap().logged;
            if some.is_empty() {
                break;
            }
            // The one that exceeds the bound is the last one.
            assert!(some.len() == 6 || taken.len() == 48, "{script}: {}", some.len());
            taken.extend(some.into_iter().map(|(_, mut texts)| texts.swap_remove(0)));
        }
        assert_eq!(taken, (0..50).map(member).collect::<Vec<_>>(), "{script}: all of them, in order");
    }
}

/// The next script tells why.
#[tokio::test]
async fn what_a_script_has_claimed_before_it_failed_counts() {
    let server = RedisServer::start();
    let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
    let _: Value = redis.ask(redis::cmd("RPUSH").arg("jobs").arg("a").arg("b")).await.unwrap();
    let script = "take_list(KEYS[2], 'left', 1, claim) claim('never removed') redis.call('ZCARD', KEYS[2])";
    let claimed = redis.claim(script, &["jobs"], "").await.unwrap().logged;
    assert_eq!(claimed.iter().map(|(_, texts)| &texts[0][..]).collect::<Vec<_>>(), [b"a"]);
    assert_eq!(redis.count().await.unwrap(), 1);
    let script = "claim('never removed') redis.call('ZCARD', KEYS[2])";
    let Err(Trouble::Failed(why)) = redis.claim(script, &["jobs"], "").await else { panic!() };
    assert!(why.to_string().contains("WRONGTYPE"), "{why}");
    assert_eq!(redis.count().await.unwrap(), 1);
}

#[tokio::test]
async fn a_key_of_the_wrong_type_is_named() {
    let server = RedisServer::start();
    let mut redis = Redis::new(&server.url(), "jobs", None).unwrap();
    let _: Value = redis.ask(redis::cmd("SET").arg("jobs").arg("a")).await.unwrap();
    for script in ["take_list(KEYS[2], 'left', 1, claim)", "take(KEYS[2], '-inf', '+inf', 1, claim)"] {
        let Err(Trouble::Failed(why)) = redis.claim(script, &["jobs"], "").await else { panic!() };
        let why = why.to_string();
        assert!(why.contains("WRONGTYPE") && why.contains(": jobs"), "{why}");
    }
}

#[tokio::test]
async fn no_reply_is_trouble_that_passes() {
    let redis = Redis::new("redis://127.0.0.1:1", "jobs", None).unwrap();
    assert_eq!(redis.place(), "redis://127.0.0.1:1");
    assert!(matches!(redis.now().await, Err(Trouble::Away(_))));
}
