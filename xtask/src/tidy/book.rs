//! The book in `docs`: every page is in the summary and is short, and every block names its language.

use super::Finding;
use crate::repo::Source;

const SUMMARY: &str = "docs/SUMMARY.md";
const WORDS_MAX: usize = 1_500;
/// Generated, and a page to look things up in.
const LONG: [&str; 1] = ["docs/reference/command-line.md"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(summary) = sources.iter().find(|source| source.path == SUMMARY) else { return Vec::new() };
    let is_page = |source: &&Source| source.path.starts_with("docs/") && source.path.ends_with(".md");
    let pages = sources.iter().filter(is_page).filter(|page| page.path != SUMMARY);
    pages.flat_map(|page| judge(page, &summary.text)).collect()
}

fn judge(page: &Source, summary: &str) -> Vec<Finding> {
    let finding = |line: usize, advice: String| Finding { path: page.path.clone(), line, advice };
    let mut findings = Vec::new();
    let path = page.path.trim_start_matches("docs/");
    if !summary.contains(&format!("]({path})")) {
        findings.push(finding(0, format!("expected the page in {SUMMARY}, found it not")));
    }
    let words = page.text.split_whitespace().count();
    if words > WORDS_MAX && !LONG.contains(&&*page.path) {
        findings.push(finding(0, format!("expected at most {WORDS_MAX} words, got {words}: split the page")));
    }
    let fences = page.text.lines().enumerate().filter(|(_, line)| line.starts_with("```"));
    for (index, _) in fences.step_by(2).filter(|(_, fence)| *fence == "```") {
        findings.push(finding(index + 1, "expected the language of the block, such as `sh` or `text`".to_owned()));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_page_is_listed_and_short_and_its_blocks_have_a_language() {
        let there = |page: &str| {
            let summary = source(SUMMARY, "- [A](a.md)\n- [C](reference/command-line.md)\n");
            let sources =
                [summary, source("docs/a.md", page), source("docs/reference/command-line.md", &"x ".repeat(9_000))];
            check(&sources).iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(there("```sh\nx\n```\ny\n```text\n```\n"), [0; 0]);
        assert_eq!(there("a\n```\nx\n```\n"), [2]);
        assert_eq!(there(&"x ".repeat(1_501)), [0]);
        let unlisted = [source(SUMMARY, ""), source("docs/b.md", "")];
        assert_eq!(check(&unlisted).len(), 1);
    }
}
