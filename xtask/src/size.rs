//! `cargo xtask size`: how many lines of production code there are, by crate.
//!
//! A line counts unless it is blank, a comment, or for tests alone: what `#[cfg(test)]` begins, the folders `tests`, `benches`,
//! `examples` and `testing`. Lua and SQL count like Rust. `cargo fmt` decides what a line is, and `lint` holds everybody to it.

use std::collections::{BTreeMap, BTreeSet};

use crate::repo::{self, Source};
use crate::tidy::Masked;

const TEST_ATTRIBUTE: &str = "#[cfg(test)]";

/// Folders whose code is in no binary.
const TEST_FOLDERS: [&str; 4] = ["tests", "benches", "examples", "testing"];

/// Lines by language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    rust: usize,
    lua: usize,
    sql: usize,
}

impl Lines {
    fn all(self) -> usize {
        self.rust + self.lua + self.sql
    }
}

/// Prints a line for each crate, and one for all that users run.
pub(crate) fn print() -> Result<(), String> {
    let sizes = sizes(&repo::sources()?);
    let mut sum = Lines::default();
    println!("{:<14}{:>8}{:>8}{:>8}{:>8}", "lines of", "rust", "lua", "sql", "all");
    for (name, lines) in &sizes {
        row(name, *lines);
        if name.starts_with("crates/") {
            sum = Lines { rust: sum.rust + lines.rust, lua: sum.lua + lines.lua, sql: sum.sql + lines.sql };
        }
    }
    row("crates/*", sum);
    Ok(())
}

fn row(name: &str, lines: Lines) {
    println!("{name:<14}{:>8}{:>8}{:>8}{:>8}", lines.rust, lines.lua, lines.sql, lines.all());
}

fn sizes(sources: &[Source]) -> BTreeMap<String, Lines> {
    let tests: BTreeSet<String> = sources.iter().filter(|source| is_rust(source)).flat_map(test_modules).collect();
    let is_test_module = |path: &str| {
        let of = |module: &String| {
            path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        tests.iter().any(of)
    };
    let mut sizes: BTreeMap<String, Lines> = BTreeMap::new();
    for source in sources {
        let folders: Vec<&str> = source.path.split('/').collect();
        let is_for_tests = folders.iter().any(|folder| TEST_FOLDERS.contains(folder) || *folder == "testing.rs");
        let Some((name, count)) = crate_of(&folders).zip(counter(&source.path)) else { continue };
        if is_for_tests || is_test_module(&source.path) {
            continue;
        }
        count(sizes.entry(name).or_default(), &source.text);
    }
    sizes
}

/// The crate that a file belongs to.
fn crate_of(folders: &[&str]) -> Option<String> {
    match folders {
        ["crates", name, _, ..] => Some(format!("crates/{name}")),
        [name @ ("bench" | "xtask"), _, ..] => Some((*name).to_owned()),
        _ => None,
    }
}

type Counter = fn(&mut Lines, &str);

fn counter(path: &str) -> Option<Counter> {
    let (_, extension) = path.rsplit_once('.')?;
    Some(match extension {
        "rs" => |lines, text| lines.rust += rust_lines(text),
        "lua" => |lines, text| lines.lua += script_lines(text),
        "sql" => |lines, text| lines.sql += script_lines(text),
        _ => return None,
    })
}

fn is_rust(source: &Source) -> bool {
    source.path.ends_with(".rs")
}

fn script_lines(text: &str) -> usize {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")).count()
}

fn rust_lines(text: &str) -> usize {
    let code = Masked::without_comments(text);
    let items = test_items(&Masked::new(text));
    let mut at = 0;
    let mut count = 0;
    for line in code.text().split_inclusive('\n') {
        let is_test = items.iter().any(|(begin, end)| (*begin..*end).contains(&at));
        count += usize::from(!is_test && !line.trim().is_empty());
        at += line.len();
    }
    count
}

/// The begin and end of each item that is only for tests, from the beginning of the attribute's line.
fn test_items(code: &Masked) -> Vec<(usize, usize)> {
    let text = code.text();
    let begins = text.match_indices(TEST_ATTRIBUTE).map(|(at, _)| at);
    begins
        .map(|at| (text[..at].rfind('\n').map_or(0, |line| line + 1), item_end(code, at + TEST_ATTRIBUTE.len())))
        .collect()
}

/// The end of the item that follows: of its braces, or if it has none, of its statement.
fn item_end(code: &Masked, mut at: usize) -> usize {
    let text = code.text();
    while let Some(next) = text[at..].find(['(', '[', '{', ';', ',', '}']) {
        let found = at + next;
        match text.as_bytes()[found] {
            b'{' => return code.end_of_brackets(found),
            b'(' | b'[' => at = code.end_of_brackets(found),
            _ => return found + 1,
        }
    }
    text.len()
}

/// Paths, without `.rs`, of the modules that a file declares for tests.
fn test_modules(source: &Source) -> Vec<String> {
    let code = Masked::new(&source.text);
    let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let folder = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => source.path.trim_end_matches(".rs").to_owned(),
    };
    let items = test_items(&code);
    let names = items.iter().filter_map(|(begin, end)| {
        let (_, name) = code.text()[*begin..*end].strip_suffix(';')?.rsplit_once("mod ")?;
        Some(name.trim().to_owned())
    });
    names.map(|name| format!("{folder}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_tests_do_not_count() {
        let text = "//! Doc.\n\nuse a::b; // why\n/* c\n */\nfn f() {\n    \"// text\n\nmore\";\n}\n\n#[cfg(test)]\nfn g() {\n}\n";
        // The blank line in the string is blank all the same.
        assert_eq!(rust_lines(text), 5);
        let text = "#[cfg(test)]\nuse x;\nfn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfn h() {}\n";
        assert_eq!(rust_lines(text), 2);
    }

    #[test]
    fn test_modules_in_files_of_their_own_do_not_count() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [
            source("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;\n"),
            source("crates/a/src/tests.rs", "fn f() {}\n"),
            source("crates/a/src/tests/more.rs", "fn f() {}\n"),
            source("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;\nfn f() {}\n"),
            source("crates/a/src/b/tests.rs", "fn f() {}\n"),
            source("crates/a/src/b/move.lua", "-- why\nreturn 1\n"),
            source("crates/a/src/testing/c.rs", "fn f() {}\n"),
            source("crates/a/tests/d.rs", "fn f() {}\n"),
            source("README.md", "text\n"),
        ];
        let lines = Lines { rust: 2, lua: 1, sql: 0 };
        assert_eq!(sizes(&sources), BTreeMap::from([("crates/a".to_owned(), lines)]));
    }
}
