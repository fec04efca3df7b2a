//! The bodies as documented, and every refusal.

mod settings;

use super::*;
use crate::ports::Lease;
use crate::request::{self, JobRef, Outcome, PushOutcome, Query, ReserveRequest, Settlement};
use crate::rules::{Failure, Release};
use crate::{
    AttemptError, Due, Error, Job, JobId, KeyUntil, NewJob, OnConflict, Receipt, Retry, Stage, State, WhenExhausted,
};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::Arc;

const NOW: u64 = 1_795_168_800_250;

fn id() -> JobId {
    JobId::new(117_111_681_613_568).unwrap()
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn print<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap()
}

fn refused<'a, T: Deserialize<'a> + Debug>(text: &'a str, why: &str) {
    let error = serde_json::from_str::<T>(text).expect_err(text).to_string();
    assert!(error.contains(why), "{text}: {error}");
}

fn pushed(text: &str) -> Result<NewJob, Error> {
    read::<Object<Push<'_>>>(text).0.into_job(&Arc::from("orders"))
}

const PUSH: &str = r#"{"kind": "order.cancel", "payload": {"order": "202010250100"}, "delay": "30m", "priority": 1024,
 "key": "cancel-202010250100", "on_conflict": "keep", "key_until": "finished", "tags": ["order:202010250100"],
 "lease": "60s", "max_attempts": 16, "retry": {"exponential": {"first": "1s", "factor": 2, "max": "1h", "jitter": 0.1}}, "expires": "24h"}"#;

