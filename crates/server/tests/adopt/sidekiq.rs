//! From keys in Sidekiq's format.

use super::framework::{
    Running, SIDEKIQ_CLAIMS, add, adopt, command, connect, digest, drain, due_ms, give, jobs, lines, now_ms, number,
    sidekiq, step,
};
use crate::cli::server::Server;
use crate::cli::support::until;
use duetime_store::testing::RedisServer;
use serde_json::Value;

/// Pushes ready jobs as Sidekiq does.
fn push_ready(redis: &RedisServer, queue: &str, jobs: &[String]) {
    redis.command(&["SADD", "queues", queue]);
    give(redis, &["LPUSH", &format!("queue:{queue}")], jobs);
}

#[test]
fn a_look_changes_nothing_and_a_wrong_guess_is_refused() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let now = now_ms() / 1_000;
    push_ready(&redis, "default", &[sidekiq(1, "default", ""), sidekiq(2, "default", "")]);
    push_ready(&redis, "low", &[sidekiq(3, "low", "")]);
    add(&redis, "schedule", format!("{}.5", now + 3_000), &sidekiq(4, "low", ""));
    add(&redis, "retry", now - 1, &sidekiq(5, "default", r#""retry_count":0,"#));
    add(&redis, "dead", now - 1, &sidekiq(6, "default", ""));
    let before = digest(&redis);
    let looked = adopt(&server, &redis, &["sidekiq"]);
    assert_eq!((looked.code, &*looked.err), (0, ""), "{looked:?}");
    for text in ["recognised: sidekiq", "1 (dead: Sidekiq", "\"class\":\"Ship\"", "in 50 min", "--drain --yes sidekiq"]
    {
        assert!(looked.out.contains(text), "{text}: {}", looked.out);
    }
    let look: Value = serde_json::from_str(&adopt(&server, &redis, &["sidekiq", "--json"]).out).unwrap();
    let part = |key: &str| look["parts"].as_array().unwrap().iter().find(|part| part["name"] == key).unwrap();
    let counts = |key: &str| ["due", "later", "left"].map(|count| part(key)[count].as_u64().unwrap());
    let expected = [[2, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]];
    assert_eq!(["queue:default", "queue:low", "schedule", "retry", "dead"].map(counts), expected);
    assert_eq!(digest(&redis), before);
    let ran = adopt(&server, &redis, &["sidekiq", "--namespace", "shop"]);
    assert!(ran.code == 0 && ran.out.contains("Nothing was found. Check the names"), "{ran:?}");

    redis.command(&["FLUSHALL"]);
    redis.command(&["RPUSH", "queues", "default"]);
    let ran = adopt(&server, &redis, &["sidekiq"]);
    assert!(ran.code == 2 && ran.err.contains("the Redis key queues must be a set; it is a list"), "{ran:?}");
    redis.command(&["FLUSHALL"]);
    add(&redis, "schedule", 5, "17");
    let ran = adopt(&server, &redis, &step(&["sidekiq"], "--drain"));
    assert!(ran.code == 2 && ran.err.contains("these are not jobs of sidekiq: 17 in schedule"), "{ran:?}");
    let cluster = server.place.bare(&["adopt", "sidekiq", "--from", "redis+cluster://127.0.0.1:1"]);
    let ran = crate::cli::support::finish(cluster, b"");
    assert!(ran.code == 2 && ran.err.contains("does not run on Redis Cluster"), "{ran:?}");
}

/// They come from another program.
#[test]
fn names_are_printed_on_one_line_and_shortened() {
    let (server, redis) = (Server::start(), RedisServer::start());
    push_ready(&redis, "de\nf\x1b[2J", &[sidekiq(1, "default", "")]);
    push_ready(&redis, &["x".repeat(300), "y".to_owned()].concat(), &[sidekiq(2, "default", "")]);
    for n in 0..20 {
        push_ready(&redis, &format!("q{n}"), &[sidekiq(3 + n, "default", "")]);
    }
    let looked = adopt(&server, &redis, &["sidekiq"]);
    for text in ["queue:de\\nf\\u{1b}[2J  ", "…", "xy ", " and 13 others in redis://"] {
        assert!(looked.out.contains(text), "{text}: {}", looked.out);
    }
    // Of the two, no job is taken: no queue of ours has such a name.
    let ran = adopt(&server, &redis, &["sidekiq", "--drain", "--yes", "sidekiq"]);
    assert!(ran.code == 65 && ran.out.contains("\nstill in queue:de\\nf\\u{1b}[2J: 1 due"), "{ran:?}");
    for line in looked.out.lines().skip(1).chain(ran.out.lines()).chain(ran.err.lines()) {
        assert!(line.chars().count() < 400 && !line.contains('\u{1b}') && !line.starts_with('f'), "{line}");
    }
}

#[test]
fn a_drain_keeps_bytes_queues_and_rules_and_leaves_the_dead() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let now = now_ms() / 1_000;
    let ready: Vec<String> = (0..700).map(|n| sidekiq(n, "default", "")).collect();
    push_ready(&redis, "default", &ready);
    push_ready(&redis, "low", &(700..900).map(|n| sidekiq(n, "elsewhere", r#""retry":false,"#)).collect::<Vec<_>>());
    for n in 900..1_300 {
        let at = format!("{}.{:03}", now + n, n % 1_000);
        add(&redis, "schedule", at, &sidekiq(n, "mail", r#""retry":3,"wrapped":"App::Ship","#));
    }
    add(&redis, "retry", now - 7, &sidekiq(1_300, "mail", r#""retry":true,"retry_count":22,"#));
    add(&redis, "dead", now, &sidekiq(1_301, "mail", ""));
    let report = drain(&server, &redis, &["sidekiq"], 0);
    assert_eq!((&report["adopted"], &report["refused"]), (&1_301.into(), &0.into()), "{report}");
    assert_eq!((&report["there"][0]["name"], &report["there"][0]["left"]), (&"dead".into(), &1.into()), "{report}");
    let mut keys = lines(&redis, &["KEYS", "*"]);
    keys.sort();
    assert_eq!(keys, ["dead", "queues"]);
    let mut all = jobs(&server);
    all.sort_by_key(|(_, job)| job["tags"][1].to_string());
    assert_eq!(all.len(), 1_301);
    for (n, (payload, job)) in (0_u64..).zip(all) {
        let (queue, own, kind, attempts) = match n {
            0..700 => ("default", "", "Ship", 26),
            700..900 => ("low", r#""retry":false,"#, "Ship", 1),
            900..1_300 => ("mail", r#""retry":3,"wrapped":"App::Ship","#, "App::Ship", 4),
            _ => ("mail", r#""retry":true,"retry_count":22,"#, "Ship", 3),
        };
        let named = if queue == "low" { "elsewhere" } else { queue };
        assert_eq!(payload, sidekiq(n, named, own));
        assert_eq!((&job["queue"], &job["kind"]), (&queue.into(), &kind.into()), "{job}");
        assert_eq!(
            (&job["tags"][0], &job["tags"][1]),
            (&format!("adopted:{queue}").into(), &format!("jid:{n:024x}").into())
        );
        assert_eq!(job["max_attempts"], attempts, "{job}");
        assert!(!(900..1_300).contains(&n) || due_ms(&job) == (now + n) * 1_000 + n % 1_000, "{job}");
    }
    // So many lists are looked at in parts, also by a drain that begins at the end of the last one.
    let give_each = "
for n = 1, 3000 do
  local name = 'queue-' .. n
  redis.call('SADD', 'queues', name)
  redis.call('LPUSH', 'queue:' .. name, ARGV[1])
end
";
    for part in 0..3 {
        redis.command(&["EVAL", give_each, "0", &sidekiq(part, "many", "")]);
        assert_eq!(drain(&server, &redis, &["sidekiq", "--to", "many"], 0)["adopted"], 3_000, "{part}");
    }
    let looks = number(
        &redis,
        &[
            "EVAL",
            "return tonumber(string.match(redis.call('INFO', 'commandstats'), 'cmdstat_sscan:calls=(%d+)'))",
            "0",
        ],
    );
    assert!(looks > 3 * 3, "{looks}");
    // The right end of a list is the next one. Batches are pushed beside each other, so these are one.
    push_ready(&redis, "order", &(0..200).map(|n| sidekiq(n, "order", "")).collect::<Vec<_>>());
    drain(&server, &redis, &["sidekiq", "--to", "first"], 0);
    let taken = server.json(&["take", "first", "--limit", "200"]);
    let order: Vec<u64> =
        taken["jobs"].as_array().unwrap().iter().map(|job| job["payload"]["args"][0].as_u64().unwrap()).collect();
    assert_eq!(order, (0..200).collect::<Vec<_>>());
}

/// No queue of Duetime can have such a name.
#[test]
fn a_queue_whose_name_is_not_text_stays_and_stops_nothing() {
    let (server, redis) = (Server::start(), RedisServer::start());
    push_ready(&redis, "default", &[sidekiq(1, "default", "")]);
    let mut connection = connect(&redis);
    redis::cmd("SADD").arg("queues").arg(&b"\xffmail"[..]).exec(&mut connection).unwrap();
    redis::cmd("LPUSH").arg(&b"queue:\xffmail"[..]).arg(sidekiq(2, "default", "")).exec(&mut connection).unwrap();
    let report = drain(&server, &redis, &["sidekiq"], 0);
    let there = &report["there"][0];
    assert_eq!(
        (&report["adopted"], &there["name"], &there["left"]),
        (&1.into(), &"queue:\u{fffd}mail".into(), &1.into())
    );
    assert!(there["why_left"].as_str().unwrap().contains("UTF-8"), "{report}");
    assert_eq!(jobs(&server).len(), 1);
    assert_eq!(redis::cmd("LLEN").arg(&b"queue:\xffmail"[..]).query::<u64>(&mut connection).unwrap(), 1);
}

#[test]
fn a_follower_takes_what_is_due_of_any_queue() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let now = now_ms() / 1_000;
    add(&redis, "shop:schedule", now + 1, &sidekiq(1, "mail", ""));
    add(&redis, "shop:schedule", now + 1_000, &sidekiq(2, "mail", ""));
    add(&redis, "shop:retry", now - 1, &sidekiq(3, "low", ""));
    let source = ["sidekiq", "--namespace", "shop"];
    let follower = Running::start(command(&server, &redis, &step(&source, "--follow")));
    until("what is due is taken", || (jobs(&server).len() == 2).then_some(()));
    redis.command(&["SADD", "shop:queues", "new"]);
    redis.command(&["LPUSH", "shop:queue:new", &sidekiq(4, "new", "")]);
    until("a new queue is found", || (jobs(&server).len() == 3).then_some(()));
    follower.stop(0);
    let mut queues: Vec<String> = jobs(&server).iter().map(|(_, job)| job["queue"].to_string()).collect();
    queues.sort();
    assert_eq!(queues, ["\"low\"", "\"mail\"", "\"new\""]);
    assert_eq!(lines(&redis, &["ZRANGE", "shop:schedule", "0", "-1"]), [sidekiq(2, "mail", "")]);
}

#[test]
fn what_cannot_be_read_goes_back_and_blocks_nothing() {
    let (server, redis) = (Server::start(), RedisServer::start());
    let now = now_ms() / 1_000;
    push_ready(&redis, "default", &["odd".to_owned(), sidekiq(1, "default", "")]);
    push_ready(&redis, "with space", &[sidekiq(2, "with space", "")]);
    add(&redis, "schedule", format!("{now}.25"), r#"{"class":"A","args":{},"jid":"x"}"#);
    add(&redis, "schedule", now - 1, &sidekiq(3, "default", ""));
    add(&redis, "retry", "1e18", &sidekiq(4, "default", ""));
    let report = drain(&server, &redis, &["sidekiq"], 65);
    assert_eq!((&report["adopted"], &report["refused"], &report["left_claimed"]), (&2.into(), &4.into(), &0.into()));
    assert_eq!(lines(&redis, &["LRANGE", "queue:default", "0", "-1"]), ["odd"]);
    assert_eq!(lines(&redis, &["LRANGE", "queue:with space", "0", "-1"]), [sidekiq(2, "with space", "")]);
    let schedule = lines(&redis, &["ZRANGE", "schedule", "0", "-1", "WITHSCORES"]);
    assert_eq!(schedule, [r#"{"class":"A","args":{},"jid":"x"}"#.to_owned(), format!("{now}.25")]);
    assert_eq!(number(&redis, &["ZCARD", "retry"]), 1);
    assert_eq!(number(&redis, &["EXISTS", SIDEKIQ_CLAIMS]), 0);
    // Names that are no queues of ours go into one.
    assert_eq!(drain(&server, &redis, &["sidekiq", "--to", "all"], 65)["adopted"], 1);
    let tag = |(_, job): &(String, Value)| job["tags"][0] == "adopted:with space";
    assert!(jobs(&server).iter().any(tag));
}
