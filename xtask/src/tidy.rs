//! Rules of the house that no compiler knows: arrows between crates, circles of files, words of one edge, fields of services,
//! banned calls, file length, names that stay private, functions that the tour names, links, pages of the book, pages in Chinese.
//!
//! Each check is a function from text to findings. They read text, not syntax: comments and strings are blanked first
//! (`mask.rs`), which suffices for the code that people write; it does not see through macros or renamed imports.

mod arrows;
mod book;
mod calls;
mod chinese;
mod circles;
mod edge_words;
mod fields;
mod length;
mod links;
mod mask;
mod mentions;
mod tour;

use std::fmt;

pub(crate) use self::mask::Masked;
use crate::repo::{self, Source};

/// Something to mend.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Counted from 1; 0 if it is about the whole file.
    pub(crate) line: usize,
    /// The problem, and how to fix it.
    pub(crate) advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.advice),
            line => write!(f, "{}:{line}: {}", self.path, self.advice),
        }
    }
}

/// All findings, in order of files and lines.
pub(crate) fn check(sources: &[Source]) -> Result<Vec<Finding>, String> {
    let list = |path: &str| {
        let source = sources.iter().find(|source| source.path == path);
        source.map(|source| source.text.as_str()).ok_or_else(|| format!("expected the list {path}, found no such file"))
    };
    let mut findings = arrows::check(sources);
    findings.extend(book::check(sources));
    findings.extend(calls::check(sources, list(calls::ALLOWED)?));
    findings.extend(chinese::check(sources));
    findings.extend(circles::check(sources));
    findings.extend(edge_words::check(sources));
    findings.extend(fields::check(sources));
    findings.extend(length::check(sources));
    findings.extend(links::check(sources, |path| repo::root().join(path).is_file()));
    findings.extend(mentions::check(sources));
    findings.extend(tour::check(sources));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(findings)
}

/// Whether the file is Rust.
fn is_rust(source: &Source) -> bool {
    source.path.ends_with(".rs")
}

/// Line numbers and words of a list file: a line each, words between spaces, `#` begins a comment line.
fn list_rows(list: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let rows = list.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let rows = rows.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    rows.map(|(number, line)| (number, line.split_whitespace().collect()))
}

#[cfg(test)]
fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), text: text.into() }
}
