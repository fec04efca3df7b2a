//! Tables of the book that name everything of a kind.

use super::block::blocks;
use super::{all_pages, text};

/// The table of HTTP that maps codes to statuses.
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

#[test]
fn every_page_with_rust_has_a_doc_test() {
    let listed = include_str!("../../../duetime/src/book.rs");
    for page in all_pages().iter().filter(|page| !page.starts_with("docs/internals/")) {
        let has_rust = blocks(&text(page)).iter().any(|block| block.language == "rust");
        let path = format!("\"{}\"", page.trim_start_matches("docs/"));
        assert_eq!(
            listed.contains(&path),
            has_rust,
            "{page}: add it to crates/duetime/src/book.rs, or remove it there"
        );
    }
}
