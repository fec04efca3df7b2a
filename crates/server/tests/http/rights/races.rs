//! Ids can be guessed: a job that is pushed while somebody without a right names it stays out of reach.

use super::world::World;
use crate::client::request;
use crate::server::Server;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Jobs that are pushed meanwhile.
const PUSHES: u64 = 2_000;
/// How many ids after that of the last push are guessed.
const AHEAD: u64 = 4;

/// What names jobs by their ids, and leases by what they will be.
fn attempts(ids: &[u64], turn: usize) -> (&'static str, String, String) {
    let one = ids[turn / 8 % ids.len()];
    let named: Vec<Value> = ids.iter().map(|id| json!({"id": id.to_string()})).collect();
    let receipt = format!("{one}.1");
    match turn % 8 {
        0 | 4 => ("POST", "/v1/reserve".to_owned(), json!({"jobs": named}).to_string()),
        1 => ("POST", "/v1/queues/mail.a/take".to_owned(), json!({"jobs": named}).to_string()),
        2 => ("POST", format!("/v1/jobs/{one}/cancel"), String::new()),
        3 => ("DELETE", format!("/v1/jobs/{one}"), String::new()),
        5 => ("PATCH", format!("/v1/jobs/{one}"), json!({"priority": 1}).to_string()),
        6 => ("GET", format!("/v1/jobs/{one}"), String::new()),
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

fn guess(server: &Server, token: &str, last: &AtomicU64, step: u64, is_over: &AtomicBool) -> u64 {
    let mut connection = server.connect();
    let bearer = format!("Bearer {token}");
    let mut asked = 0;
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let last = last.load(Ordering::Relaxed);
        let ids: Vec<u64> = (1..=AHEAD).map(|n| last + n * step).collect();
        let (method, path, body) = attempts(&ids, turn);
        connection.send(request(method, &path, &[("authorization", &bearer)], &body));
        let reply = connection.reply();
        let answer = serde_json::from_str(&reply.body).unwrap_or_default();
        assert!(knows_nothing(reply.status, &answer), "{method} {path} {body}: {reply:?}");
        asked += 1;
    }
    asked
}

#[test]
fn jobs_that_are_pushed_while_others_guess_their_ids_stay_untouched() {
    let world = World::new();
    let narrow = world.token("tried", "admin:mail.*");
    let pushed = |body: Value| {
        let answer = world.as_root("POST", "/v1/queues/orders.b/jobs", &body).expect(201);
        answer["id"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let (first, second) = (pushed(json!({"payload": 0})), pushed(json!({"payload": 1})));
    let (last, step, is_over) = (AtomicU64::new(second), second - first, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let guessing: Vec<_> = (0..3).map(|_| scope.spawn(|| guess(&world.server, &narrow, &last, step, &is_over))).collect();
        for n in 2..PUSHES {
            last.store(pushed(json!({"payload": n})), Ordering::Relaxed);
            if guessing.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let asked: Vec<_> = guessing.into_iter().map(|one| one.join().unwrap()).collect();
        println!("{asked:?} guesses beside {PUSHES} pushes");
    });
    let queue = world.as_root("GET", "/v1/queues/orders.b", &Value::Null).ok();
    assert_eq!((&queue["ready"], &queue["running"]), (&json!(PUSHES), &json!(0)), "{queue}");
}
