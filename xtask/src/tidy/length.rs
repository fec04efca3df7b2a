//! Files stay short: none is over 700 lines, and one over 400 is on a list that only shrinks.

use super::{Finding, is_rust, list_rows};
use crate::repo::Source;

/// The list of long files: path and length in lines.
pub(super) const ALLOWED: &str = "xtask/long-files.txt";

/// No file is longer.
const LINES_MAX: usize = 700;

/// A file up to here needs no entry.
const LINES_USUAL: usize = 400;

/// Files that are too long, and rows of the list that are not needed.
pub(super) fn check(sources: &[Source], allowed: &str) -> Vec<Finding> {
    let (rows, mut findings) = read_list(allowed);
    for source in sources.iter().filter(|source| is_rust(source)) {
        let lines = source.text.lines().count();
        let listed = rows.iter().find(|row| row.path == source.path).map(|row| row.lines);
        findings.extend(judge(lines, listed).map(|advice| Finding { path: source.path.clone(), line: 0, advice }));
    }
    let is_gone = |row: &&Row<'_>| !sources.iter().any(|source| source.path == row.path);
    findings.extend(rows.iter().filter(is_gone).map(|row| Finding {
        path: ALLOWED.into(),
        line: row.line,
        advice: format!("{} is gone: remove this line", row.path),
    }));
    findings
}

fn judge(lines: usize, listed: Option<usize>) -> Option<String> {
    match listed {
        _ if lines > LINES_MAX => {
            Some(format!("expected at most {LINES_MAX} lines, got {lines}: split it, one noun per file"))
        }
        Some(_) if lines <= LINES_USUAL => Some(format!("{lines} lines are no longer long: remove it from {ALLOWED}")),
        Some(listed) if lines > listed => {
            Some(format!("a long file may shrink, not grow: expected at most {listed} lines, got {lines}"))
        }
        None if lines > LINES_USUAL => Some(format!(
            "expected at most {LINES_USUAL} lines, got {lines}: split it, or where that is worse, add it to {ALLOWED}"
        )),
        _ => None,
    }
}

struct Row<'a> {
    line: usize,
    path: &'a str,
    lines: usize,
}

fn read_list(list: &str) -> (Vec<Row<'_>>, Vec<Finding>) {
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    for (line, words) in list_rows(list) {
        match (words.first(), words.get(1).and_then(|word| word.parse().ok())) {
            (Some(path), Some(lines)) => rows.push(Row { line, path, lines }),
            _ => {
                let advice = "expected a path and a number of lines".to_owned();
                findings.push(Finding { path: ALLOWED.into(), line, advice });
            }
        }
    }
    (rows, findings)
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn findings(lines: usize, list: &str) -> usize {
        check(&[source("a.rs", &"x\n".repeat(lines))], list).len()
    }

    #[test]
    fn a_long_file_must_be_listed() {
        assert_eq!(findings(400, ""), 0);
        assert_eq!(findings(401, ""), 1);
        assert_eq!(findings(401, "a.rs 401"), 0);
    }

    #[test]
    fn a_listed_file_may_shrink_and_not_grow() {
        assert_eq!(findings(499, "a.rs 500"), 0);
        assert_eq!(findings(501, "a.rs 500"), 1);
        assert_eq!(findings(400, "a.rs 500"), 1);
    }

    #[test]
    fn no_list_helps_beyond_the_maximum() {
        assert_eq!(findings(700, "a.rs 700"), 0);
        assert_eq!(findings(701, "a.rs 701"), 1);
    }

    #[test]
    fn a_row_names_a_file_and_its_length() {
        assert_eq!(findings(1, "gone.rs 500\nb.rs\n"), 2);
    }
}
