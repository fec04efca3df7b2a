//! Every field that a push declares is known wherever jobs are given or shown.

use super::server::Server;
use crate::cli::support::Place;
use duetime::Client;
use duetime_core::api::{Patch, Push};
use duetime_core::{Backoff, KeyUntil, NewJob, OnConflict, Target, WhenExhausted};
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime};

/// A field of a push.
struct Field {
    name: &'static str,
    /// An example, and how a job shows it.
    example: Value,
    /// The option of the command line, with the example.
    option: &'static [&'static str],
    /// How pages show it.
    on_page: &'static str,
    /// How `get` shows it.
    by_get: &'static str,
}

const THEN: &str = r#"{"queue":"next7","kind":"then7","payload":1,"priority":1024}"#;
const OTHERWISE: &str = r#"{"queue":"next7","kind":"otherwise7","payload":2,"priority":1024}"#;
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// Other ways to give a field, and what is not kept with the job.
const NOT_SHOWN: [&str; 6] = ["payload_base64", "delay", "delay_ms", "due_at", "due_at_ms", "on_conflict"];
/// Only a push has these, a type of jobs does not.
const NOT_OF_TYPES: [&str; 13] = [
    "payload_base64",
    "delay",
    "delay_ms",
    "due_at",
    "due_at_ms",
    "on_conflict",
    "key_until",
    "origin",
    "target",
    "trace",
    "meta",
    "then",
    "otherwise",
];
/// What a schedule gives each of its jobs by itself.
const NOT_OF_SCHEDULES: [&str; 7] = ["payload", "delay", "delay_ms", "due_at", "due_at_ms", "origin", "trace"];

