//! `push --file`.

use crate::cli::support::{Place, Ran, finish};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;

fn push(place: &Place, arguments: &[&str], lines: &str) -> Ran {
    finish(place.command(&[&["push", "--file", "-"], arguments].concat()), lines.as_bytes())
}

fn count(place: &Place, queue: &str) -> usize {
    place.json(&["list", "--queue", queue, "--limit", "5000"])["jobs"].as_array().unwrap().len()
}

#[test]
fn every_line_becomes_a_job() {
    let place = Place::new();
    let lines: String = (1..=2_500).map(|n| format!("{{\"queue\": \"q{}\", \"payload\": {n}}}\n", n % 2)).collect();
    fs::write(place.path("jobs.jsonl"), lines).unwrap();
    let ran = place.run(&["push", "--file", "jobs.jsonl", "--json"]);
    assert_eq!((ran.code, &*ran.err), (0, ""), "no bar in a pipe");
    assert_eq!(ran.out.trim(), r#"{"pushed":2500,"kept":0,"replaced":0,"repeated":0,"dropped":0,"refused":0}"#);
    assert_eq!((count(&place, "q0"), count(&place, "q1")), (1_250, 1_250));
}

#[test]
fn what_a_line_leaves_out_is_said_beside_it() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let place = Place::new();
    let ran = push(
        &place,
        &["--queue", "mine", "--trace", TRACE],
        "{\"payload\": {\"a\" : 1}}\r\n\n{\"payload\": 2, \"queue\": \"own\"}",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let jobs = place.json(&["list", "--queue", "mine"]);
    assert_eq!((&jobs["jobs"][0]["trace"], count(&place, "own")), (&TRACE.into(), 1));
}

#[test]
fn refused_lines_are_told_and_kept() {
    let place = Place::new();
    let lines = "{\"payload\": 1, \"key\": \"k\"}\n{\"payload\": 1, \"key\": \"k\"}\nnonsense\n{\"payload\": 1, \"delai\": 1}\n\
                 {\"payload\": 1, \"delay\": \"20 y\"}\n{\"payload\": 2, \"delay_ms\": 999999999999999}\n{\"payload\": 3}\n";
    let ran = push(&place, &["--rejects", "refused.jsonl"], lines);
    assert_eq!(ran.code, 65, "{ran:?}");
    assert!(
        ran.out
            .contains("2 jobs pushed, 1 kept and 0 replaced because of their key, 0 already pushed, 4 lines refused"),
        "{ran:?}"
    );
    let told: Vec<&str> = ran.err.lines().collect();
    assert_eq!(told.len(), 4, "{told:?}");
    for (line, begin) in
        told.iter().zip(["line 3: malformed_json: ", "line 4: invalid: ", "line 5: invalid: ", "line 6: invalid: "])
    {
        assert!(line.starts_with(begin), "{line}");
    }
    let refused = fs::read_to_string(place.path("refused.jsonl")).unwrap();
    assert_eq!(refused, lines.lines().skip(2).take(4).map(|line| format!("{line}\n")).collect::<String>());
    let ran = push(&place, &["--rejects", "refused.jsonl"], lines);
    assert!(ran.code == 1 && ran.err.contains("name a file that does not exist"), "{ran:?}");

    assert_eq!(push(&place, &[], "nonsense\n").code, 1, "none went");
    assert_eq!(place.run(&["push", "--file", "-", "payload"]).code, 2);
}

#[test]
fn a_file_is_pushed_once_unless_it_changes_or_has_another_origin() {
    let place = Place::new();
    let line = |n| format!("{{\"queue\": \"once\", \"delay\": \"1h\", \"payload\": {n}}}\n");
    let lines: String = (1..=1_500).map(line).collect();
    let pushed = |arguments: &[&str]| {
        let ran = place.run(&[&["push", "--file", "jobs.jsonl"], arguments].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran
    };
    // As much as a broken connection has let through.
    fs::write(place.path("jobs.jsonl"), &lines).unwrap();
    assert!(pushed(&[]).out.starts_with("1500 jobs pushed"));
    let again = pushed(&[]);
    assert!(again.out.starts_with("0 jobs pushed") && again.out.contains("1500 already pushed"), "{again:?}");
    assert!(again.err.contains("name an --origin that is new"), "{again:?}");
    assert_eq!(count(&place, "once"), 1_500);
    assert!(pushed(&["--origin", "monday"]).out.starts_with("1500 jobs pushed"));
    assert!(pushed(&["--origin", "monday"]).out.starts_with("0 jobs pushed"));
    // Two files may begin with the same lines.
    fs::write(place.path("jobs.jsonl"), lines + &line(1)).unwrap();
    assert!(pushed(&[]).out.starts_with("1501 jobs pushed"));
    assert!(pushed(&["--queue", "other"]).out.starts_with("0 jobs pushed"), "each line names its queue");
    // Standard input has no digest.
    for jobs in [1, 2] {
        assert_eq!(push(&place, &["--queue", "input"], "{\"payload\": 4}\n").code, 0);
        assert_eq!(count(&place, "input"), jobs);
    }
}

/// The same lines under an origin that was used for others.
#[test]
fn an_origin_of_other_lines_is_refused_line_by_line() {
    let place = Place::new();
    let origin = ["--origin", "o"];
    assert_eq!(push(&place, &origin, "{\"payload\": 1}\n{\"payload\": 2}\n").code, 0);
    let ran = push(&place, &origin, "{\"payload\": 1}\n{\"payload\": 3}\n");
    assert_eq!(ran.code, 65, "{ran:?}");
    assert!(ran.err.contains("line 2: origin_reused: ") && ran.err.contains("with another payload"), "{ran:?}");
}

/// A server that takes the first batch, and breaks off at the second.
#[test]
fn a_broken_connection_tells_how_far_it_got() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        for batch in 0..2 {
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            if batch == 1 {
                return;
            }
            let count = serde_json::from_slice::<serde_json::Value>(&body).unwrap().as_array().unwrap().len();
            let one = r#"{"id":"117111681613568","queue":"default","state":"ready","due_at":"2026-11-20T10:00:00.250Z","outcome":"created"}"#;
            let answer = format!("[{}]", vec![one; count].join(","));
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
            write!(stream, "{head}: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    });
    let place = Place::new();
    let lines = "{\"payload\": 1}\n".repeat(2_500);
    let server = format!("http://{address}");
    let ran = finish(place.bare(&["push", "--file", "-", "--server", &server]), lines.as_bytes());
    served.join().unwrap();
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!(ran.out.starts_with("1000 jobs pushed"), "{ran:?}");
    assert!(ran.err.contains("lines 1001-2000 may or may not have been pushed"), "{ran:?}");
}
