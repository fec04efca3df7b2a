//! Every code of a problem is provoked by a test.

use super::client::request;
use super::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Each code, and the test that provokes it: in a file of these, or of the server's own if stores must fail.
const TESTS: [(&str, &str, &str); 38] = [
    ("already_finished", "tests/http/jobs.rs", "what_runs_or_has_ended_is_not_patched"),
    ("backlog", "src/http/tests.rs", "who_can_record_no_more_hands_nothing_out"),
    ("body_too_large", "tests/http/protocol.rs", "a_body_beyond_its_limit_is_refused"),
    ("body_unreadable", "tests/http/codes.rs", "a_body_that_is_not_packed_as_it_says"),
    ("forbidden", "tests/http/rights/mod.rs", "a_token_can_do_what_it_is_for_and_nothing_else"),
    ("foreign_host", "tests/http/protocol.rs", "pages_of_others_are_refused"),
    ("foreign_origin", "tests/http/protocol.rs", "pages_of_others_are_refused"),
    ("head_too_large", "tests/http/protocol.rs", "a_head_beyond_its_limit_is_refused"),
    ("held_back", "tests/http/codes.rs", "a_job_of_a_paused_queue_is_held_back"),
    ("internal", "src/http/tests.rs", "what_a_store_says_stays_in_the_log"),
    ("invalid", "tests/http/bulk.rs", "an_empty_selection_is_refused"),
    ("job_live", "tests/http/jobs.rs", "retrying_starts_a_finished_job_again"),
    ("job_running", "tests/http/jobs.rs", "what_runs_or_has_ended_is_not_patched"),
    ("key_conflict", "tests/http/jobs.rs", "a_retry_meets_a_key_that_is_taken"),
    ("origin_reused", "tests/http/push.rs", "a_push_with_an_idempotency_key_may_be_repeated"),
    ("lease_lost", "tests/http/leases.rs", "a_stale_receipt_changes_nothing"),
    ("lock_held", "tests/http/locks.rs", "a_lock_is_acquired_shown_renewed_and_released"),
    ("lock_lost", "tests/http/locks.rs", "a_lock_is_acquired_shown_renewed_and_released"),
    ("malformed_json", "tests/http/protocol.rs", "malformed_json_says_where"),
    ("media_type", "tests/http/protocol.rs", "only_json_is_read"),
    ("method_not_allowed", "tests/http/protocol.rs", "a_path_or_method_that_is_not_there"),
    ("no_route", "tests/http/protocol.rs", "a_path_or_method_that_is_not_there"),
    ("not_due", "tests/http/reserve.rs", "named_jobs_are_handed_out_in_their_version_only"),
    ("not_found", "tests/http/jobs.rs", "cancelling_says_what_happened"),
    ("queue_full", "tests/http/queues.rs", "a_full_queue_refuses_or_drops"),
    ("queue_in_use", "tests/http/queues.rs", "a_queue_is_deleted"),
    ("schedule_not_found", "tests/http/schedules.rs", "a_schedule_is_set_shown_and_deleted"),
    ("stopping", "src/http/tests.rs", "who_stops_says_so"),
    ("store_damaged", "src/http/tests.rs", "what_a_store_says_stays_in_the_log"),
    ("store_full", "src/http/tests.rs", "what_a_store_says_stays_in_the_log"),
    ("store_unavailable", "src/http/tests.rs", "what_a_store_says_stays_in_the_log"),
    ("store_unusable", "src/http/tests.rs", "what_a_store_says_stays_in_the_log"),
    ("timeout", "src/http/body.rs", "a_body_that_does_not_come_is_given_up"),
    ("too_many_bodies", "src/http/body.rs", "a_body_for_which_there_is_no_room_is_refused"),
    ("too_many_requests", "tests/http/tokens.rs", "a_token_may_end_and_may_ask_so_much"),
    ("too_many_streams", "src/http/handlers/events.rs", "a_stream_too_many_is_refused_and_one_that_ends_makes_room"),
    ("unauthorized", "tests/http/tokens.rs", "without_a_token_that_counts_nothing_is_done"),
    ("version_mismatch", "tests/http/conditions.rs", "a_schedule_is_changed_as_it_was_read_only"),
];

#[test]
fn every_code_has_its_test() {
    let document = Server::start().get("/openapi.json").ok();
    let codes = document["components"]["schemas"]["ProblemCode"]["enum"].as_array().unwrap();
    let codes: BTreeSet<&str> = codes.iter().filter_map(Value::as_str).collect();
    let tested: BTreeSet<&str> = TESTS.iter().map(|(code, ..)| *code).collect();
    assert_eq!(codes, tested, "a code has no test, or a test no code");
    for (code, file, test) in TESTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let begin = text.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("{file} has no {test}"));
        let body = text[begin..].split("\n}\n").next().unwrap_or_default();
        let body = body.split("\n    }\n}").next().unwrap_or_default();
        assert!(body.contains(&format!("\"{code}\"")), "{test} of {file} does not provoke {code}");
    }
}

#[test]
fn a_body_that_is_not_packed_as_it_says() {
    let server = Server::start();
    let mut connection = server.connect();
    connection.send(request("POST", "/v1/queues/q/jobs", &[("content-encoding", "gzip")], r#"{"payload":1}"#));
    connection.reply().problem(400, "body_unreadable");
    assert_eq!(server.get("/v1/queues/q").ok()["pending"], 0);
}

#[test]
fn a_job_of_a_paused_queue_is_held_back() {
    let server = Server::start();
    let id = server.push(&json!({"payload": 1}));
    server.call("/v1/queues/q/pause").ok();
    let reservation = server.post("/v1/reserve", &json!({"jobs": [{"id": id}]})).ok();
    assert_eq!(reservation["leases"], json!([]));
    super::client::check_problem(&reservation["refused"][0], 409, "held_back");
    assert_eq!(reservation["refused"][0]["id"], json!(id));
}
