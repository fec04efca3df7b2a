//! Jobs that wait in Duetime and run in the system they came from.

use super::framework::{
    DELAYED, LARAVEL, LIST, NOTIFY, RESERVED, Running, add, adopt, command, digest, drain, due_ms, jobs, laravel,
    lines, now_ms, number, push_ready, sidekiq, step,
};
use super::old_bullmq::OldQueue;
use crate::beanstalk::limits::token;
use crate::cli::server::Server;
use crate::cli::support::{Place, Ran, finish, until};
use duetime_store::testing::RedisServer;
use serde_json::{Value, json};

const HAND_BACK: [&str; 8] = ["laravel", "--prefix", "shop_", "--key", "default", "--to", "mail", "--hand-back"];
const SIDEKIQ: [&str; 6] = ["sidekiq", "--namespace", "shop", "--to", "later", "--hand-back"];

/// A server that may deliver to this Redis.
fn server_for(redis: &RedisServer) -> Server {
    Server::start_in(Place::new(), &["--deliver-redis", &redis.url()])
}

fn set_target(server: &Server, queue: &str, target: &Value) {
    let ran = server.run(&["queues", "set", queue, "--target", &target.to_string()]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn to_laravel(redis: &RedisServer) -> Value {
    json!({"redis_list": {"url": redis.url(), "key": LIST, "as": "laravel"}})
}

/// Runs the command that a text offers.
fn run_offered(server: &Server, text: &str) -> Ran {
    let offered = text.lines().find_map(|line| Some(line.split_once("duetime queues set ")?.1)).unwrap();
    let (queue, target) = offered.split_once(" --target ").unwrap();
    server.run(&["queues", "set", queue, "--target", target.trim_matches('\'')])
}

#[test]
fn jobs_of_laravel_go_back_when_they_are_due() {
    let redis = RedisServer::start();
    let server = server_for(&redis);
    let start = now_ms() / 1_000;
    push_ready(&redis, &[laravel(1, "")]);
    add(&redis, RESERVED, start - 5, &laravel(2, ""));
    add(&redis, RESERVED, start + 500, &laravel(3, ""));
    for n in 10..310 {
        // Tries and time limits are Laravel's business.
        add(&redis, DELAYED, start + n % 3, &laravel(n, r#""maxTries":1,"timeout":50000,"#));
    }
    add(&redis, DELAYED, start + 1_000, &laravel(4, ""));

    // It is set up first.
    let before = digest(&redis);
    let ran = adopt(&server, &redis, &step(&HAND_BACK, "--drain"));
    assert!(ran.code == 2 && ran.err.contains("the queue mail has no target"), "{ran:?}");
    assert_eq!((digest(&redis), jobs(&server).len()), (before, 0));
    let looked = adopt(&server, &redis, &HAND_BACK);
    assert!(looked.out.contains("--deliver-redis") && looked.out.contains("for Laravel's workers"), "{looked:?}");
    assert_eq!(run_offered(&server, &looked.out).code, 0);
    // Laravel's workers would drop a payload without attempts.
    let dropped = laravel(5, "").replace(r#""attempts":0,"#, "");
    add(&redis, DELAYED, start + 2_000, &dropped);
    let report = drain(&server, &redis, &HAND_BACK, 65);
    assert_eq!((&report["adopted"], &report["refused"]), (&301.into(), &1.into()), "{report}");
    assert_eq!(lines(&redis, &["ZRANGE", RESERVED, "0", "-1"]), [laravel(2, ""), laravel(3, "")]);
    assert_eq!(lines(&redis, &["ZRANGE", DELAYED, "0", "-1"]), [dropped]);

    // A consumer that pops the list gets each job once, unchanged, and not early.
    let mut popped = Vec::new();
    until("all are handed back", || {
        let job = redis.command(&["LPOP", LIST]);
        if !job.is_empty() {
            let n: u64 = job.rsplit('"').nth(1).unwrap().parse().unwrap();
            assert!(n == 1 || now_ms() >= (start + n % 3) * 1_000, "early: {n}");
            assert_eq!(job, laravel(n, if n == 1 { "" } else { r#""maxTries":1,"timeout":50000,"# }));
            popped.push(n);
        }
        (popped.len() == 301).then_some(())
    });
    assert_eq!(number(&redis, &["LLEN", NOTIFY]), 301, "a notification for each");
    popped.sort_unstable();
    popped.dedup();
    assert_eq!(popped.len(), 301);
    let all = until("all but one have ended", || {
        let jobs = jobs(&server);
        (jobs.iter().filter(|(_, job)| job["state"] == "succeeded").count() == 300).then_some(jobs)
    });
    let (_, waits) = all.iter().find(|(_, job)| job["state"] == "scheduled").unwrap();
    assert_eq!((due_ms(waits), &waits["max_attempts"]), ((start + 1_000) * 1_000, &0.into()));
    assert!(all.iter().all(|(_, job)| job["attempt"].as_u64().unwrap() <= 1), "none is tried twice");
}

#[test]
fn jobs_of_sidekiq_go_back_when_they_are_due() {
    let redis = RedisServer::start();
    let server = server_for(&redis);
    let start = now_ms();
    let at = |ms: u64| format!("{}.{:03}", ms / 1_000, ms % 1_000);
    redis.command(&["SADD", "shop:queues", "mail"]);
    redis.command(&["LPUSH", "shop:queue:mail", &sidekiq(1, "mail", "")]);
    for n in 10..210 {
        let queue = if n % 2 == 0 { "mail" } else { "low" };
        let own = r#""retry":false,"at":5,"enqueued_at":7.5,"#;
        add(
            &redis,
            if n % 3 == 0 { "shop:retry" } else { "shop:schedule" },
            at(start + n * 10),
            &sidekiq(n, queue, own),
        );
    }
    let ran = adopt(&server, &redis, &step(&SIDEKIQ, "--drain"));
    assert!(ran.code == 2 && ran.err.contains("set it: duetime queues set later"), "{ran:?}");
    assert_eq!(run_offered(&server, &ran.err).code, 0);
    assert_eq!(drain(&server, &redis, &SIDEKIQ, 0)["adopted"], 200);
    let mut popped = Vec::new();
    until("all are handed back", || {
        for queue in ["mail", "low"] {
            // From the other end than the one before.
            let job = redis.command(&["LPOP", &format!("shop:queue:{queue}")]);
            let Ok(job) = serde_json::from_str::<Value>(&job) else { continue };
            let n = job["args"][0].as_u64().unwrap();
            if n == 1 {
                redis.command(&["RPUSH", "shop:queue:mail", &job.to_string()]);
                continue;
            }
            assert_eq!((&job["queue"], &job["jid"], job.get("at")), (&queue.into(), &format!("{n:024x}").into(), None));
            let enqueued_ms = (job["enqueued_at"].as_f64().unwrap() * 1_000.0).round() as u64;
            assert!((start + n * 10..now_ms() + 1_000).contains(&enqueued_ms), "{n}: {job}");
            popped.push(n);
        }
        (popped.len() == 200).then_some(())
    });
    popped.sort_unstable();
    assert_eq!(popped, (10..210).collect::<Vec<_>>());
    let mut queues = lines(&redis, &["SMEMBERS", "shop:queues"]);
    queues.sort();
    assert_eq!(queues, ["low", "mail"]);
}

#[test]
fn jobs_of_bullmq_go_back_when_they_are_due() {
    let redis = RedisServer::start();
    let server = server_for(&redis);
    let mut queue = OldQueue::bullmq(&redis.url(), "mail");
    let (start, hour_ms) = (now_ms(), 3_600_000);
    queue.hash("ready", b"{}", &[]);
    queue.wait("ready");
    // Late enough that a busy machine has adopted them before.
    let due_at = |n: u64| start + 5_000 + n * 30;
    queue.hash("due", b"{}", &[]);
    queue.delayed("due", start - 1_000);
    for n in 60..160 {
        // Attempts, waits and priorities are BullMQ's business.
        let data = format!(r#"{{"n": {n}, "text": "Zo\u00eb"}}"#);
        queue.hash(&format!("job-{n}"), data.as_bytes(), &[("opts", r#"{"attempts":1}"#), ("priority", "3")]);
        queue.delayed(&format!("job-{n}"), due_at(n));
    }
    let mut log = queue.of("RPUSH", "job-60:logs");
    queue.ask::<u64>(log.arg("a line").arg(b"\xff\n"));
    for (id, due_at) in [("later", start + hour_ms), ("sooner", start + hour_ms), ("twice", start + hour_ms)] {
        queue.hash(id, b"{}", &[]);
        queue.delayed(id, due_at);
    }
    let before = queue.snapshot();
    let adopt = &["bullmq", "--key", "mail", "--to", "mail", "--hand-back"];
    let looked = self::adopt(&server, &redis, adopt);
    assert!(looked.out.contains("--deliver-redis") && looked.out.contains("ready, for BullMQ's workers"), "{looked:?}");
    assert_eq!(run_offered(&server, &looked.out).code, 0);
    let report = drain(&server, &redis, adopt, 0);
    assert_eq!((&report["adopted"], &report["refused"]), (&103.into(), &0.into()), "{report}");
    assert_eq!(queue.members("wait"), ["ready"]);
    // Without --hand-back they would be taken, and given back, again and again.
    let ran = self::adopt(&server, &redis, &step(&adopt[..5], "--drain"));
    assert!(ran.code == 2 && ran.err.contains("where they would be taken again"), "{ran:?}");

    // One that is made due in Duetime is due there, too. One whose id was given again is that of the new job.
    assert_eq!(server.run(&["run", "--tag", "id:sooner"]).code, 0);
    queue.hash("twice", b"the new one", &[]);
    queue.wait("twice");
    assert_eq!(server.run(&["run", "--tag", "id:twice"]).code, 0);
    let mut early = Vec::new();
    until("all but one are handed back", || {
        let (members, now) = (queue.members("delayed"), now_ms());
        let waits = |n: &u64| now < due_at(*n) && members.contains(&format!("job-{n}"));
        early.extend((60..160).filter(waits));
        let ended = jobs(&server).iter().filter(|(_, job)| job["state"] == "succeeded").count();
        (ended == 102).then_some(())
    });
    assert_eq!(early, Vec::<u64>::new());
    let scores = queue.members("delayed");
    let score_of = |id: &str| scores.iter().skip_while(|text| *text != id).nth(1).unwrap().parse::<f64>().unwrap();
    assert!(score_of("sooner") / 4_096.0 < (now_ms() + 1) as f64, "{scores:?}");
    assert_eq!(scores.len(), 2 * 102, "{scores:?}");
    let mut data = queue.of("HGET", "twice");
    assert_eq!(queue.ask::<String>(data.arg("data")), "the new one");
    assert_eq!(queue.members("wait"), ["twice", "ready"]);
    let after = queue.snapshot();
    for (key, holds) in &before {
        let is_another = ["wait", "delayed", "twice", "later"].iter().any(|name| key.ends_with(name));
        assert!(is_another || after.get(key) == Some(holds), "{key}: {holds}, now {:?}", after.get(key));
    }
    let marker = queue.of("EXISTS", "marker");
    assert_eq!(queue.ask::<u64>(&marker), 1, "a worker is woken");
}

/// Lists are the destination of handed-back jobs: they are never taken beside a hand-back.
#[test]
fn nothing_goes_round_in_a_circle() {
    let redis = RedisServer::start();
    let server = server_for(&redis);
    set_target(&server, "mail", &to_laravel(&redis));
    let shop = json!({"redis_list": {"url": redis.url(), "key": "shop:queue:default", "as": "sidekiq"}});
    set_target(&server, "later", &shop);
    let now = now_ms() / 1_000;
    push_ready(&redis, &[laravel(1, "")]);
    add(&redis, DELAYED, now - 1, &laravel(2, ""));
    redis.command(&["SADD", "shop:queues", "later"]);
    redis.command(&["LPUSH", "shop:queue:later", &sidekiq(1, "later", "")]);
    add(&redis, "shop:schedule", now - 1, &sidekiq(2, "later", ""));
    let followers = [&HAND_BACK[..], &SIDEKIQ[..]]
        .map(|source| Running::start(command(&server, &redis, &step(source, "--follow"))));
    let are_back = || number(&redis, &["LLEN", LIST]) == 2 && number(&redis, &["LLEN", "shop:queue:later"]) == 2;
    until("due jobs are handed back", || are_back().then_some(()));
    // Others follow, so both followers have looked again.
    add(&redis, DELAYED, now - 1, &laravel(3, ""));
    add(&redis, "shop:retry", now - 1, &sidekiq(3, "later", ""));
    until("these as well", || (jobs(&server).len() == 4).then_some(()));
    let reports = followers.map(|follower| follower.stop(0));
    assert!(reports.iter().all(|report| report["claimed"] == 2), "{reports:?}");
    // Without --hand-back the lists would be taken, and filled again.
    for source in [&LARAVEL[..], &SIDEKIQ[..3], &SIDEKIQ[..5]] {
        for how in ["--follow", "--drain"] {
            let ran = adopt(&server, &redis, &step(source, how));
            assert!(ran.code == 2 && ran.err.contains("where they would be taken again"), "{source:?}: {ran:?}");
        }
    }
}

#[test]
fn what_cannot_be_handed_back_is_told_before_anything_is_claimed() {
    let redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let admin = token(&file, "root", &["admin"]);
    let pusher = token(&file, "pusher", &["push:mail", "read:mail"]);
    let enough = token(&file, "enough", &["push:mail", "target:mail", "read:mail"]);
    let options = ["--deliver-redis", &redis.url(), "--tokens", file.to_str().unwrap()];
    let server = Server::start_in(Place::new(), &options);
    add(&redis, DELAYED, now_ms() / 1_000 + 500, &laravel(1, ""));
    let run_as = |token: &str, mut command: std::process::Command| {
        command.env("DUETIME_TOKEN", token).env("DUETIME_SERVER", &server.url);
        finish(command, b"")
    };
    let drain_as = |token: &str| run_as(token, command(&server, &redis, &step(&HAND_BACK, "--drain")));
    let set = |target: &Value| {
        let ran = run_as(&admin, server.place.bare(&["queues", "set", "mail", "--target", &target.to_string()]));
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    for target in [
        json!({"queue": "other"}),
        json!({"redis_list": {"url": redis.url(), "key": LIST}}),
        json!({"redis_list": {"url": redis.url(), "key": "queue:mail", "as": "sidekiq"}}),
    ] {
        set(&target);
        let ran = drain_as(&enough);
        assert!(ran.code == 2 && ran.err.contains("the queue mail has no target"), "{target}: {ran:?}");
    }
    set(&to_laravel(&redis));
    let ran = drain_as(&pusher);
    assert!(ran.code == 1 && ran.err.contains("403"), "{ran:?}");
    assert_eq!(number(&redis, &["ZCARD", DELAYED]), 1, "it went back");
    let ran = drain_as(&enough);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = adopt(&server, &redis, &["sidekiq", "--hand-back"]);
    assert!(ran.code == 2 && ran.err.contains("--to"), "{ran:?}");
    let sentinel = server.place.bare(&[
        "adopt",
        "sidekiq",
        "--from",
        "redis+sentinel://127.0.0.1:1/x",
        "--to",
        "a",
        "--hand-back",
    ]);
    let ran = finish(sentinel, b"");
    assert!(ran.code == 2 && ran.err.contains("use redis:// or rediss://"), "{ran:?}");
}

#[test]
fn jobs_wait_in_a_store_until_a_server_hands_them_back() {
    let redis = RedisServer::start();
    let place = Place::new();
    let target = to_laravel(&redis).to_string();
    place.push(&["--queue", "other", "7"]);
    place.ok(&["queues", "set", "mail", "--target", &target]);
    add(&redis, DELAYED, now_ms() / 1_000 - 5, &laravel(1, ""));
    let url = redis.url();
    let arguments = [&["adopt", "laravel", "--from", &url], &HAND_BACK[1..], &["--drain", "--yes", "laravel"]].concat();
    assert_eq!(place.run(&arguments).code, 0);
    assert_eq!(number(&redis, &["LLEN", LIST]), 0);
    // A server that may not reach that Redis leaves them, too, and says so.
    let mut server = Server::start_in(place, &[]);
    assert_eq!(jobs(&server).iter().find(|(_, job)| job["queue"] == "mail").unwrap().1["state"], "ready");
    let degraded = |server: &Server| server.json(&["status"])["health"]["degraded"].clone();
    let told = until("the status says so", || degraded(&server).as_array().unwrap().first().cloned());
    assert_eq!(told["code"], "deliveries");
    let why = told["error"].as_str().unwrap();
    assert!(why.starts_with("queue mail: ") && why.contains("--deliver-redis"), "{why}");
    server.stop();
    let server = Server::start_in(std::mem::replace(&mut server.place, Place::new()), &["--deliver-redis", &url]);
    until("it is handed back", || (number(&redis, &["LLEN", LIST]) == 1).then_some(()));
    assert_eq!(degraded(&server), json!([]));
}

/// For a while, the server runs with the wrong options.
#[test]
fn a_job_that_may_not_be_handed_back_now_is_tried_again() {
    let redis = RedisServer::start();
    let (place, url) = (Place::new(), redis.url());
    let target = to_laravel(&redis).to_string();
    place.push(&["--queue", "other", "7"]);
    place.ok(&["queues", "set", "mail", "--target", &target]);
    add(&redis, DELAYED, now_ms() / 1_000 - 5, &laravel(1, ""));
    let arguments = [&["adopt", "laravel", "--from", &url], &HAND_BACK[1..], &["--drain", "--yes", "laravel"]].concat();
    assert_eq!(place.run(&arguments).code, 0);
    place.ok(&["queues", "set", "mail", "--target", r#"{"queue":"other"}"#]);
    let mut server = Server::start_in(place, &[]);
    let tried = until("it is tried", || {
        let jobs = jobs(&server);
        jobs.into_iter().map(|(_, job)| job).find(|job| job["queue"] == "mail" && job["attempt"] != 0)
    });
    assert_ne!(tried["state"], "failed", "{tried}");
    server.stop();
    let place = std::mem::replace(&mut server.place, Place::new());
    place.ok(&["queues", "set", "mail", "--target", &target]);
    let _server = Server::start_in(place, &["--deliver-redis", &url]);
    until("it is handed back", || (number(&redis, &["LLEN", LIST]) == 1).then_some(()));
}
