//! Calls that have one place, or none.
//!
//! Time is read in the core's clock alone, so that every test can turn it; tests do not sleep, they pass `now` or
//! wait for a signal; no test is switched off. Which characters are hidden, and how an address is shown without its secrets,
//! is decided once. Exceptions stand in `xtask/allowed-calls.txt`, by file and with a reason.
//! Half-done work, and lints that are switched off without a reason, are refused by clippy.

use std::ops::Range;

use super::mask::is_word_byte;
use super::{Finding, Masked, is_rust, list_rows};
use crate::repo::Source;

/// The list of exceptions.
pub(super) const ALLOWED: &str = "xtask/allowed-calls.txt";

const INSTEAD_OF_NOW: &str = "take `now` as an argument, or ask the core's clock";
const INSTEAD_OF_SLEEP: &str = "pass `now`, or wait for a signal";
const INSTEAD_OF_CONTROL: &str = "ask `duetime_core::printable` which characters are hidden";
const INSTEAD_OF_AT: &str = "show addresses as `duetime_core::Redacted`";
const INSTEAD_OF_IGNORE: &str = "mend the test or remove it";

/// A call that was found.
struct Call {
    name: &'static str,
    at: usize,
    instead: &'static str,
}

/// All banned calls that are not on the list, and rows of the list that are not needed.
pub(super) fn check(sources: &[Source], allowed: &str) -> Vec<Finding> {
    let (rows, mut findings) = read_list(allowed);
    let mut is_needed = vec![false; rows.len()];
    for source in sources.iter().filter(|source| is_rust(source)) {
        let masked = Masked::new(&source.text);
        for call in calls(&masked, source) {
            match rows.iter().position(|row| row.covers(call.name, &source.path)) {
                Some(index) => is_needed[index] = true,
                None => findings.push(Finding {
                    path: source.path.clone(),
                    line: masked.line(call.at),
                    advice: format!("`{}` does not belong here: {}", call.name, call.instead),
                }),
            }
        }
    }
    // A folder states its purpose; only a row for one file must earn its place.
    let needless = rows.iter().zip(is_needed).filter(|(row, is_needed)| !is_needed && !row.path.ends_with('/'));
    findings.extend(needless.map(|(row, _)| Finding {
        path: ALLOWED.into(),
        line: row.line,
        advice: format!("{} has no `{}` left: remove this line", row.path, row.call),
    }));
    findings
}

/// An exception: calls of this name in this file, or in this folder if it ends in `/`.
struct Row<'a> {
    line: usize,
    call: &'a str,
    path: &'a str,
}

impl Row<'_> {
    fn covers(&self, call: &str, path: &str) -> bool {
        let is_there = if self.path.ends_with('/') { path.starts_with(self.path) } else { path == self.path };
        self.call == call && is_there
    }
}

/// Reads the rows, and finds those that give no reason.
fn read_list(list: &str) -> (Vec<Row<'_>>, Vec<Finding>) {
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    for (line, words) in list_rows(list) {
        match words[..] {
            [call, path, _, ..] => rows.push(Row { line, call, path }),
            _ => {
                let advice = "expected a call, a file and a reason".to_owned();
                findings.push(Finding { path: ALLOWED.into(), line, advice });
            }
        }
    }
    (rows, findings)
}

fn calls(masked: &Masked, source: &Source) -> Vec<Call> {
    let mut found = Vec::new();
    for name in ["SystemTime::now", "Instant::now"] {
        found.extend(masked.words(name).map(|at| Call { name, at, instead: INSTEAD_OF_NOW }));
    }
    found.extend(masked.words("is_control").map(|at| Call { name: "is_control", at, instead: INSTEAD_OF_CONTROL }));
    let without_comments = Masked::without_comments(&source.text);
    let name = "rsplit_once('@')";
    found.extend(without_comments.text().match_indices(name).map(|(at, _)| Call { name, at, instead: INSTEAD_OF_AT }));
    let ignored = masked.words("ignore").filter(|at| masked.text()[..*at].ends_with("#["));
    found.extend(ignored.map(|at| Call { name: "#[ignore]", at, instead: INSTEAD_OF_IGNORE }));
    found.extend(sleeps(masked, &source.path));
    found.sort_by_key(|call| call.at);
    found
}

