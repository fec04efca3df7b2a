//! How leases end and are extended.

use super::client::check_problem;
use super::server::Server;
use serde_json::{Value, json};

const STALE: &str = "117111681613568.7";

#[test]
fn completing_keeps_the_result_as_it_is() {
    let server = Server::start();
    for (body, shown) in [
        (r#"{"result":123456789012345678901234567890}"#, r#""result":123456789012345678901234567890,"#),
        (r#"{"result":null}"#, r#""result":null,"#),
        (r#"{"result_base64":"/w=="}"#, r#""result_base64":"/w==","#),
    ] {
        let id = server.push(&json!({"payload": 1}));
        let receipt = server.receipt();
        let settled = server.send("POST", &format!("/v1/leases/{receipt}/complete"), &[], body).ok();
        assert_eq!(settled, json!({"receipt": receipt, "state": "succeeded"}));
        let job = server.get(&format!("/v1/jobs/{id}"));
        assert!(job.body.contains(shown), "{}", job.body);
    }
    for body in ["", "{}"] {
        let id = server.push(&json!({"payload": 1}));
        let receipt = server.receipt();
        server.send("POST", &format!("/v1/leases/{receipt}/complete"), &[], body).ok();
        assert_eq!(server.job(&id)["result"], Value::Null);
    }
}

#[test]
fn failing_goes_on_or_ends() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "retry": {"fixed": {"delay": "0s"}}, "max_attempts": 3}));
    let fail = |body: Value| server.post(&format!("/v1/leases/{}/fail", server.receipt()), &body).ok()["state"].clone();
    assert_eq!(fail(json!({"message": "first"})), "ready");
    assert_eq!(fail(json!({"message": "second"})), "ready");
    assert_eq!(fail(json!({"message": "third"})), "failed");
    let job = server.job(&id);
    assert_eq!((&job["attempt"], &job["message"]), (&json!(3), &json!("third")));
    assert_eq!(job["errors"][1]["message"], "second");

    server.push(&json!({"payload": 1}));
    assert_eq!(fail(json!({"final": true})), "failed");
    server.push(&json!({"payload": 1}));
    assert_eq!(fail(json!({"retry_after": "30s"})), "scheduled");
}

