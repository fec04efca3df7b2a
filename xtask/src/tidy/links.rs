//! Links between pages: the file and the heading exist.
//!
//! Read are links of the form `[text](target)` outside of code. Addresses of this repository on its web site are judged as
//! paths; all other addresses are ignored. Pages of the book may link only to the book, or to that web site: their readers
//! may have nothing else.

use std::collections::BTreeSet;

use super::Finding;
use crate::repo::Source;

const SITE: [&str; 2] =
    ["https://github.com/duetime/duetime/blob/main/", "https://github.com/duetime/duetime/tree/main/"];
const BOOK: &str = "docs/";

/// Every broken link. `exists` knows files that are not text, such as pictures.
pub(super) fn check(sources: &[Source], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in sources.iter().filter(|source| source.path.ends_with(".md")) {
        for (line, target) in links(&page.text) {
            if let Err(advice) = judge(page, &target, sources, &exists) {
                findings.push(Finding { path: page.path.clone(), line, advice });
            }
        }
    }
    findings
}

fn judge(page: &Source, target: &str, sources: &[Source], exists: impl Fn(&str) -> bool) -> Result<(), String> {
    let on_site = SITE.iter().find_map(|site| target.strip_prefix(site));
    if on_site.is_none() && (target.contains("://") || target.starts_with("mailto:")) {
        return Ok(());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match on_site {
        Some(_) => on_site.unwrap_or_default().split('#').next().unwrap_or_default().to_owned(),
        None if path.is_empty() => page.path.clone(),
        None => resolved(&page.path, path),
    };
    if on_site.is_none() && page.path.starts_with(BOOK) && !path.starts_with(BOOK) {
        return Err(format!("`{target}` leaves the book: link to {}{path}", SITE[0]));
    }
    let folder = format!("{}/", path.trim_end_matches('/'));
    let file = sources.iter().find(|source| source.path == path);
    if file.is_none() && !sources.iter().any(|source| source.path.starts_with(&folder)) && !exists(&path) {
        return Err(format!("`{target}` leads to {path}, which is not there"));
    }
    match file {
        Some(file) if !anchor.is_empty() && path.ends_with(".md") && !anchors(&file.text).contains(anchor) => {
            Err(format!("{path} has no heading `#{anchor}`"))
        }
        _ => Ok(()),
    }
}

/// A path in a page, from the root.
fn resolved(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The targets of all links, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let of_line = |(number, line): (usize, &str)| {
        // Text between backticks is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        targets.map(|(target, _)| (number, target.to_owned())).collect::<Vec<_>>()
    };
    prose(text).flat_map(of_line).collect()
}

/// The anchors of headings: lowercase words joined by dashes, numbered if they repeat.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let anchor: String = heading.chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect();
        let repeated = (1..).map(|n| format!("{anchor}-{n}")).find(|repeated| !anchors.contains(repeated));
        let is_new = !anchors.contains(&anchor);
        anchors.extend(if is_new { Some(anchor) } else { repeated });
    }
    anchors
}

/// The lines outside of fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn lines(page: &str, text: &str) -> Vec<usize> {
        let there = [source(page, text), source("docs/a/b.md", "# A `b`, c\n## Two\n## Two\n"), source("src/x.rs", "")];
        check(&there, |path| path == "docs/x.png").into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_to_what_is_there_pass() {
        assert_eq!(
            lines("README.md", "[a](docs/a/b.md#a-b-c) [b](docs/a/b.md#two-1)\n[s](src) [p](docs/x.png)"),
            [0; 0]
        );
        assert_eq!(lines("docs/c.md", "# C\n[a](a/b.md#two) [c](#c) [w](https://x.example/y)"), [0; 0]);
        assert_eq!(lines("docs/a/c.md", "[x](https://github.com/duetime/duetime/blob/main/src/x.rs)"), [0; 0]);
        assert_eq!(lines("docs/c.md", "`[a](none.md)`\n```text\n[a](none.md)\n```"), [0; 0]);
    }

    #[test]
    fn links_to_nothing_are_found() {
        assert_eq!(lines("README.md", "[a](docs/none.md)\n[b](docs/a/b.md#three)\n[c](#none)"), [1, 2, 3]);
        assert_eq!(lines("docs/c.md", "[x](../src/x.rs)"), [1], "it leaves the book");
        assert_eq!(lines("docs/c.md", "[x](https://github.com/duetime/duetime/tree/main/none)"), [1]);
    }
}
