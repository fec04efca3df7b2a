//! Tables of the book that name everything of a kind.

use super::text;

/// What HTTP answers; the one table that maps codes to statuses.
const PROBLEMS: &str = include_str!("../../src/http/problem.rs");

#[test]
fn every_error_code_is_explained() {
    let table = PROBLEMS.split_once("const CODES").unwrap().1.split_once("];").unwrap().0;
    let codes: Vec<&str> = table.split("(\"").skip(1).map(|row| row.split_once('"').unwrap().0).collect();
    assert!(codes.len() > 30, "{codes:?}");
    let page = text("docs/reference/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut explained: Vec<&str> = rows.map(|(code, _)| code).collect();
    let mut expected = codes;
    explained.sort_unstable();
    expected.sort_unstable();
    assert_eq!(explained, expected);
}
