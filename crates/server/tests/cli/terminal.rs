//! Colours and bars: on a terminal, and nowhere else.

use crate::cli::support::{Place, Ran, finish};
use std::process::Command;

/// Runs a command on its own terminal.
fn on_terminal(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let quoted: Vec<_> = arguments.iter().map(|argument| format!("'{argument}'")).collect();
    let line = format!("{} {}", env!("CARGO_BIN_EXE_duetime"), quoted.join(" "));
    let mut command = Command::new("script");
    // Of util-linux: -e returns the command's exit code.
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(place.path(""));
    command.env_remove("NO_COLOR").env("TERM", "xterm-256color").envs(variables.iter().copied());
    finish(command, b"")
}

/// Whether a text sets a colour, or bold letters.
fn is_coloured(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';');
        end.is_some_and(|end| rest[end..].starts_with('m') && !["", "0"].contains(&&rest[..end]))
    })
}

/// A folder with a store and a file of jobs, and an export.
fn place() -> Place {
    let place = Place::new();
    let lines: String = (0..3_000).map(|n| format!("{{\"payload\":{n},\"delay\":\"1h\"}}\n")).collect();
    std::fs::write(place.path("jobs.jsonl"), lines).unwrap();
    place.ok(&["push", "--file", "jobs.jsonl"]);
    place.ok(&["export", "--out", "export.jsonl"]);
    place
}

#[test]
fn bars_are_drawn_on_a_terminal_and_not_in_a_pipe() {
    let place = place();
    let commands: [(&[&str], &str); 4] = [
        (&["push", "--file", "jobs.jsonl", "--store", "a.db"], "pushing"),
        (&["export", "--out", "b.jsonl", "--store", "test.db"], "exporting"),
        (&["import", "--in", "export.jsonl", "--store", "c.db"], "importing"),
        (&["bench", "push", "-n", "500"], "push"),
    ];
    for (command, label) in commands {
        let ran = finish(place.bare(command), b"");
        assert_eq!(ran.code, 0, "{command:?}: {ran:?}");
        assert!(!format!("{}{}", ran.out, ran.err).contains(['\x1b', '\r']), "{command:?}: {ran:?}");
        for name in ["a.db", "b.jsonl", "c.db"] {
            let _ = std::fs::remove_file(place.path(name));
        }
        let ran = on_terminal(&place, command, &[]);
        assert_eq!(ran.code, 0, "{command:?}: {ran:?}");
        assert!(ran.out.contains(label) && ran.out.contains('\r') && ran.out.contains("\x1b["), "{command:?}: {ran:?}");
        for name in ["a.db", "b.jsonl", "c.db"] {
            let _ = std::fs::remove_file(place.path(name));
        }
    }
}

#[test]
fn colours_are_for_terminals_and_who_wants_them() {
    let place = place();
    let commands: [(&[&str], i32); 6] = [
        (&["list", "--limit", "3", "--store", "test.db"], 0),
        (&["queues", "--store", "test.db"], 0),
        (&["doctor", "--store", "test.db", "--listen", "127.0.0.1:0"], 0),
        (&["config", "show"], 0),
        (&["push", "--help"], 0),
        (&["list", "--nonsense"], 2),
    ];
    for (command, code) in commands {
        let ran = on_terminal(&place, command, &[]);
        assert!(ran.code == code && is_coloured(&ran.out), "{command:?}: {ran:?}");
        let ran = on_terminal(&place, command, &[("NO_COLOR", "1")]);
        assert!(ran.code == code && !is_coloured(&ran.out), "{command:?}: {ran:?}");
        let ran = finish(place.bare(command), b"");
        assert!(ran.code == code && !format!("{}{}", ran.out, ran.err).contains('\x1b'), "{command:?}: {ran:?}");
    }
    assert!(is_coloured("\x1b[1mbold\x1b[0m") && is_coloured("\x1b[38;5;1mx") && !is_coloured("\x1b[2K\x1b[0m\x1b[1A"));
}

/// Names are bytes that others chose: they neither move the cursor nor turn the line around.
#[test]
fn names_of_others_are_shown_and_nothing_more() {
    let place = Place::new();
    let names = ["a\u{202e}evil\u{1b}[2J", "b\u{9b}31m\r", "c"];
    for name in names {
        place.ok(&["locks", "acquire", name, "--owner", "o\u{2067}\u{7}", "--ttl", "1h"]);
    }
    let hidden = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{2067}".contains(c);
    for command in [
        &["locks", "--limit", "2"][..],
        &["locks", "--limit", "2", "--json"],
        &["locks", "show", names[0]],
        &["locks", "show", names[1], "--json"],
        &["locks", "acquire", names[0], "--owner", "p"],
        &["locks", "release", names[0], "--owner", "p", "--fence", "1"],
        &["push", "--queue", "q", "--key", names[0], "--tag", names[1], "{\"a\": \"\u{202e}\"}"],
        &["list"],
        &["list", "--json"],
    ] {
        let ran = finish(place.command(command), b"");
        let text = format!("{}{}", ran.out, ran.err);
        assert!(!text.is_empty() && !text.contains(hidden), "{command:?}: {ran:?}");
    }
}
