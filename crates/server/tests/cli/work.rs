//! `work`: the input of a command, and the meaning of its exit.

use crate::cli::support::{Place, finish};
use std::process::Stdio;

#[test]
fn a_command_is_given_payload_and_environment() {
    let place = Place::new();
    let arguments = ["--kind", "greet", "--tag", "a", "--tag", "b c", "--key", "k", "--meta", "tenant=7", "hello"];
    let id = place.push(&arguments);
    let script = r#"cat; printf '|%s' "$DUETIME_ID" "$DUETIME_QUEUE" "$DUETIME_KIND" "$DUETIME_ATTEMPT" "$DUETIME_TAGS" \
        "$DUETIME_KEY" "$DUETIME_RECEIPT" "$DUETIME_EPOCH" "$DUETIME_META" "$DUETIME_DUE_AT" "$DUETIME_DUE_AT_MS""#;
    let out = place.ok(&["work", "default", "--once", "--", "sh", "-c", script]);
    let job = place.job(&id);
    let epoch = job["epoch"].to_string();
    let expected = format!("hello|{id}|default|greet|1|a\nb c|k|{id}.{epoch}|{epoch}|{{\"tenant\":\"7\"}}|");
    assert!(out.starts_with(&expected), "{out} is not {expected}");
    assert!(out.contains(job["due_at"].as_str().unwrap()));
    assert_eq!(job["state"], "succeeded");
}

