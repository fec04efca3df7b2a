//! The file that is read, its text, and its entries: each key with its value and its line.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Far more than all options take.
const BYTES_MAX: u64 = 1 << 20;

/// The first of these files that exists. One that cannot be examined counts as existing, so that reading it reports why.
pub(super) fn find(candidates: &[&str]) -> Option<PathBuf> {
    let is_there = |path: &&&str| !matches!(Path::new(path).metadata(), Err(error) if is_missing(error.kind()));
    candidates.iter().find(is_there).map(PathBuf::from)
}

fn is_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The text of a file.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => format!("cannot read {shown}: it is not valid UTF-8"),
        _ => format!("cannot read {shown}: {error}"),
    })?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("{shown} has more than {BYTES_MAX} bytes, the limit of a configuration file"));
    }
    Ok(text)
}

/// A value in a file.
pub(super) struct Entry<'a> {
    /// Its key, with the tables around it.
    pub(super) path: Vec<String>,
    pub(super) value: DeValue<'a>,
    /// From 1.
    pub(super) line: usize,
}

/// The entries of a file that can be read, and the syntax errors with their lines.
pub(super) fn entries(text: &str) -> (Vec<Entry<'_>>, Vec<(usize, String)>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let line = |span: Option<Range<usize>>| line_at(text, span.map_or(0, |span| span.start));
    let mut wrong: Vec<_> = errors.iter().map(|error| (line(error.span()), error.message().to_owned())).collect();
    // The parser may report one mistake several times.
    wrong.sort_by_key(|(line, _)| *line);
    wrong.dedup_by_key(|(line, _)| *line);
    let mut entries = Vec::new();
    collect(text, &mut Vec::new(), table.into_inner(), &mut entries);
    entries.retain(|entry| !wrong.iter().any(|(line, _)| *line == entry.line));
    entries.sort_by_key(|entry| entry.line);
    (entries, wrong)
}

fn collect<'a>(text: &str, tables: &mut Vec<String>, table: DeTable<'a>, entries: &mut Vec<Entry<'a>>) {
    for (key, value) in table {
        let line = line_at(text, key.span().start);
        tables.push(Spanned::into_inner(key).into_owned());
        match value.into_inner() {
            DeValue::Table(inner) if !inner.is_empty() => collect(text, tables, inner, entries),
            value => entries.push(Entry { path: tables.clone(), value, line }),
        }
        tables.pop();
    }
}

fn line_at(text: &str, place: usize) -> usize {
    1 + text.as_bytes()[..place.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}
