//! The public items of the library, with their signatures: `crates/duetime/public.txt` lists them, so that a change of what users
//! see is a change of that file.
//!
//! The list is read from the pages that rustdoc writes, which a stable compiler can do and which have the items of our other
//! crates that the library offers. Implementations of traits are not in it: [`semver()`] compares them with the last release.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::repo::{self, Metadata};
use crate::{lint, process};

const LIST: &str = "crates/duetime/public.txt";
/// With this, the list is written instead of compared.
const WRITE: &str = "write";
/// The files that may hide items from the docs without the feature below: those for macros and for the server.
const HIDDEN: [&str; 2] = ["crates/duetime/src/lib.rs", "crates/duetime/src/worker/server.rs"];
const FEATURE: &str = "#[cfg(feature = \"unstable-server\")]";

/// Compares the list with what the library offers, or writes it with `GOLDEN=write`.
pub(crate) fn run() -> Result<(), String> {
    hidden()?;
    let folder = Metadata::read()?.target_directory.join("doc/duetime");
    // The binary of the server has its pages in the same place.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    }
    // A page names the source of an item only if the crate that it comes from has pages by then.
    let doc =
        |packages: &[&str]| lint::doc(&[["doc", "--lib", "--no-deps", "--all-features"].as_slice(), packages].concat());
    doc(&["-p", "duetime-core", "-p", "duetime-store", "-p", "duetime-derive"])?;
    doc(&["-p", "duetime"])?;
    // Bodies too, as a user compiles them: tests have features of our crates that users do not.
    process::run(process::cargo(["check", "-p", "duetime", "--lib", "--all-features"]))?;
    let (list, path) = (list(&folder)?, repo::root().join(LIST));
    if std::env::var("GOLDEN").is_ok_and(|golden| golden == WRITE) {
        return fs::write(&path, list).map_err(|error| format!("cannot write {LIST}: {error}"));
    }
    let known = read(&path)?;
    match known.lines().zip(list.lines()).position(|(known, found)| known != found) {
        None if known == list => Ok(()),
        place => {
            let place = place.unwrap_or_else(|| known.lines().count().min(list.lines().count()));
            let at = |text: &str| text.lines().nth(place).unwrap_or("nothing").to_owned();
            Err(format!(
                "{LIST}:{}: expected {:?}, the library has {:?}; if that is what users are to see, run \
                 `GOLDEN=write cargo xtask public`, and read the diff",
                place + 1,
                at(&known),
                at(&list),
            ))
        }
    }
}

/// Compares the library with its last release, if there was one.
pub(crate) fn semver() -> Result<(), String> {
    let mut tags = std::process::Command::new("git");
    tags.args(["tag", "--list", "v*", "--sort=-v:refname"]).current_dir(repo::root());
    let tags = process::output(tags)?;
    let Some(last) = tags.lines().next() else {
        println!("nothing was released yet, so there is nothing to compare with");
        return Ok(());
    };
    if !process::succeeds(process::cargo(["semver-checks", "--version"])) {
        process::run(process::cargo(["install", "--locked", "cargo-semver-checks"]))?;
    }
    process::run(process::cargo(["semver-checks", "--package", "duetime", "--all-features", "--baseline-rev", last]))
}

/// Fails if an item is hidden that neither macros nor the server use.
fn hidden() -> Result<(), String> {
    let is_ours = |path: &str| path.starts_with("crates/duetime/src/") && !HIDDEN.contains(&path);
    for source in repo::sources()?.iter().filter(|source| is_ours(&source.path)) {
        if let Some(line) = hidden_at(&source.text) {
            return Err(format!(
                "{}:{line}: a hidden item: document it, or move it to `__private` or `unstable-server`",
                source.path
            ));
        }
    }
    Ok(())
}

/// The line of the first hidden item that everybody can use.
fn hidden_at(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_door = |&place: &usize| {
        lines[place] == "#[doc(hidden)]" && place.checked_sub(1).is_none_or(|above| lines[above] != FEATURE)
    };
    (0..lines.len()).find(is_door).map(|place| place + 1)
}

