//! What people and programs read on standard output.

use super::exit::Result;
use super::time::relative;
use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, Color, Table};
use duetime_core::{Job, Millis, State};
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Characters of a payload, message or list of tags in a table.
const SNIPPET_CHARS: usize = 48;
/// Bytes that are looked at for a snippet.
const SNIPPET_BYTES: usize = 4 * SNIPPET_CHARS;

/// Prints a line.
pub(crate) fn say(line: impl std::fmt::Display) -> Result {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Tells something on standard error. That nobody reads it is no reason to stop.
macro_rules! note {
    ($($text:tt)*) => { $crate::cli::output::write_note(format_args!($($text)*)) };
}
pub(crate) use note;

/// What [`note!`] does.
pub(crate) fn write_note(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints one JSON document, on one line.
pub(crate) fn json(document: &impl Serialize) -> Result {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, document)?;
    Ok(writeln!(out)?)
}

/// Whether what is written there may have colours: to a terminal, unless NO_COLOR is set.
pub(crate) fn is_colourful(out: &impl IsTerminal) -> bool {
    out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A table without lines; a row is a line, also in a pipe.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    if !is_colourful(&std::io::stdout()) {
        table.force_no_tty();
    }
    table.set_header(header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    table
}

/// Prints a table, without blanks at the ends of lines.
pub(crate) fn print(table: &Table) -> Result {
    say(table.trim_fmt())
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

/// Jobs, a line each; columns in which nothing would stand are left out.
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
            Cell::new(job.id),
            Cell::new(&job.queue),
            Cell::new(snippet(job.kind.as_bytes())),
            state_cell(job.state(now)),
            Cell::new(relative(job.due_at, now)),
            Cell::new(job.attempt),
        ];
        row.extend(has_keys.then(|| Cell::new(snippet(job.key.as_deref().unwrap_or("").as_bytes()))));
        row.extend(has_tags.then(|| Cell::new(snippet(job.tags.join(" ").as_bytes()))));
        let said = job.message.as_deref().filter(|message| !message.is_empty());
        row.push(Cell::new(said.map_or_else(|| snippet(&job.payload), |message| snippet(message.as_bytes()))));
        table.add_row(row);
    }
    print(&table)
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

/// A text that a terminal only shows: what would move the cursor or change colours is replaced.
pub(crate) fn safe(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_one_safe_line() {
        assert_eq!(snippet(b"{\"order\": 7}\n"), "{\"order\": 7}");
        assert_eq!(snippet(b"a\nb\x1b[2Jc"), "a b\u{fffd}[2Jc");
        let long = snippet("ä".repeat(500).as_bytes());
        assert_eq!(long.chars().count(), SNIPPET_CHARS);
        assert!(long.ends_with('…'));
    }
}