fn fields() -> Vec<Field> {
    let field = |name, example, option, on_page, by_get| Field { name, example, option, on_page, by_get };
    vec![
        field("queue", json!("orders7"), &["--queue", "orders7"], "orders7", "orders7"),
        field("kind", json!("ship7"), &["--kind", "ship7"], "ship7", "ship7"),
        field("payload", json!({"order": 4711}), &["{\"order\": 4711}"], "4711", "4711"),
        field("payload_base64", json!("/w=="), &[], "", ""),
        field("delay", json!("2h"), &["--delay", "2h"], "", ""),
        field("delay_ms", json!(7_200_000), &[], "", ""),
        field("due_at", json!("2030-01-01T00:00:00Z"), &[], "", ""),
        field("due_at_ms", json!(1_900_000_000_000_u64), &[], "", ""),
        field("priority", json!(77), &["--priority", "77"], ">77<", "77"),
        field("key", json!("key7"), &["--key", "key7"], "key7", "key7"),
        field("on_conflict", json!("reject"), &["--on-conflict", "reject"], "", ""),
        field("key_until", json!("started"), &["--key-until", "started"], "until it starts", "started"),
        field("origin", json!("origin7"), &["--origin", "origin7"], "origin7", "origin7"),
        field("tags", json!(["tag7"]), &["--tag", "tag7"], "tag7", "tag7"),
        field("lease", json!("1m37s"), &["--lease", "97s"], "1m37s", "1m37s"),
        field("expires", json!("1d7h"), &["--expires", "31h"], "1d7h", "1d7h"),
        field("retry", json!({"steps": ["17s"]}), &["--retry", "17s"], "17s", "steps:17s"),
        field("jitter", json!(0.37), &["--jitter", "0.37"], "0.37", "0.37"),
        field("max_attempts", json!(43), &["--max-attempts", "43"], "43", "43"),
        field("max_age", json!("3d7h"), &["--max-age", "79h"], "3d7h", "3d7h"),
        field("max_crashes", json!(41), &["--max-crashes", "41"], "41", "41"),
        field("when_exhausted", json!({"move": "dead7"}), &["--when-exhausted", "move:dead7"], "dead7", "dead7"),
        field("target", json!({"queue": "mail7"}), &["--target", "{\"queue\":\"mail7\"}"], "mail7", "mail7"),
        field("trace", json!(TRACE), &["--trace", TRACE], TRACE, TRACE),
        field("meta", json!({"tenant": "tenant7"}), &["--meta", "tenant=tenant7"], "tenant7", "tenant=tenant7"),
        field("then", json!([json(THEN)]), &["--then", THEN], "then7", "then7"),
        field("otherwise", json!([json(OTHERWISE)]), &["--otherwise", OTHERWISE], "otherwise7", "otherwise7"),
    ]
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The names of the fields that a type reads.
fn declared<'a, T: serde::Deserialize<'a>>() -> Vec<String> {
    let error = serde_json::from_str::<T>(r#"{"?":0}"#).err().unwrap().to_string();
    let known = error.split_once("expected one of ").unwrap_or_else(|| panic!("{error}")).1;
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn is_shown(field: &&Field) -> bool {
    !NOT_SHOWN.contains(&field.name)
}

/// Asserts that a job shows each field.
fn assert_shown(job: &Value, but: &[&str], place: &str) {
    for field in fields().iter().filter(is_shown).filter(|field| !but.contains(&field.name)) {
        assert_eq!(job[field.name], field.example, "{}, {place}: {job}", field.name);
    }
}

fn options(but: &[&str]) -> Vec<&'static str> {
    fields().iter().filter(|field| !but.contains(&field.name)).flat_map(|field| field.option).copied().collect()
}

#[test]
fn every_field_has_an_example_here() {
    let names: Vec<String> = fields().iter().map(|field| field.name.to_owned()).collect();
    assert_eq!(declared::<Push<'_>>(), names);
    let patched = declared::<Patch<'_>>();
    assert!(patched.iter().all(|name| names.contains(name)), "{patched:?}");
}

#[test]
fn every_field_is_given_and_shown_by_the_command_line() {
    let place = Place::new();
    place.push(&["1"]);
    place.ok(&["queues", "set", "orders7", "--target", "{\"queue\":\"other\"}"]);
    let id = place.push(&options(&[]));
    assert_shown(&place.job(&id), &[], "get --json");
    let text = place.ok(&["get", &id]);
    for field in fields().iter().filter(is_shown) {
        assert!(text.contains(field.by_get), "{}: {text}", field.name);
    }
    let exported = place.ok(&["export"]);
    let line = exported.lines().find(|line| line.contains("origin7")).unwrap_or_else(|| panic!("{exported}"));
    assert_shown(&serde_json::from_str::<Value>(line).unwrap()["job"], &[], "export");

    let other = Place::new();
    std::fs::write(other.path("jobs"), &exported).unwrap();
    other.ok(&["import", "--in", "jobs"]);
    let found = other.json(&["list", "--queue", "orders7"]);
    assert_shown(&found["jobs"][0], &[], "import");

    let schedule = [&["schedules", "set", "s", "{\"order\": 4711}", "--every", "1h"][..], &options(&NOT_OF_SCHEDULES)];
    let schedule = place.json(&schedule.concat());
    assert_shown(&schedule["schedule"]["job"], &["origin", "trace"], "schedules set");
}

#[test]
fn every_field_is_in_the_api_and_on_the_page_of_a_job() {
    let server = Server::start();
    let document = server.get("/openapi.json").ok();
    let schemas = &document["components"]["schemas"];
    for field in fields() {
        assert!(schemas["Push"]["properties"].get(field.name).is_some(), "{} of a push", field.name);
        if is_shown(&&field) {
            assert!(schemas["Job"]["properties"].get(field.name).is_some(), "{} of a job", field.name);
        }
    }
    let all = fields().into_iter().filter(|field| is_shown(&field) || ["delay", "on_conflict"].contains(&field.name));
    let push: Map<String, Value> = all.map(|field| (field.name.to_owned(), field.example)).collect();
    server.put("/v1/queues/orders7", &json!({"target": {"queue": "other"}})).ok();
    let pushed = server.post("/v1/jobs", &push.into()).expect(201);
    let path = format!("/v1/jobs/{}", pushed["id"].as_str().unwrap());
    assert_shown(&server.get(&path).ok(), &[], "GET");
    let page = server.get(path.trim_start_matches("/v1")).body.replace("&quot;", "\"");
    for field in fields().iter().filter(is_shown) {
        assert!(page.contains(field.on_page), "{}: {page}", field.name);
    }
}

#[test]
fn every_field_is_in_a_row_of_the_inbox() {
    for field in fields() {
        let options = json!({field.name: field.example}).to_string();
        let mut job = NewJob::new(*b"1");
        match serde_json::from_str::<Push<'_>>(&options).unwrap().apply_options(&mut job) {
            Ok(()) => assert_ne!(job, NewJob::new(*b"1"), "{} of the column `options`", field.name),
            Err(error) => assert!(error.to_string().contains("the row has a column for it"), "{error}"),
        }
    }
}

#[tokio::test]
async fn every_field_has_a_method_of_the_library() {
    let client = Client::memory().await.unwrap();
    let push = || client.push_raw("ship7", *br#"{"order": 4711}"#).queue("orders7").priority(77).key("key7");
    let push = || push().on_conflict(OnConflict::Reject).key_until(KeyUntil::Started).origin("origin7").tag("tag7");
    let push = || push().lease(Duration::from_secs(97)).expires(Duration::from_secs(31 * 3_600)).trace(TRACE);
    let push = || push().meta("tenant", "tenant7");
    let next = |kind, payload: &[u8]| client.push_raw(kind, payload).queue("next7");
    let push = || push().then(next("then7", b"1")).otherwise(next("otherwise7", b"2"));
    let push =
        || push().backoff(Backoff::steps([Duration::from_secs(17)])).jitter(0.37).max_attempts(43).max_crashes(41);
    let push = || push().max_age(Duration::from_secs(79 * 3_600)).target(Target::Queue("mail7".into()));
    let push = || push().when_exhausted(WhenExhausted::Move("dead7".into()));
    let delayed = serde_json::to_value(Push::from(&push().after(Duration::from_secs(7_200)).build().unwrap())).unwrap();
    assert_eq!(delayed["delay_ms"], json!(7_200_000));
    assert_eq!(delayed["on_conflict"], json!("reject"));
    assert_shown(&delayed, &[], "the library");
    let dated = push().at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000)).build().unwrap();
    assert_eq!(serde_json::to_value(Push::from(&dated)).unwrap()["due_at_ms"], json!(1_900_000_000_000_u64));
}

#[derive(serde::Serialize, serde::Deserialize, duetime::Job)]
#[job(
    kind = "ship7",
    queue = "orders7",
    priority = 77,
    unique = "order",
    tags = "order",
    lease = "97s",
    expires = "31h"
)]
#[job(
    retry = "17s",
    jitter = 0.37,
    max_attempts = 43,
    max_age = "79h",
    max_crashes = 41,
    when_exhausted = "move:dead7"
)]
struct Ship {
    order: u64,
}

#[tokio::test]
async fn every_field_of_a_type_is_a_setting_of_its_attribute() {
    let client = Client::memory().await.unwrap();
    let job = serde_json::to_value(Push::from(&client.push(Ship { order: 4711 }).build().unwrap())).unwrap();
    for field in fields().iter().filter(|field| !NOT_OF_TYPES.contains(&field.name)) {
        let expected = match field.name {
            "key" => json!("ship7:4711"),
            "tags" => json!(["order:4711"]),
            _ => field.example.clone(),
        };
        assert_eq!(job[field.name], expected, "{}: {job}", field.name);
    }
}
