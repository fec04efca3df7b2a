//! Ids can be guessed: a job that is pushed while somebody without a right names it stays out of reach.

use super::world::World;
use crate::common::Random;
use crate::http::client::request;
use crate::http::server::Server;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Jobs that are pushed meanwhile.
const PUSHES: u64 = 2_000;
/// The number of ids after that of the last push that are guessed.
const AHEAD: u64 = 4;

/// A random request that names jobs by their ids, and leases by their future receipts.
fn attempt(ids: &[u64], random: &mut Random) -> (&'static str, String, String) {
    let one = ids[random.within(0..ids.len() as u64) as usize];
    let named: Vec<Value> = ids.iter().map(|id| json!({"id": id.to_string()})).collect();
    let receipt = format!("{one}.1");
    match random.within(0..12) {
        0..3 => ("POST", "/v1/reserve".to_owned(), json!({"jobs": named}).to_string()),
        3 => ("POST", "/v1/queues/mail.a/take".to_owned(), json!({"jobs": named}).to_string()),
        4 => ("POST", format!("/v1/jobs/{one}/cancel"), String::new()),
        5 => ("DELETE", format!("/v1/jobs/{one}"), String::new()),
        6 => ("PATCH", format!("/v1/jobs/{one}"), json!({"priority": 1}).to_string()),
        7 => ("GET", format!("/v1/jobs/{one}"), String::new()),
        8 => ("POST", format!("/v1/jobs/{one}/run"), String::new()),
        9 => ("POST", format!("/v1/jobs/{one}/retry"), String::new()),
        10 => ("POST", "/v1/extend".to_owned(), json!([{"receipt": receipt}]).to_string()),
        _ => ("POST", "/v1/settle".to_owned(), json!([{"receipt": receipt, "complete": {}}]).to_string()),
    }
}

/// Whether an answer says of everything that was named that it does not exist.
fn knows_nothing(status: u16, answer: &Value) -> bool {
    let is_unknown = |problem: &Value| problem["code"] == "not_found" || problem["code"] == "lease_lost";
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    match answer {
        Value::Array(answers) => answers.iter().all(is_unknown),
        answer if status == 200 => {
            is_empty(&answer["leases"])
                && is_empty(&answer["jobs"])
                && answer["refused"].as_array().is_some_and(|refused| refused.iter().all(is_unknown))
        }
        answer => is_unknown(answer),
    }
}

/// The attackers' knowledge.
struct Attack<'a> {
    server: &'a Server,
    token: &'a str,
    /// The id of the last push, and how far it is from one to the next.
    last: AtomicU64,
    step: u64,
    is_over: AtomicBool,
}

impl Attack<'_> {
    /// Names jobs that are about to be pushed, until it is over; returns how often.
    fn guess(&self, mut random: Random) -> u64 {
        let mut connection = self.server.connect();
        let bearer = format!("Bearer {}", self.token);
        let mut asked = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let last = self.last.load(Ordering::Relaxed);
            let count = if random.percent(30) { 1 } else { AHEAD };
            let ids: Vec<u64> = (1..=count).map(|n| last + n * self.step).collect();
            let (method, path, body) = attempt(&ids, &mut random);
            connection.send(request(method, &path, &[("authorization", &bearer)], &body));
            let reply = connection.reply();
            let answer = serde_json::from_str(&reply.body).unwrap_or_default();
            assert!(knows_nothing(reply.status, &answer), "{method} {path} {body}: {reply:?}");
            asked += 1;
        }
        asked
    }
}

#[test]
fn jobs_that_are_pushed_while_others_guess_their_ids_stay_untouched() {
    let given = std::env::var("DUETIME_RIGHTS_SEED").ok().map(|text| text.parse().unwrap());
    let seed: u64 = given.unwrap_or_else(|| u64::from(std::process::id()));
    println!("DUETIME_RIGHTS_SEED={seed}");
    let world = World::new();
    let token = world.token("tried", "admin:mail.*");
    let pushed = |body: Value| {
        let answer = world.as_root("POST", "/v1/queues/orders.b/jobs", &body).expect(201);
        answer["id"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let (first, second) = (pushed(json!({"payload": 0})), pushed(json!({"payload": 1})));
    let (last, step) = (AtomicU64::new(second), second - first);
    let attack = Attack { server: &world.server, token: &token, last, step, is_over: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let guessing: Vec<_> = (0..3)
            .map(|thread| {
                let (attack, random) = (&attack, Random::new(seed.wrapping_mul(31).wrapping_add(thread)));
                scope.spawn(move || attack.guess(random))
            })
            .collect();
        for n in 2..PUSHES {
            attack.last.store(pushed(json!({"payload": n})), Ordering::Relaxed);
            if guessing.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        attack.is_over.store(true, Ordering::Relaxed);
        let asked: Vec<_> = guessing.into_iter().map(|one| one.join().unwrap()).collect();
        println!("{asked:?} guesses beside {PUSHES} pushes");
    });
    let queue = world.as_root("GET", "/v1/queues/orders.b", &Value::Null).ok();
    assert_eq!((&queue["ready"], &queue["running"]), (&json!(PUSHES), &json!(0)), "{queue}");
}

/// Times that a schedule is made and deleted.
const SCHEDULES: u64 = 150;

#[test]
fn a_schedule_that_is_made_while_others_set_its_name_stays_as_it_is() {
    let world = World::new();
    let narrow = world.token("tried", "admin:mail.*");
    let body = |queue: &str| json!({"every": "1h", "job": {"queue": queue, "payload": 1}});
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let theirs = body("mail.a").to_string();
        let (server, narrow, is_over) = (&world.server, &narrow, &is_over);
        let setting = scope.spawn(move || {
            let mut connection = server.connect();
            let bearer = format!("Bearer {narrow}");
            while !is_over.load(Ordering::Relaxed) {
                connection.send(request("PUT", "/v1/schedules/s", &[("authorization", &bearer)], &theirs));
                let reply = connection.reply();
                assert!([200, 403, 412].contains(&reply.status), "{reply:?}");
            }
        });
        for _ in 0..SCHEDULES {
            world.as_root("PUT", "/v1/schedules/s", &body("orders.a")).ok();
            let shown = world.as_root("GET", "/v1/schedules/s", &Value::Null).ok();
            if shown["schedule"]["job"]["queue"] != "orders.a" || setting.is_finished() {
                is_over.store(true, Ordering::Relaxed);
                panic!("it was replaced: {shown}");
            }
            assert_eq!(world.as_root("DELETE", "/v1/schedules/s", &Value::Null).status, 204);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
