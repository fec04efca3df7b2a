//! `work`: once, for a time, and while another process holds the store.

use crate::cli::support::{Place, pid, until, wait};
use nix::sys::signal::{Signal, kill};
use std::time::{Duration, Instant};

#[test]
fn once_runs_all_that_is_due() {
    let place = Place::new();
    for n in 0..20 {
        place.push(&[&n.to_string()]);
    }
    let later = place.push(&["--delay", "1h", "later"]);
    let out = place.ok(&["work", "default", "--once", "--concurrency", "4", "--", "sh", "-c", "echo $(cat)"]);
    let mut ran: Vec<u32> = out.lines().map(|line| line.parse().unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..20).collect::<Vec<_>>());
    assert_eq!(place.job(&later)["state"], "scheduled");
    assert_eq!(place.ok(&["work", "default", "--once", "--", "cat"]), "");
}

#[test]
fn for_a_span_it_waits_for_jobs() {
    let place = Place::new();
    let id = place.push(&["--delay", "1s", "x"]);
    let begin = Instant::now();
    let out = place.ok(&["work", "default", "--for", "3s", "--", "cat"]);
    assert_eq!(out, "x");
    assert!(begin.elapsed() >= Duration::from_secs(3));
    assert_eq!(place.job(&id)["state"], "succeeded");
}

#[test]
fn a_held_store_is_refused_with_its_holder() {
    let place = Place::new();
    place.push(&["--queue", "other", "x"]);
    let holder = place.command(&["work", "default", "--", "cat"]).spawn().unwrap();
    let ran = until("the store is held", || {
        let ran = place.run(&["list"]);
        ran.err.contains(&format!("is open in process {}", holder.id())).then_some(ran)
    });
    assert_eq!((ran.code, &*ran.out), (75, ""), "{ran:?}");

    let begin = Instant::now();
    let ran = place.run(&["work", "other", "--once", "--wait", "300ms", "--", "cat"]);
    assert!(ran.code == 75 && ran.err.contains("is open in process"), "{ran:?}");
    assert!(begin.elapsed() >= Duration::from_millis(300));

    let waiting = place.command(&["work", "other", "--once", "--wait", "60s", "--", "true"]).spawn().unwrap();
    kill(pid(&holder), Signal::SIGTERM).unwrap();
    assert!(wait(holder).success());
    assert!(wait(waiting).success(), "it gets the store once that is free");
    assert_eq!(place.json(&["list"])["jobs"][0]["state"], "succeeded");
}

#[test]
fn no_server_is_a_matter_for_later() {
    let place = Place::new();
    for time in [&["--once"][..], &["--for", "200ms"]] {
        let arguments = [&["work", "default", "--server", "http://127.0.0.1:1"], time, &["--", "cat"]].concat();
        let ran = crate::cli::support::finish(place.bare(&arguments), b"");
        assert!(ran.code == 75 && ran.err.contains("cannot connect"), "{ran:?}");
    }
}
