//! Tests of where jobs are put back if the queue has changed since.

use super::*;
use crate::cli::adopt::source::Trouble;
use duetime_store::testing::RedisServer;

/// A queue of BullMQ in a private Redis.
struct Old {
    server: RedisServer,
    redis: Redis,
    layout: Bullmq,
}

impl Old {
    fn start() -> Self {
        let server = RedisServer::start();
        let redis = Redis::new(&server.url(), "bull:mail", None).unwrap();
        let layout = Bullmq {
            base: "bull:mail:".to_owned(),
            to: "mail".into(),
            tag: "adopted:mail".into(),
            hand_back: None,
            place: 0,
            offset: 0,
            has_claimed: false,
            has_gone_through: false,
        };
        Self { server, redis, layout }
    }

    fn run(&self, line: &str) -> String {
        self.server.command(&line.split(' ').collect::<Vec<_>>())
    }

    /// Adds jobs to the left end of a list, as producers do.
    fn push(&self, list: &str, ids: &[&str]) {
        for id in ids {
            self.run(&format!("HSET bull:mail:{id} name n data {{}}"));
            self.run(&format!("LPUSH bull:mail:{list} {id}"));
        }
    }

    fn list(&self, name: &str) -> String {
        self.run(&format!("LRANGE bull:mail:{name} 0 -1")).replace('\n', " ")
    }

    fn push_log(&self, id: &str, lines: usize) {
        for lines in vec!["a line"; lines].chunks(5_000) {
            let log = format!("bull:mail:{id}:logs");
            self.server.command(&[&["RPUSH", &log], lines].concat());
        }
    }

    fn calls_of(&self, command: &str) -> u64 {
        let stats = self.run("INFO commandstats");
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    }

    /// Claims everything.
    async fn claim(&mut self) -> Vec<Arc<str>> {
        let mut ids = Vec::new();
        loop {
            let claimed = self.layout.claim(&mut self.redis, Step::Drain).await.unwrap().logged;
            if claimed.is_empty() {
                return ids;
            }
            ids.extend(claimed.into_iter().map(|(id, _)| id));
        }
    }

