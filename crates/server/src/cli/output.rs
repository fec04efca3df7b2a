//! Standard output, for people and programs.

use super::exit::Result;
use super::terminal::is_colourful;
use super::time::relative;
use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, Color};
use duetime_core::printable::printable_json;
pub(crate) use duetime_core::printable::printable_lines as safe;
use duetime_core::{Job, Millis, Stage, State};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use std::io::Write;

/// Characters of a payload, message or list of tags in a table.
const SNIPPET_CHARS: usize = 48;
/// Bytes that are examined for a snippet.
const SNIPPET_BYTES: usize = 4 * SNIPPET_CHARS;

/// Prints a line, [safe](safe()) for a terminal.
pub(crate) fn say(line: impl std::fmt::Display) -> Result {
    say_styled(safe(&line.to_string()))
}

/// Prints a line that has colours and only safe parts.
pub(crate) fn say_styled(line: impl std::fmt::Display) -> Result {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Writes a note to standard error, [safe](safe()) for a terminal. If it cannot be written, the command continues.
macro_rules! note {
    ($($text:tt)*) => { $crate::cli::output::write_note(format_args!($($text)*)) };
}
pub(crate) use note;

/// The function of [`note!`].
pub(crate) fn write_note(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{}", safe(&text.to_string()));
}

/// A number of things: "1 job", "2 jobs".
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Prints a document in JSON, or a line that says the same.
pub(crate) fn tell(json: bool, document: &impl Serialize, line: impl std::fmt::Display) -> Result {
    if json { self::json(document) } else { say(line) }
}

/// Prints one JSON document, on one line. Characters that a terminal would not simply show are written as `\u…`.
pub(crate) fn json(document: &impl Serialize) -> Result {
    let mut out = std::io::stdout().lock();
    document.serialize(&mut Serializer::with_formatter(&mut out, Escaped))?;
    Ok(writeln!(out)?)
}

/// JSON in which letters that a terminal would not just show are escaped; in payloads, too, which are JSON already.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> std::io::Result<()> {
        out.write_all(printable_json(fragment).as_bytes())
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> std::io::Result<()> {
        self.write_string_fragment(out, fragment)
    }
}

/// A table without lines; a row is a line, also in a pipe.
pub(crate) struct Table(comfy_table::Table);

/// A field of a table: a cell with its colours, or a text, which is made [safe](safe()).
pub(crate) struct Field(Cell);

impl From<Cell> for Field {
    fn from(cell: Cell) -> Self {
        Self(cell)
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self(Cell::new(safe(text)))
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::from(&*text)
    }
}

impl Table {
    pub(crate) fn add_row<T: Into<Field>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.0.add_row(row.into_iter().map(|field| field.into().0));
    }
}

/// A table with these columns.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = comfy_table::Table::new();
    table.load_style(NOTHING);
    if !is_colourful(&std::io::stdout()) {
        table.force_no_tty();
    }
    table.set_header(header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    Table(table)
}

/// Prints a table, without blanks at the ends of lines.
pub(crate) fn print(table: &Table) -> Result {
    say_styled(table.0.trim_fmt())
}

/// Prints rows under a header, or says that there are none.
pub(crate) fn rows<T: Into<Field>>(
    header: &[&str],
    rows: impl ExactSizeIterator<Item = impl IntoIterator<Item = T>>,
    none: &str,
) -> Result {
    if rows.len() == 0 {
        note!("{none}");
        return Ok(());
    }
    let mut table = table(header);
    rows.for_each(|row| table.add_row(row));
    print(&table)
}

/// A state, coloured.
pub(crate) fn state_cell(state: State) -> Cell {
    Cell::new(state.word()).fg(state_color(state))
}

/// The colour of a state.
pub(crate) fn state_color(state: State) -> Color {
    match state {
        State::Scheduled => Color::Blue,
        State::Ready => Color::Cyan,
        State::Running => Color::Yellow,
        State::Succeeded => Color::Green,
        State::Failed => Color::Red,
        State::Cancelled => Color::DarkGrey,
    }
}

/// Jobs, a line each; empty columns are left out.
pub(crate) fn jobs(jobs: &[Job], now: Millis) -> Result {
    let has_keys = jobs.iter().any(|job| job.key.is_some());
    let has_tags = jobs.iter().any(|job| !job.tags.is_empty());
    let mut header = vec!["ID", "QUEUE", "KIND", "STATE", "DUE", "ATTEMPT"];
    header.extend(has_keys.then_some("KEY"));
    header.extend(has_tags.then_some("TAGS"));
    header.push("PAYLOAD OR MESSAGE");
    let mut table = table(&header);
    for job in jobs {
        let mut row = vec![
            Field::from(job.id.to_string()),
            Field::from(&*job.queue),
            Field::from(snippet(job.kind.as_bytes())),
            Field::from(state_cell(job.state(now))),
            Field::from(due(job, now)),
            Field::from(job.attempt.to_string()),
        ];
        row.extend(has_keys.then(|| Field::from(snippet(job.key.as_deref().unwrap_or("").as_bytes()))));
        row.extend(has_tags.then(|| Field::from(snippet(job.tags.join(" ").as_bytes()))));
        // The message of a job that has succeeded may be that of an earlier attempt.
        let is_told = |message: &&str| !message.is_empty() && job.stage != Stage::Succeeded;
        let said = job.message.as_deref().filter(is_told);
        row.push(Field::from(said.map_or_else(|| snippet(&job.payload), |message| snippet(message.as_bytes()))));
        table.add_row(row);
    }
    print(&table)
}

/// When a job is due; a finished one no longer is.
fn due(job: &Job, now: Millis) -> String {
    if job.state(now).is_live() { relative(job.due_at.0, now) } else { "-".to_owned() }
}

/// The start of a text on one line, safe for a terminal.
pub(crate) fn snippet(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(SNIPPET_BYTES)];
    let text = safe(&String::from_utf8_lossy(head)).replace('\n', " ");
    let text = text.trim();
    if head.len() == bytes.len() && text.chars().count() <= SNIPPET_CHARS {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(SNIPPET_CHARS - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use duetime_core::printable::printable;

    #[test]
    fn a_snippet_is_one_safe_line() {
        assert_eq!(snippet(b"{\"order\": 7}\n"), "{\"order\": 7}");
        assert_eq!(snippet(b"a\nb\x1b[2Jc"), "a b\\u{1b}[2Jc");
        assert_eq!(safe("a\u{202e}b\u{9b}c\rd\te\n"), "a\\u{202e}b\\u{9b}c\\u{d}d\te\n");
        let long = snippet("ä".repeat(500).as_bytes());
        assert_eq!(long.chars().count(), SNIPPET_CHARS);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn json_is_safe_and_says_the_same() {
        let text = "a\u{202e}\u{9b}\u{e0001}\r\n\"ä\u{1b}";
        let raw = serde_json::value::RawValue::from_string(format!("{{\r\n\"{}\": 1}}", "b\u{2066}")).unwrap();
        let mut out = Vec::new();
        (text, &raw).serialize(&mut Serializer::with_formatter(&mut out, Escaped)).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert!(printable(&shown).all(|(letter, is_hidden)| letter == '\n' || !is_hidden), "{shown:?}");
        let read: (String, serde_json::Value) = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, (text.to_owned(), serde_json::json!({"b\u{2066}": 1})));
    }
}