#[test]
fn a_command_is_given_the_job_before_it() {
    let place = Place::new();
    let first = place.push(&["first", "--then", r#"{"queue": "next", "payload": "second"}"#]);
    assert_eq!(place.ok(&["work", "default", "--once", "--", "sh", "-c", "printf '%s.' \"$DUETIME_PREVIOUS\""]), ".");
    let out = place.ok(&["work", "next", "--once", "--", "sh", "-c", "cat; printf '%s' \"$DUETIME_PREVIOUS\""]);
    assert_eq!(out, format!("\"second\"{{\"id\":\"{first}\",\"queue\":\"default\",\"state\":\"succeeded\"}}"));
}

#[test]
fn a_command_is_given_the_trace_of_its_job() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let place = Place::new();
    place.push(&["--trace", TRACE, "x"]);
    place.push(&["x"]);
    let mut command = place.command(&["work", "default", "--once", "--", "sh", "-c", "echo \"trace=$TRACEPARENT\""]);
    command.env("TRACEPARENT", TRACE.replace("4bf9", "1111"));
    let ran = finish(command, b"");
    assert_eq!((ran.code, &*ran.out), (0, &*format!("trace={TRACE}\ntrace=\n")), "the worker's own is not the job's");
    let mut command = place.command(&["push", "--json", "x"]);
    command.env("TRACEPARENT", TRACE);
    let ran = finish(command, b"");
    let pushed: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(place.job(pushed["id"].as_str().unwrap())["trace"], TRACE);
}

#[test]
fn exit_codes_decide() {
    let place = Place::new();
    let [ok, bad, again, killed] = ["ok", "bad", "again", "killed"].map(|kind| place.push(&["--kind", kind, "x"]));
    let script = "case $DUETIME_KIND in ok) exit 0;; bad) echo broken >&2; exit 65;; \
                  again) echo 'not yet' >&2; exit 7;; killed) kill -SEGV $$;; esac";
    let ran = place.run(&["work", "default", "--once", "--json", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&1.into(), &3.into()));

    assert_eq!(place.job(&ok)["state"], "succeeded");
    let bad = place.job(&bad);
    assert_eq!((&bad["state"], &bad["message"]), (&"failed".into(), &"exit status 65: broken".into()));
    let again = place.job(&again);
    assert_eq!((&again["state"], &again["message"]), (&"scheduled".into(), &"exit status 7: not yet".into()));
    let killed = place.job(&killed);
    assert_eq!(killed["state"], "scheduled");
    assert!(killed["message"].as_str().unwrap().starts_with("killed by SIGSEGV"), "{killed}");
}

#[test]
fn a_queue_that_nobody_has_used_is_named() {
    let place = Place::new();
    place.push(&["--queue", "mail", "x"]);
    let ran = place.run(&["work", "mial", "--once", "--", "true"]);
    assert_eq!((ran.code, &*ran.out), (0, ""), "{ran:?}");
    assert!(ran.err.contains("nobody has used the queue mial"), "{ran:?}");
    for _ in 0..2 {
        let ran = place.run(&["work", "mail", "--once", "--", "true"]);
        assert_eq!((ran.code, &*ran.err), (0, ""), "cron mails any output");
    }
}

#[test]
fn a_message_is_the_end_of_standard_error() {
    let place = Place::new();
    let id = place.push(&["x"]);
    let script = "head -c 100000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1";
    place.ok(&["work", "default", "--once", "--", "sh", "-c", script]);
    let job = place.job(&id);
    let message = job["message"].as_str().unwrap();
    assert!(message.starts_with("exit status 1: (") && message.ends_with("the end"), "{message}");
    assert!(message.len() < 5_000);
}

#[test]
fn input_that_is_not_read_harms_nothing() {
    let place = Place::new();
    let ran = finish(place.command(&["push", "-", "--json"]), &vec![b'x'; 1 << 20]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = place.run(&["work", "default", "--once", "--json", "--", "true"]);
    assert!(ran.out.contains("\"succeeded\":1"), "{ran:?}");
}

#[test]
fn a_gigabyte_of_output_harms_nothing() {
    let place = Place::new();
    for (script, options) in [
        ("head -c 1G /dev/zero", &[][..]),
        ("head -c 1G /dev/zero >&2", &[]),
        ("head -c 1G /dev/zero; exit 1", &["--result"]),
    ] {
        let id = place.push(&["--retry", "1h", "x"]);
        let arguments = [&["work", "default", "--once"], options, &["--", "sh", "-c", script]].concat();
        let mut command = place.command(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let status = crate::cli::support::wait(command.spawn().unwrap());
        assert!(status.success(), "{script}: {status}");
        let expected = if options.is_empty() { "succeeded" } else { "scheduled" };
        assert_eq!(place.job(&id)["state"], expected, "{script}");
    }
}

#[test]
fn standard_output_can_be_the_result() {
    let place = Place::new();
    let id = place.push(&["x"]);
    let out = place.ok(&["work", "default", "--once", "--result", "--", "echo", r#"{"sum": 42}"#]);
    assert_eq!(out, "");
    assert_eq!(place.job(&id)["result"]["sum"], 42);
    let id = place.push(&["x"]);
    place.ok(&["work", "default", "--once", "--result", "--", "head", "-c", "2M", "/dev/zero"]);
    let job = place.job(&id);
    assert!(job["message"].as_str().unwrap().contains("more than 1048576 bytes"), "{job}");
}

#[test]
fn a_command_that_is_not_there_fails_no_job() {
    let place = Place::new();
    let id = place.push(&["x"]);
    let ran = place.run(&["work", "default", "--", "no-such-command"]);
    assert!(ran.code == 127 && ran.err.contains("no-such-command was not found"), "{ran:?}");
    std::fs::write(place.path("plain"), "text").unwrap();
    let ran = place.run(&["work", "default", "--", "./plain"]);
    assert!(ran.code == 126 && ran.err.contains("not executable"), "{ran:?}");
    let job = place.job(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"ready".into(), &0.into()));
}

#[test]
fn a_command_that_goes_missing_fails_no_job() {
    let place = Place::new();
    let [a, b] = ["a", "b"].map(|name| place.push(&[name]));
    let script = place.path("once.sh");
    std::fs::write(&script, "#!/bin/sh\nrm \"$0\"\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = place.run(&["work", "default", "--once", "--", "./once.sh"]);
    assert!(ran.code == 127 && ran.err.contains("cannot be started"), "{ran:?}");
    let states = [a, b].map(|id| place.job(&id)["state"].as_str().unwrap().to_owned());
    assert_eq!(states, ["succeeded", "ready"]);
}