    async fn put_back(&mut self, claims: &[Arc<str>]) {
        self.redis.put_back(self.layout.put_back(), &self.layout.keys(), claims).await.unwrap();
        assert_eq!(self.redis.count().await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_list_gets_its_order_back_before_what_was_added_since() {
    let mut old = Old::start();
    old.run("HSET bull:mail:meta version bullmq:6.7.0");
    old.push("wait", &["1", "2", "3", "4"]);
    let claims = old.claim().await;
    old.push("wait", &["5"]);
    old.put_back(&claims).await;
    assert_eq!(old.list("wait"), "5 4 3 2 1");
    assert_eq!(old.run("ZRANGE bull:mail:marker 0 -1"), "0", "a worker wakes");
}

/// Resuming a queue of BullMQ 5, or of Bull, renames `paused` to `wait`.
#[tokio::test]
async fn jobs_go_to_the_list_that_is_used_now() {
    for (pause, resume) in [
        ("HSET bull:mail:meta paused 1", "HDEL bull:mail:meta paused"),
        ("SET bull:mail:meta-paused 1", "DEL bull:mail:meta-paused"),
    ] {
        let mut old = Old::start();
        old.run("HSET bull:mail:meta version bullmq:5.0.0");
        old.push("wait", &["1", "2"]);
        let claims = old.claim().await;
        old.run(pause);
        old.put_back(&claims).await;
        assert_eq!((old.list("wait"), old.list("paused")), (String::new(), "2 1".to_owned()));
        assert_eq!(old.run("EXISTS bull:mail:marker"), "0", "nobody is to wake");
        let claims = old.claim().await;
        old.run(resume);
        old.put_back(&claims).await;
        assert_eq!((old.list("wait"), old.list("paused")), ("2 1".to_owned(), String::new()));
    }
}

#[tokio::test]
async fn jobs_of_bull_go_back_with_their_priorities() {
    let mut old = Old::start();
    old.push("wait", &["1", "2", "3", "4", "5"]);
    old.run("ZADD bull:mail:priority 2 4 1 5");
    // As in Bull: the most urgent at the right.
    old.run("DEL bull:mail:wait");
    old.run("RPUSH bull:mail:wait 3 2 1 4 5");
    let claims = old.claim().await;
    assert_eq!(old.run("EXISTS bull:mail:priority bull:mail:wait"), "0");
    // Another was added since.
    old.run("ZADD bull:mail:priority 1 6");
    old.run("LPUSH bull:mail:wait 6");
    old.put_back(&claims).await;
    assert_eq!(old.list("wait"), "6 3 2 1 4 5");
    assert_eq!(old.run("ZRANGE bull:mail:priority 0 -1").replace('\n', " "), "5 6 4");
}

#[tokio::test]
async fn what_is_there_is_not_overwritten() {
    let mut old = Old::start();
    old.run("HSET bull:mail:meta version bullmq:6.7.0");
    old.push("wait", &["a", "b", "c"]);
    old.run("RPUSH bull:mail:b:logs one two");
    let claims = old.claim().await;
    // The producer added it again; another has only written a field; a third is no job.
    old.run("HSET bull:mail:a name again data 2");
    old.run("ZADD bull:mail:delayed 7 a");
    old.run("HSET bull:mail:b data 3");
    old.run("SET bull:mail:c text");
    old.put_back(&claims).await;
    assert_eq!(old.run("HGETALL bull:mail:a"), "name\nagain\ndata\n2");
    assert_eq!((old.list("wait"), old.list("b:logs")), ("b".to_owned(), "one two".to_owned()));
    assert_eq!(old.run("HMGET bull:mail:b name data"), "n\n3");
    assert_eq!(
        (old.run("ZSCORE bull:mail:delayed a"), old.run("GET bull:mail:c")),
        ("7".to_owned(), "text".to_owned())
    );
}

#[tokio::test]
async fn a_claim_that_cannot_remove_its_job_is_none() {
    let mut old = Old::start();
    old.run("HSET bull:mail:meta version bullmq:6.7.0");
    old.push("wait", &["1", "2", "3"]);
    old.run("HSET bull:mail:2 parentKey bull:other:1");
    for right in ["lrem", "lset", "del"] {
        old.run(&format!("ACL SETUSER default -{right}"));
        let refused = old.layout.claim(&mut old.redis, Step::Drain).await;
        assert!(matches!(refused, Err(Trouble::Failed(_))), "{right}");
        old.run(&format!("ACL SETUSER default +{right}"));
        assert_eq!((old.redis.count().await.unwrap(), old.list("wait")), (0, "3 2 1".to_owned()), "{right}");
    }
    assert_eq!((old.claim().await.len(), old.list("wait")), (2, "2".to_owned()));
}

/// One that is half put back would count as added since, and be forgotten.
#[tokio::test]
async fn a_job_that_cannot_be_put_back_stays_claimed() {
    let mut old = Old::start();
    old.run("HSET bull:mail:meta version bullmq:6.7.0");
    old.push("wait", &["1"]);
    old.run("HSET bull:mail:2 name n data {}");
    old.run("ZADD bull:mail:delayed 7 2");
    let claims = old.claim().await;
    for (right, claim) in [("rpush", &claims[0]), ("hsetnx", &claims[0]), ("hsetnx", &claims[1])] {
        old.run(&format!("ACL SETUSER default -{right}"));
        let some = std::slice::from_ref(claim);
        let refused = old.redis.put_back(old.layout.put_back(), &old.layout.keys(), some).await;
        assert!(refused.is_err(), "{right}");
        old.run(&format!("ACL SETUSER default +{right}"));
        let keys = old.run("EXISTS bull:mail:1 bull:mail:2 bull:mail:wait bull:mail:delayed");
        assert_eq!((&*keys, old.redis.count().await.unwrap()), ("0", 2), "{right}");
    }
    old.put_back(&claims).await;
    assert_eq!((old.list("wait"), old.run("ZSCORE bull:mail:delayed 2")), ("1".to_owned(), "7".to_owned()));
}

#[tokio::test]
async fn a_list_that_became_shorter_is_read_again_from_its_start() {
    let mut old = Old::start();
    old.push("wait", &["1", "2"]);
    old.layout.offset = 500;
    assert_eq!((old.claim().await.len(), old.list("wait")), (0, "2 1".to_owned()));
    assert_eq!(old.claim().await.len(), 2);
}

#[tokio::test]
async fn a_log_is_put_back() {
    let mut old = Old::start();
    old.push("wait", &["1"]);
    old.push_log("1", 2_500);
    let claims = old.claim().await;
    old.put_back(&claims).await;
    assert_eq!(old.run("LLEN bull:mail:1:logs"), "2500");
}

#[tokio::test]
async fn an_id_that_stands_there_twice_is_one_job() {
    let mut old = Old::start();
    old.push("wait", &["1", "2"]);
    old.run("LPUSH bull:mail:wait 1 1");
    assert_eq!((old.claim().await.len(), old.list("wait")), (2, "1 1".to_owned()));
}

/// More than a script claims at once, by their bytes.
#[tokio::test]
async fn a_script_stops_at_many_bytes_and_the_next_one_goes_on() {
    let mut old = Old::start();
    let data = "x".repeat(200 << 10);
    for id in ["1", "2", "3", "4", "5"] {
        old.server.command(&["HSET", &format!("bull:mail:{id}"), "name", "n", "data", &data]);
        old.run(&format!("LPUSH bull:mail:wait {id}"));
    }
    let first = old.layout.claim(&mut old.redis, Step::Drain).await.unwrap().logged;
    assert_eq!(first.len(), 3);
    assert_eq!(old.claim().await.len(), 2);
}

/// Redis works on each field, and on each line of a log.
#[tokio::test]
async fn a_script_stops_at_many_fields_or_lines() {
    let mut old = Old::start();
    let ids: Vec<String> = (1..=200).map(|id| id.to_string()).collect();
    old.push("wait", &ids.iter().map(String::as_str).collect::<Vec<_>>());
    let add = "for id = 1, 200 do
        for field = 1, 90 do redis.call('HSET', 'bull:mail:' .. id, 'f' .. field, 'v') end
    end";
    old.server.command(&["EVAL", add, "0"]);
    let count = old.layout.claim(&mut old.redis, Step::Drain).await.unwrap().logged.len();
    assert!((50..100).contains(&count), "{count} jobs");
    assert_eq!(old.claim().await.len(), 200 - count);

    old.push("wait", &["201", "202", "203", "204"]);
    old.push_log("201", 9_000);
    old.push_log("202", 9_000);
    old.push_log("203", 10_001);
    old.server.command(&["RPUSH", "bull:mail:204:logs", &"x".repeat(2 << 20)]);
    assert_eq!(old.layout.claim(&mut old.redis, Step::Drain).await.unwrap().logged.len(), 2);
    assert_eq!((old.claim().await.len(), old.list("wait")), (0, "204 203".to_owned()), "long logs stay");
}

/// A log may be long.
#[tokio::test]
async fn a_look_reads_no_log() {
    let mut old = Old::start();
    old.run("SET bull:mail:id 1");
    old.push("wait", &["1", "2"]);
    old.push_log("2", 10_001);
    old.run("CONFIG RESETSTAT");
    old.layout.look(&old.redis).await.unwrap();
    let without = old.calls_of("lrange");
    old.push_log("1", 10);
    old.run("CONFIG RESETSTAT");
    let look = old.layout.look(&old.redis).await.unwrap();
    assert_eq!((look.samples.len(), old.calls_of("lrange")), (1, without));
    assert_eq!(look.parts[0].why_left.as_deref(), Some("1 with a long log"));
}

/// To remove a job from a list, Redis scans it.
#[tokio::test]
async fn a_script_goes_through_a_long_list_once_and_not_too_far() {
    let mut old = Old::start();
    old.run("HSET bull:mail:meta version bullmq:6.7.0");
    let add = |old: &Old, id: &str, count: u32| {
        let add = "for _ = 1, ARGV[2] / 1000 do
            local ids = {}
            for n = 1, 1000 do ids[n] = ARGV[1] end
            redis.call('LPUSH', 'bull:mail:wait', unpack(ids))
        end";
        old.server.command(&["EVAL", add, "0", id, &count.to_string()]);
    };
    add(&old, "gone", 245_000);
    old.push("wait", &["1", "2", "3"]);
    add(&old, "gone", 245_000);
    assert_eq!(old.claim().await.len(), 0, "they stand too deep");
    let look = old.layout.look(&old.redis).await.unwrap();
    let why = look.parts[0].why_left.as_deref().unwrap();
    assert_eq!((look.parts[0].left, look.parts[0].due), (490_003, 0));
    assert!(why.starts_with("3 too far from both ends of the list, "), "{why}");
    // Workers have run some of the others.
    old.run("LTRIM bull:mail:wait 0 379999");
    let passes = old.calls_of("lrem");
    assert_eq!((old.claim().await.len(), old.calls_of("lrem") - passes), (3, 1));
    assert_eq!(old.run("LLEN bull:mail:wait"), "379997");
    // Of long ids, fewer.
    old.run("DEL bull:mail:wait");
    add(&old, &"x".repeat(100), 150_000);
    old.push("wait", &["1", "2", "3"]);
    add(&old, &"x".repeat(100), 150_000);
    assert_eq!(old.claim().await.len(), 0, "they stand too deep");
}
