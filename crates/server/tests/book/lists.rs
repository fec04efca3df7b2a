//! Tables of the book that name everything of a kind.

use super::block::blocks;
use super::{IN_CHINESE, all_pages, own_pages, text};

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

/// The page `/docs` of the server says the same, without links.
#[test]
fn errors_are_explained_in_the_same_words() {
    let is_kept = |line: &&str| line.starts_with("## ") || line.starts_with("| `");
    let page: Vec<String> = text("docs/reference/errors.md").lines().filter(is_kept).map(of_server).collect();
    let served: Vec<&str> = include_str!("../../src/http/openapi/errors.txt").lines().collect();
    assert_eq!(served, page, "change crates/server/src/http/openapi/errors.txt");
}

/// A line of the page as the server has it: without the status, which it knows, and without links.
fn of_server(line: &str) -> String {
    let Some(row) = line.strip_prefix("| `") else { return line.to_owned() };
    let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
    let [code, _, cause, advice] = cells[..] else { panic!("{line}") };
    [code.trim_end_matches('`'), &unlinked(cause), &unlinked(advice)].join(" | ")
}

fn unlinked(text: &str) -> String {
    let Some((before, rest)) = text.split_once('[') else { return text.to_owned() };
    let (words, rest) = rest.split_once("](").unwrap();
    let (_, after) = rest.split_once(')').unwrap();
    format!("{before}{words}{}", unlinked(after))
}

#[test]
fn every_page_with_rust_has_a_doc_test() {
    let listed = include_str!("../../../duetime/src/book.rs");
    for page in own_pages().filter(|page| !page.starts_with("docs/internals/")) {
        let has_rust = blocks(&text(&page)).iter().any(|block| block.language == "rust");
        let path = format!("\"{}\"", page.trim_start_matches("docs/"));
        assert_eq!(
            listed.contains(&path),
            has_rust,
            "{page}: add it to crates/duetime/src/book.rs, or remove it there"
        );
    }
}

/// So what runs on the English page also runs on the other.
#[test]
fn translations_have_the_same_blocks() {
    let code =
        |page: &str| -> Vec<String> { blocks(&text(page)).iter().map(|block| without_comments(&block.text)).collect() };
    let pages = all_pages();
    let translated: Vec<&String> = pages.iter().filter(|page| page.ends_with(IN_CHINESE)).collect();
    assert!(translated.len() >= 3, "{translated:?}");
    for page in translated {
        let english = page.replace(IN_CHINESE, ".md");
        assert_eq!(code(page), code(&english), "{page}");
        let (name, other) = (page.rsplit('/').next().unwrap(), english.rsplit('/').next().unwrap());
        assert!(
            text(&english).contains(&format!("[简体中文]({name})"))
                && text(page).contains(&format!("[English]({other})")),
            "{page}"
        );
    }
}

/// Without what follows ` // ` or `  # ` in a line.
fn without_comments(block: &str) -> String {
    let code = |line: &str| line.split(" // ").next().unwrap().split("  # ").next().unwrap().trim_end().to_owned();
    block.lines().map(code).collect::<Vec<_>>().join("\n")
}
