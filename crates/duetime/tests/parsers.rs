//! Bodies and query strings of the HTTP API, fuzzed from a corpus.

use duetime_core::api::{
    EventQuery, Find, JobBody, Lock, Object, Parameters, Patch, Progress, Push, QueueChanges, Reschedule, Reserve,
    ScheduleBody, Settle, Take, Timestamp, read,
};
use duetime_core::engine::Query;
use duetime_core::rules::Failure;
use duetime_core::testing::fuzz;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

fn print<'a, T: Deserialize<'a> + Serialize>(text: &'a str) -> Option<String> {
    let Object(body) = read::<Object<T>>(text).ok()?;
    Some(serde_json::to_string(&body).expect("a body has only string keys"))
}

#[test]
fn pushes() {
    fuzz("push", |text| {
        // A job that cannot be made is refused with an error, not with a panic.
        drop(read::<Object<Push<'_>>>(text).ok()?.0.into_job(&Arc::from("q")));
        print::<Push<'_>>(text)
    });
}

#[test]
fn bodies_about_jobs() {
    fuzz("patch", |text| print::<Patch<'_>>(text));
    fuzz("reserve", |text| print::<Reserve>(text));
    fuzz("take", |text| print::<Take>(text));
    fuzz("settle", |text| print::<Settle<'_>>(text));
    fuzz("fail", |text| print::<Failure>(text));
    fuzz("progress", |text| print::<Progress>(text));
    fuzz("selection", |text| print::<Query>(text));
    fuzz("reschedule", |text| {
        drop(read::<Object<Reschedule>>(text).ok()?.0.due());
        print::<Reschedule>(text)
    });
    fuzz("job", |text| print::<JobBody<'_>>(text));
}

#[test]
fn bodies_about_other_things() {
    fuzz("lock", |text| print::<Lock>(text));
    fuzz("schedule", |text| print::<ScheduleBody<'_>>(text));
    fuzz("settings", |text| print::<QueueChanges>(text));
}

#[test]
fn query_strings_and_instants() {
    fuzz("find", |text| text.parse::<Find>().ok().map(|find| find.to_string()));
    let all = ["owner", "fence", "cursor", "limit", "queue", "span"];
    fuzz("parameters", |text| Parameters::read(text, &all).ok().map(|parameters| parameters.to_string()));
    fuzz("events", |text| text.parse::<EventQuery>().ok().map(|query| query.to_string()));
    fuzz("instant", |text| text.parse::<Timestamp>().ok().map(|instant| instant.to_string()));
}