/// Each item of these pages. An item that stands in several places is described at the first.
fn list(folder: &Path) -> Result<String, String> {
    let all = read(&folder.join("all.html"))?;
    let links = all.split_once("<ul class=\"all-items\">").map_or("", |(_, items)| items);
    let mut pages = BTreeMap::new();
    for link in links.split("<li><a href=\"").skip(1) {
        let (Some((page, rest)), Some((kind, _))) = (link.split_once("\">"), link.split_once('.')) else { continue };
        let Some((name, _)) = rest.split_once("</a>") else { continue };
        let kind = kind.rsplit('/').next().unwrap_or(kind);
        pages.insert((name.matches("::").count(), name.to_owned(), kind.to_owned()), page.to_owned());
    }
    let mut list = String::new();
    let mut seen = BTreeMap::new();
    for ((_, name, kind), page) in pages {
        let items = items(&read(&folder.join(page))?);
        let path = format!("duetime::{name}");
        let first = seen.entry(items.clone()).or_insert_with(|| path.clone());
        if *first == path || items.is_empty() {
            let _ = writeln!(list, "{kind} {path}");
            for item in &items {
                let _ = writeln!(list, "    {item}");
            }
        } else {
            let _ = writeln!(list, "{kind} {path} = {first}");
        }
    }
    Ok(list)
}

/// The declaration on a page, with its functions and constants. Items of other projects are only named.
fn items(page: &str) -> Vec<String> {
    let heading = page.split("<pre class=\"rust item-decl\">").next().unwrap_or_default();
    if !heading.contains("/src/duetime") {
        return Vec::new();
    }
    let declaration = between(page, "<pre class=\"rust item-decl\"><code>", "</code></pre>").unwrap_or_default();
    let mut items: Vec<String> = text(declaration).lines().map(str::to_owned).collect();
    let own = between(page, "<h2 id=\"implementations\"", "<h2 id=\"trait-implementations\"").unwrap_or_default();
    for section in own.split("<section id=\"").skip(1).filter(|section| !section.starts_with("impl-")) {
        items.extend(between(section, "<h4 class=\"code-header\">", "</h4>").map(|header| {
            let header = text(header);
            header.split_whitespace().collect::<Vec<_>>().join(" ")
        }));
    }
    items.retain(|item| !item.trim().is_empty());
    items
}

fn between<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(begin)?;
    Some(rest.split_once(end).map_or(rest, |(inner, _)| inner))
}

/// What a piece of a page shows.
fn text(html: &str) -> String {
    let html = html.replace("</div>", "</div>\n");
    let (mut shown, mut rest) = (String::new(), html.as_str());
    while let Some((before, tag)) = rest.split_once('<') {
        shown.push_str(before);
        // A summary folds a long list, and is not part of it.
        let end = if tag.starts_with("summary") { "</summary>" } else { ">" };
        rest = tag.split_once(end).map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    for (entity, character) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")] {
        shown = shown.replace(entity, character);
    }
    shown
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_door_is_found() {
        let ours = format!("{FEATURE}\n    #[doc(hidden)]\n    pub fn of_engine() {{}}\n");
        assert_eq!(hidden_at(&ours), None);
        assert_eq!(hidden_at(&format!("{ours}#[doc(hidden)]\npub fn room() {{}}")), Some(4));
    }

    #[test]
    fn a_page_becomes_a_declaration_and_its_functions() {
        let page = r##"<a class="src" href="../src/duetime_core/job.rs.html#1">Source</a><pre class="rust item-decl"><code><div class="code-attribute">#[non_exhaustive]</div>pub struct Job {
<details><summary class="hideme"><span>Show 2 fields</span></summary>    pub tags: <a href="x">Vec</a>&lt;<a>u8</a>&gt;,
}</details></code></pre><h2 id="implementations" class="section-header"><section id="impl-Job" class="impl"><h3>impl Job</h3>
<section id="method.state" class="method"><h4 class="code-header">pub fn <a class="fn">state</a>(
    &amp;self,
) -&gt; u8</h4></section><h2 id="trait-implementations"><section id="method.clone"><h4 class="code-header">fn clone</h4>"##;
        let expected =
            ["#[non_exhaustive]", "pub struct Job {", "    pub tags: Vec<u8>,", "}", "pub fn state( &self, ) -> u8"];
        assert_eq!(items(page), expected);
        assert!(items(&page.replace("duetime_core", "serde_core")).is_empty());
    }
}