/// Sleeps of threads and tasks in tests. A method or function of one's own that is called `sleep` is not one.
fn sleeps(masked: &Masked, path: &str) -> Vec<Call> {
    let text = masked.text();
    let (is_test, modules) = (is_test(path), test_modules(masked));
    let is_in_tests = |at: &usize| is_test || modules.iter().any(|range| range.contains(at));
    let mut found = Vec::new();
    for word in ["sleep", "sleep_until"] {
        let calls = masked.words(word).filter(|at| text[at + word.len()..].trim_start().starts_with('('));
        let waits = calls.filter(is_in_tests).filter(|at| is_free_function(&text[..*at]));
        found.extend(waits.map(|at| Call { name: "sleep", at, instead: INSTEAD_OF_SLEEP }));
    }
    found
}

/// Whether what precedes `sleep` makes it that of a thread or of tokio.
fn is_free_function(before: &str) -> bool {
    let before = before.trim_end();
    if before.ends_with('.') || before.ends_with("fn") {
        return false;
    }
    let Some(path) = before.strip_suffix("::") else { return true };
    let start = path.bytes().rposition(|byte| !is_word_byte(byte)).map_or(0, |at| at + 1);
    matches!(&path[start..], "thread" | "time")
}

/// Whether the whole file is tests, by its place or name.
fn is_test(path: &str) -> bool {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').any(|folder| folder == "tests" || folder == "testing")
        || matches!(file, "tests.rs" | "testing.rs")
}

/// The items under `#[cfg(test)]`.
fn test_modules(masked: &Masked) -> Vec<Range<usize>> {
    let text = masked.text();
    let attributes = text.match_indices("#[cfg(test)]").map(|(at, attribute)| at + attribute.len());
    let item = |start: usize| {
        let stop = text[start..].find(['{', ';']).map_or(text.len(), |length| start + length);
        let end = if text[stop..].starts_with('{') { masked.end_of_brackets(stop) } else { stop };
        start..end
    };
    attributes.map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&[source(path, text)], "").iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn time_is_read_in_one_place() {
        let text = "let a = SystemTime::now();\nlet b = tokio::time::Instant::now();\n// Instant::now()\nclock.now()\n";
        assert_eq!(lines("crates/core/src/engine.rs", text), [1, 2]);
    }

    #[test]
    fn what_is_hidden_is_decided_once() {
        let text = "let a = c.is_control();\n// is_control\nlet b = url.rsplit_once('@');\n// rsplit_once('@')\n";
        assert_eq!(lines("crates/server/src/log.rs", text), [1, 3]);
    }

    #[test]
    fn a_listed_file_or_folder_may() {
        let files =
            [source("bench/src/a.rs", "Instant::now()"), source("crates/core/src/clock.rs", "SystemTime::now()")];
        let list =
            "# comment\nInstant::now bench/ it measures\nSystemTime::now crates/core/src/clock.rs the one clock\n";
        assert!(check(&files, list).is_empty());
        assert_eq!(check(&files, "").len(), 2);
    }

    #[test]
    fn a_row_needs_a_reason_and_a_use() {
        let findings = check(&[], "Instant::now bench/\nInstant::now a.rs it measures\n");
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn tests_do_not_sleep() {
        let text = "use std::thread::sleep;\nfn a() { thread::sleep(d); }\ntokio::time::sleep(d).await;\nsleep(d);\nclock.sleep(d);\n\
                    fn sleep(d: u8) {}\nclock::sleep(d);\nsleep_until(d);\n";
        assert_eq!(lines("crates/server/tests/http.rs", text), [2, 3, 4, 8]);
        assert_eq!(lines("crates/core/src/testing/sim.rs", text), [2, 3, 4, 8]);
        assert_eq!(lines("crates/core/src/engine.rs", text), [0_usize; 0]);
    }

    #[test]
    fn test_modules_do_not_sleep() {
        let text = "fn a() { thread::sleep(d); }\n#[cfg(test)]\nmod tests {\n    fn b() { thread::sleep(d); }\n}\nfn c() { thread::sleep(d); }\n";
        assert_eq!(lines("crates/core/src/engine.rs", text), [4]);
        assert_eq!(
            lines("crates/core/src/engine.rs", "#[cfg(test)]\nmod tests;\nfn a() { thread::sleep(d); }"),
            [0_usize; 0]
        );
    }

    #[test]
    fn tests_are_not_switched_off() {
        assert_eq!(
            lines("a.rs", "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n#[serde(ignore)]\n"),
            [2, 4]
        );
    }
}