#[test]
fn releasing_does_not_count() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    let release = |body: &str| server.send("POST", &format!("/v1/leases/{}/release", server.receipt()), &[], body).ok();
    assert_eq!(release("")["state"], "ready");
    assert_eq!(release(r#"{"delay":"0s"}"#)["state"], "ready");
    assert_eq!(release(r#"{"delay":"1h"}"#)["state"], "scheduled");
    assert_eq!(server.job(&id)["attempt"], 0);
}

#[test]
fn extending_moves_the_end() {
    let server = Server::start();
    server.push(&json!({"payload": 1, "lease": "10s"}));
    let lease = server.reserve(1).remove(0);
    assert_eq!(lease["lease"], "10s");
    let receipt = lease["receipt"].as_str().unwrap();
    let extended = server.post(&format!("/v1/leases/{receipt}/extend"), &json!({"lease": "12h"})).ok();
    assert!(extended["lease_until"].as_str() > lease["lease_until"].as_str());
    assert_eq!((&extended["receipt"], &extended["cancel_requested"]), (&json!(receipt), &json!(false)));
    let back = server.call(&format!("/v1/leases/{receipt}/extend")).ok();
    assert!(back["lease_until"].as_str() < extended["lease_until"].as_str());
}

/// Each by itself, in order.
#[test]
fn many_leases_are_extended_at_once() {
    let server = Server::start();
    (0..2).for_each(|n| drop(server.push(&json!({"payload": n}))));
    let leases = server.reserve(2);
    let [first, second] = [0, 1].map(|n| leases[n]["receipt"].clone());
    server.call(&format!("/v1/leases/{}/complete", second.as_str().unwrap())).ok();
    let body = json!([
        {"receipt": first, "lease": "12h"}, {"receipt": second}, {"receipt": first, "lease": "13h"}, {"lease": "5s"},
        {"receipt": first},
    ]);
    let answers = server.post("/v1/extend", &body).ok();
    assert_eq!(answers[0]["receipt"], first);
    assert!(answers[0]["lease_until"].as_str() > leases[0]["lease_until"].as_str());
    let codes: Vec<_> = (1..4).map(|n| answers[n]["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["lease_lost", "invalid", "invalid"]);
    assert_eq!(answers[1]["receipt"], second);
    assert!(answers[4]["lease_until"].as_str() < answers[0]["lease_until"].as_str(), "its first length again");
    server.post("/v1/extend", &json!({"receipt": first})).problem(400, "invalid");
}

#[test]
fn progress_is_shown_and_extends_the_lease() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1, "lease": "10s"}));
    let lease = server.reserve(1).remove(0);
    let path = format!("/v1/leases/{}/progress", lease["receipt"].as_str().unwrap());
    let told = server.post(&path, &json!({"percent": 40, "note": "half of it"})).ok();
    assert!(told["lease_until"].as_str() >= lease["lease_until"].as_str());
    assert_eq!((&told["receipt"], &told["cancel_requested"]), (&lease["receipt"], &json!(false)));
    let progress = &server.job(&id)["progress"];
    assert_eq!((&progress["percent"], &progress["note"]), (&json!(40), &json!("half of it")));
    assert!(progress["at"].as_str() >= lease["started_at"].as_str());
    for wrong in
        [json!({}), json!({"percent": 101}), json!({"percent": -1}), json!({"percent": 1, "note": "n".repeat(1025)})]
    {
        server.post(&path, &wrong).problem(400, "invalid");
    }
    server.post(&path, &json!({"percent": 90})).ok();
    server.call(&path.replace("progress", "complete")).ok();
    let progress = server.job(&id)["progress"].clone();
    assert_eq!((&progress["percent"], progress.get("note")), (&json!(90), None), "the last word stays");
    server.post(&path, &json!({"percent": 99})).problem(409, "lease_lost");
}

#[test]
fn a_stale_receipt_changes_nothing() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    let old = server.receipt();
    server.call(&format!("/v1/leases/{old}/release")).ok();
    let new = server.receipt();
    for stale in [&*old, STALE] {
        for verb in ["complete", "fail", "release", "extend"] {
            let problem = server.call(&format!("/v1/leases/{stale}/{verb}")).problem(409, "lease_lost");
            assert_eq!(problem["receipt"], stale);
        }
    }
    let job = server.job(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("running"), &json!(1)));
    server.call(&format!("/v1/leases/{new}/complete")).ok();
    for wrong in ["7", "7.", "x.1", "7.-1", "7.1.1"] {
        server.call(&format!("/v1/leases/{wrong}/complete")).problem(400, "invalid");
    }
}

#[test]
fn a_repeated_complete_is_answered_again() {
    let server = Server::start();
    server.push(&json!({"payload": 1}));
    let path = format!("/v1/leases/{}/complete", server.receipt());
    assert_eq!(server.call(&path).ok(), server.call(&path).ok());
}

#[test]
fn many_are_settled_in_order() {
    let server = Server::start();
    for _ in 0..4 {
        server.push(&json!({"payload": 1}));
    }
    let receipts: Vec<Value> = server.reserve(4).iter().map(|lease| lease["receipt"].clone()).collect();
    let answers = server.post(
        "/v1/settle",
        &json!([
            {"receipt": receipts[0], "complete": {"result": 1}},
            {"receipt": STALE, "complete": {}},
            {"receipt": receipts[1], "fail": {"message": "no", "final": true}},
            {"receipt": "nonsense", "complete": {}},
            {"receipt": receipts[2], "release": {"delay": "1h"}},
            {"receipt": receipts[3]},
            {"receipt": receipts[3], "complete": {}, "fail": {}},
            {"receipt": receipts[3], "fail": {"message": "m".repeat((64 << 10) + 1)}},
        ]),
    );
    let answers = answers.ok();
    assert_eq!(answers.as_array().unwrap().len(), 8);
    for (place, receipt, state) in [(0, 0, "succeeded"), (2, 1, "failed"), (4, 2, "scheduled")] {
        assert_eq!(answers[place], json!({"receipt": receipts[receipt], "state": state}));
    }
    check_problem(&answers[1], 409, "lease_lost");
    assert_eq!(answers[1]["receipt"], STALE);
    for place in [3, 5, 6, 7] {
        check_problem(&answers[place], 400, "invalid");
    }
    assert_eq!(answers[7]["receipt"], receipts[3]);
    server.call(&format!("/v1/leases/{}/complete", receipts[3].as_str().unwrap())).ok();
    assert_eq!(server.post("/v1/settle", &json!([])).ok(), json!([]));
    server.post("/v1/settle", &json!({})).problem(400, "invalid");
}