fn push() -> NewJob {
    NewJob {
        queue: Arc::from("orders"),
        kind: Arc::from("order.cancel"),
        due: Due::After(Span(30 * 60_000)),
        key: Some(Arc::from("cancel-202010250100")),
        tags: vec![Arc::from("order:202010250100")],
        lease: Some(Span(60_000)),
        options: Retry {
            backoff: Some(Backoff::Exponential(Exponential {
                first: Span(1_000),
                factor: 2.0,
                max: Span(3_600_000),
                jitter: 0.1,
            })),
            max_attempts: Some(16),
            ..Retry::default()
        }
        .into(),
        expires: Some(Span(24 * 3_600_000)),
        ..NewJob::new(*br#"{"order": "202010250100"}"#)
    }
}

fn job() -> Job {
    Job {
        due_at: Timestamp(NOW),
        first_due_at: Timestamp(NOW - 1),
        stage: Stage::Failed,
        attempt: 2,
        crashes: 1,
        key_until: KeyUntil::Started,
        message: Some(Arc::from("no route\nto host")),
        errors: vec![
            AttemptError { attempt: 1, at: Timestamp(NOW), message: Arc::from("lease ended"), crashed: true },
            AttemptError { attempt: 2, at: Timestamp(NOW), message: Arc::from("no route"), crashed: false },
        ],
        result: Some(Arc::from(*b"\xff\x00")),
        epoch: 9,
        cancel_asked: true,
        started_at: Some(Timestamp(NOW)),
        finished_at: Some(Timestamp(NOW)),
        ..push().accept(id(), NOW, 100).unwrap()
    }
}

#[test]
fn the_documented_push_reads() {
    assert_eq!(pushed(PUSH).unwrap(), push());
    let bare = pushed(r#"{"payload": 1.0}"#).unwrap();
    assert_eq!(bare, NewJob { queue: Arc::from("orders"), ..NewJob::new(*b"1.0") });
}

#[test]
fn a_push_reads_back() {
    let all = NewJob {
        on_conflict: OnConflict::Reject,
        key_until: KeyUntil::Started,
        due: Due::At(Timestamp(NOW)),
        options: Retry {
            backoff: Some(Backoff::None),
            jitter: Some(0.0),
            max_attempts: Some(0),
            max_age: Some(Span(1)),
            max_crashes: Some(2),
            when_exhausted: Some(WhenExhausted::Move(Arc::from("dead"))),
        }
        .into(),
        ..push()
    };
    for job in [push(), all, NewJob { queue: Arc::from("orders"), ..NewJob::new(*b"\xff") }] {
        assert_eq!(pushed(&print(&Push::from(&job))).unwrap(), job);
    }
}

#[test]
fn payloads_come_back_byte_for_byte() {
    for payload in ["null", "1.0", "123456789012345678901234567890", r#"{ "b":1, "a":[ 1e5,"\u00fc" ] }"#] {
        let job = pushed(&format!("{{\"payload\": {payload} }}")).unwrap();
        assert_eq!(job.payload[..], *payload.as_bytes());
        assert!(print(&Push::from(&job)).contains(payload));
    }
    assert_eq!(pushed(r#"{"payload_base64":"/w=="}"#).unwrap().payload[..], *b"\xff");
}

#[test]
fn when_a_job_is_due_is_said_once() {
    for (field, due) in [
        (r#""delay":"30s""#, Due::After(Span(30_000))),
        (r#""delay_ms":250"#, Due::After(Span(250))),
        (r#""due_at":"2026-11-20T10:00:00.250Z""#, Due::At(Timestamp(NOW))),
        (r#""due_at_ms":1795168800250"#, Due::At(Timestamp(NOW))),
        (r#""delay":null"#, Due::Now),
    ] {
        assert_eq!(pushed(&format!("{{\"payload\":1,{field}}}")).unwrap().due, due);
    }
    let error = pushed(r#"{"payload":1,"delay_ms":1,"due_at_ms":1795168800250}"#).unwrap_err().to_string();
    assert!(error.contains("at most one of `delay`") && error.contains("`delay_ms` and `due_at_ms`"), "{error}");
}

#[test]
fn a_wrong_push_is_refused() {
    type P<'a> = Object<Push<'a>>;
    refused::<P<'_>>(
        r#"{"payload":1,"delai":"1s"}"#,
        "unknown field `delai`, expected one of `queue`, `kind`, `payload`",
    );
    refused::<P<'_>>(r#"{"payload":1,"delay":30}"#, "expected a duration such as");
    refused::<P<'_>>(r#"{"payload":1,"delay_ms":"30s"}"#, "expected u64");
    refused::<P<'_>>(r#"{"payload":1,"delay_ms":-1}"#, "expected u64");
    refused::<P<'_>>(r#"{"payload":1,"priority":1.5}"#, "expected u32");
    refused::<P<'_>>(r#"{"payload":1,"key":7}"#, "expected a string");
    refused::<P<'_>>(r#"{"payload":1,"on_conflict":"merge"}"#, "expected one of `keep`, `replace`, `reject`");
    refused::<P<'_>>(r#"{"payload":1,"when_exhausted":{"move":1}}"#, "expected a string");
    refused::<P<'_>>(r#"{"payload":1,"payload":2}"#, "duplicate field `payload`");
    refused::<P<'_>>(r#"["order.cancel",{}]"#, "expected an object");
    refused::<P<'_>>(r#"{"payload":01}"#, "line 1 column 13");
    refused::<P<'_>>(r#"{"payload":"#, "EOF");
    for (text, got) in [("{}", "neither"), (r#"{"payload":null,"payload_base64":""}"#, "both")] {
        assert!(pushed(text).unwrap_err().to_string().ends_with(got));
    }
}

#[test]
fn the_documented_push_answer() {
    let mut job = job();
    (job.stage, job.due_at.0) = (Stage::Pending, NOW + 1);
    let shown = Pushed::new(&request::Pushed { job, outcome: PushOutcome::Created }, NOW);
    let text = r#"{"id":"117111681613568","queue":"orders","state":"scheduled","due_at":"2026-11-20T10:00:00.251Z","outcome":"created"}"#;
    assert_eq!(print(&shown), text);
    assert_eq!(read::<Answer<Pushed>>(text), Answer::Done(shown));
}

#[test]
fn a_job_is_shown_whole_and_reads_back() {
    let text = print(&JobBody::new(&job(), NOW));
    let golden = concat!(
        r#"{"id":"117111681613568","queue":"orders","kind":"order.cancel","payload":{"order": "202010250100"},"#,
        r#""state":"failed","due_at":"2026-11-20T10:00:00.250Z","first_due_at":"2026-11-20T10:00:00.249Z","#,
        r#""priority":1024,"attempt":2,"crashes":1,"#,
        r#""retry":{"exponential":{"first":"1s","factor":2.0,"max":"1h","jitter":0.1}},"max_attempts":16,"#,
        r#""lease":"1m","expires":"1d","key":"cancel-202010250100","key_until":"started","#,
        r#""tags":["order:202010250100"],"message":"no route\nto host","errors":["#,
        r#"{"attempt":1,"at":"2026-11-20T10:00:00.250Z","message":"lease ended","crashed":true},"#,
        r#"{"attempt":2,"at":"2026-11-20T10:00:00.250Z","message":"no route","crashed":false}],"#,
        r#""result_base64":"/wA=","version":1,"epoch":9,"cancel_requested":true,"#,
        r#""created_at":"2026-11-20T10:00:00.250Z","updated_at":"2026-11-20T10:00:00.250Z","#,
        r#""started_at":"2026-11-20T10:00:00.250Z","finished_at":"2026-11-20T10:00:00.250Z"}"#,
    );
    assert_eq!(text, golden);
    assert_eq!(Job::try_from(read::<JobBody<'_>>(&text)).unwrap(), job());
    for stage in [Stage::Pending, Stage::Succeeded, Stage::Failed, Stage::Cancelled] {
        let bare = Job { stage, ..NewJob::new(*b"null").accept(id(), NOW, 100).unwrap() };
        assert_eq!(Job::try_from(read::<JobBody<'_>>(&print(&JobBody::new(&bare, NOW)))).unwrap(), bare);
    }
    let running = Job { stage: Stage::Pending, lease_until: Some(Timestamp(NOW)), ..job() };
    let text = print(&JobBody::new(&running, NOW));
    assert!(text.contains(r#""state":"running""#));
    assert_eq!(Job::try_from(read::<JobBody<'_>>(&text)).unwrap(), running);
}

#[test]
fn a_page_ends_with_null() {
    let listed = request::Listed { jobs: vec![job()], next_cursor: None };
    let text = print(&Page::new(&listed, NOW));
    assert!(text.ends_with(r#"],"next_cursor":null}"#));
    assert_eq!(request::Listed::try_from(read::<Page<'_>>(&text)).unwrap().jobs, [job()]);
}

#[test]
fn the_documented_reserve_reads() {
    let request = read::<Reserve>(r#"{"limit": 10, "lease": "60s", "wait": "20s"}"#);
    let request = request.into_request(Some(Arc::from("orders"))).unwrap();
    assert!(matches!(&request.from, request::Source::Queues(queues) if **queues == [Arc::from("orders")]));
    assert_eq!((request.limit, request.lease, request.wait), (10, Some(Span(60_000)), Span(20_000)));
    let back = read::<Reserve>(&print(&Reserve::from(&request))).into_request(None).unwrap();
    assert_eq!(format!("{back:?}"), format!("{request:?}"));
    let bare = Reserve::default().into_request(Some(Arc::from("orders"))).unwrap();
    assert_eq!((bare.limit, bare.lease, bare.wait), (1, None, Span(0)));
}

#[test]
fn a_reserve_says_once_from_where() {
    let target = JobRef { id: id(), version: Some(3) };
    let named = r#"{"jobs":[{"id":"117111681613568","version":3}],"request_id":"r"}"#;
    for queue in [None, Some(Arc::from("orders"))] {
        let request: ReserveRequest = read::<Reserve>(named).into_request(queue).unwrap();
        assert!(matches!(&request.from, request::Source::Jobs(jobs) if **jobs == [target]));
        assert_eq!((request.limit, request.request_id.as_deref()), (1, Some("r")));
    }
    for (text, queue, got) in [
        ("{}", None, "neither"),
        (r#"{"queues":["a"],"jobs":[]}"#, None, "both"),
        (r#"{"queues":["a"]}"#, Some(Arc::from("a")), "got `queues`"),
    ] {
        let error = read::<Reserve>(text).into_request(queue).unwrap_err().to_string();
        assert!(error.ends_with(got), "{error}");
    }
    refused::<Reserve>(r#"{"jobs":[{"id":1}]}"#, "string");
    refused::<Reserve>(r#"{"jobs":[{"id":"0"}]}"#, "a decimal number from 1 to 2^53 - 1");
    refused::<Reserve>(r#"{"jobs":["7"]}"#, "expected an object");
    refused::<Reserve>(r#"{"max":1}"#, "unknown field `max`");
    refused::<Reserve>(r#"{"limit":-1}"#, "expected usize");
}

#[test]
fn a_take_names_a_window_or_jobs() {
    let text = r#"{"due_from":"2026-11-20T10:00:00.250Z","due_to":"2026-11-20T10:00:00.250Z"}"#;
    let take = read::<Take>(text).into_request(Some(Arc::from("q"))).unwrap();
    assert_eq!((take.limit, take.due_from, take.due_to), (10, Some(Timestamp(NOW)), Some(Timestamp(NOW))));
    let back = read::<Take>(&print(&Take::from(&take))).into_request(None).unwrap();
    assert_eq!(format!("{back:?}"), format!("{take:?}"));
    let both = read::<Take>(r#"{"due_to":"2026-11-20T10:00:00Z","jobs":[]}"#);
    assert!(both.into_request(Some(Arc::from("q"))).is_err());
    refused::<Take>(r#"{"wait":"1s"}"#, "unknown field `wait`");
}

#[test]
fn a_lease_is_shown_as_documented_and_reads_back() {
    let job = Job {
        lease_until: Some(Timestamp(NOW + 60_000)),
        crashes: 0,
        first_due_at: Timestamp(NOW),
        stage: Stage::Pending,
        ..job()
    };
    let reservation =
        request::Reservation { leases: vec![Lease { job, length: Span(60_000) }], ..request::Reservation::default() };
    let text = print(&Reservation::new(&reservation, Vec::new()));
    let golden = concat!(
        r#"{"leases":[{"receipt":"117111681613568.9","id":"117111681613568","queue":"orders","#,
        r#""kind":"order.cancel","payload":{"order": "202010250100"},"attempt":2,"#,
        r#""due_at":"2026-11-20T10:00:00.250Z","lease_until":"2026-11-20T10:01:00.250Z","lease":"1m","#,
        r#""key":"cancel-202010250100","tags":["order:202010250100"],"version":1,"#,
        r#""created_at":"2026-11-20T10:00:00.250Z","started_at":"2026-11-20T10:00:00.250Z"}],"next_due_at":null}"#,
    );
    assert_eq!(text, golden);
    let lease = Lease::try_from(read::<Reservation<'_>>(&text).leases.remove(0)).unwrap();
    assert_eq!((lease.job.receipt(), lease.length), (Receipt { id: id(), epoch: 9 }, Span(60_000)));
    assert_eq!((lease.job.payload.clone(), lease.job.state(NOW)), (push().payload, State::Running));

    let taken = Taken::new(&reservation, Vec::new(), NOW);
    assert!(print(&taken).ends_with(r#""next_due_at":null}"#));
}

#[test]
fn outcomes_read_as_documented() {
    let texts = [
        r#"{"receipt":"7.9","complete":{"result":1.0}}"#,
        r#"{"receipt":"7.9","complete":{}}"#,
        r#"{"receipt":"7.9","complete":{"result_base64":"/w=="}}"#,
        r#"{"receipt":"7.9","complete":{"then":[{"kind":"next","payload":1}]}}"#,
        r#"{"receipt":"7.9","fail":{"message":"no","final":true}}"#,
        r#"{"receipt":"7.9","fail":{"message":"no","retry_after":"30s"}}"#,
        r#"{"receipt":"7.9","release":{}}"#,
        r#"{"receipt":"7.9","release":{"delay":"30s","priority":0}}"#,
        r#"{"receipt":"7.9","park":{}}"#,
        r#"{"receipt":"7.9","park":{"message":"no stamps","priority":7}}"#,
    ];
    for text in texts {
        let (receipt, outcome): (Receipt, Outcome) = read::<Settle<'_>>(text).try_into().unwrap();
        assert_eq!(print(&Settle::new(receipt, &outcome)), text);
    }
    let failure = Outcome::Fail(read::<Failure>("{}"));
    assert!(matches!(failure, Outcome::Fail(failure) if failure == Failure::default()));
    let at_once = read::<Settle<'_>>(r#"{"receipt":"7.9","release":{"delay":null,"priority":null}}"#);
    let (_, at_once) = <(Receipt, Outcome)>::try_from(at_once).unwrap();
    assert!(matches!(at_once, Outcome::Release(release) if release == Release::default()));
    for text in [
        r#"{"receipt":"7.9"}"#,
        r#"{"receipt":"7.9","complete":{},"fail":{}}"#,
        r#"{"receipt":"7.9","release":{},"park":{}}"#,
    ] {
        assert!(<(Receipt, Outcome)>::try_from(read::<Settle<'_>>(text)).is_err());
    }
    refused::<Settle<'_>>(r#"{"receipt":"7","complete":{}}"#, "`receipt` must be a receipt such as");
    refused::<Settle<'_>>(r#"{"receipt":"7.9","complete":[]}"#, "expected an object");
    refused::<Settle<'_>>(r#"{"receipt":"7.9","done":{}}"#, "unknown field `done`");
    refused::<Failure>(r#"{"error":"no"}"#, "unknown field `error`");
    refused::<Extend>(r#"{"lease":60}"#, "expected a duration");
    refused::<Nothing>(r#"{"x":1}"#, "unknown field `x`");
}

#[test]
fn settled_says_so_where_it_is_not_recorded() {
    let settlement = Settlement { receipt: Receipt { id: id(), epoch: 9 }, state: State::Succeeded, recorded: true };
    let text = r#"{"receipt":"117111681613568.9","state":"succeeded"}"#;
    assert_eq!(print(&settlement), text);
    assert_eq!(read::<Settlement>(text), settlement);
    let text = print(&Settlement { recorded: false, ..settlement });
    assert!(text.ends_with(r#","recorded":false}"#));
    assert!(!read::<Settlement>(&text).recorded);
}

#[test]
fn a_selection_reads_from_a_body_and_from_a_query_string() {
    let body = r#"{"queue":"a/b","state":["failed","cancelled"],"tag":"t &=ü","key":" k","kind":"k","due_from":"2026-11-20T10:00:00.250Z","due_to":"2026-11-20T10:00:00.251Z"}"#;
    let query = read::<Query>(body);
    assert_eq!(print(&query), body);
    assert_eq!(
        (&query.state.states[..], query.due_to),
        (&[State::Failed, State::Cancelled][..], Some(Timestamp(NOW + 1)))
    );
    let find = Find { query, cursor: Some("c+/=".to_owned()), limit: Some(7) };
    let back: Find = find.to_string().parse().unwrap();
    assert_eq!(format!("{back:?}"), format!("{find:?}"));
    assert_eq!("".parse::<Find>().unwrap().to_string(), "");
    assert_eq!("state=failed,ready".parse::<Find>().unwrap().query.state.states, [State::Failed, State::Ready]);
    assert!("state=retrying".parse::<Find>().unwrap().query.state.retrying);
    assert!(read::<Query>(r#"{"state":"retrying"}"#).state.retrying);
    assert_eq!(path_segment("a/b+c;d.$_()"), "a%2Fb%2Bc%3Bd.%24_%28%29");
}

#[test]
fn a_wrong_selection_is_refused() {
    for (text, why) in [
        ("queue=a&stat=failed", "`stat` is unknown"),
        ("state=done", "scheduled, ready, running"),
        ("state=retrying,failed", "`retrying` alone"),
        ("state=dead", "got \"dead\", which is `failed` here"),
        ("queue=a&queue=b", "given once"),
        ("limit=ten", "a number"),
        ("due_to=1795168800250", "an instant such as"),
    ] {
        let error = text.parse::<Find>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    refused::<Query>(r#"{"state":"done"}"#, "scheduled, ready, running");
    refused::<Query>(r#"{"state":"Dead"}"#, "got \"Dead\", which is `failed` here");
    refused::<Query>(r#"{"state":["failed","retrying"]}"#, "`retrying` alone");
    refused::<Query>(r#"{"state":1}"#, "a state, or an array of states");
    refused::<Query>(r#"{"limit":1}"#, "unknown field `limit`");
}

#[test]
fn a_patch_reads_back() {
    let patch = request::Patch { due: Some(Due::Now), priority: Some(0), payload: Some(Arc::from(*b"\xff")) };
    let text = print(&Patch::from(&patch));
    assert_eq!(text, r#"{"delay_ms":0,"priority":0,"payload_base64":"/w=="}"#);
    let back = request::Patch::try_from(read::<Patch<'_>>(&text)).unwrap();
    assert_eq!((back.due, back.priority, back.payload), (Some(Due::After(Span(0))), Some(0), patch.payload));
    refused::<Patch<'_>>(r#"{"tags":[]}"#, "unknown field `tags`");
}

#[test]
fn every_error_reads_back_from_its_problem() {
    let receipt = Receipt { id: id(), epoch: 9 };
    let errors = [
        Error::invalid("limit", "between 1 and 1000", 0),
        Error::NotFound(id()),
        Error::KeyConflict { queue: Arc::from("q"), key: Arc::from("k "), holder: id() },
        Error::VersionMismatch { id: id(), current: 2 },
        Error::Changed { kind: "schedule", name: Arc::from("nightly"), current: 2 },
        Error::Changed { kind: "queue", name: Arc::from("q"), current: 0 },
        Error::LeaseLost(receipt),
        Error::Running(id()),
        Error::Finished { id: id(), state: State::Failed },
        Error::NotDue(id()),
        Error::HeldBack(id()),
        Error::Live(id()),
        Error::QueueFull { queue: Arc::from("q"), max_waiting: 7 },
        Error::Full("no space".to_owned()),
        Error::Unavailable("locked".to_owned()),
        Error::Damaged("malformed".to_owned()),
        Error::Stopping,
        Error::Backlog(7),
    ];
    for error in errors {
        let problem = Problem::of(&error, 400, "a title");
        let text = print(&problem);
        assert_eq!(read::<Problem>(&text).error(), Some(error));
        assert_eq!(read::<Answer<Settlement>>(&text), Answer::Problem(Box::new(problem)));
    }
    let problem = print(&Problem::of(&Error::invalid("limit", "between 1 and 1000", 0), 400, "Invalid request"));
    let golden = concat!(
        r#"{"type":"urn:duetime:invalid","title":"Invalid request","status":400,"#,
        r#""detail":"`limit` must be between 1 and 1000, got 0","code":"invalid","#,
        r#""field":"limit","expected":"between 1 and 1000","got":"0"}"#,
    );
    assert_eq!(problem, golden);
    assert_eq!(Problem::new("timeout", 408, "t", "d").error(), None);
}
