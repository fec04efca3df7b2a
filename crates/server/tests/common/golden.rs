//! Golden files: answers, compared with files of expected text in `tests/golden`.
//!
//! Values that differ between runs are replaced: long numbers (ids, versions, fences) by `#1`, `#2`, … in order of first
//! appearance, so that equal numbers stay equal; instants by `<now>` or how far they are from it, such as `<+2h>`; and
//! addresses, request ids and the version of the program.
//!
//! `GOLDEN=write` regenerates the files. Read the diff before you commit it.

use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A value up to this many columns wide is printed on one line.
const LINE_COLUMNS: usize = 110;
/// Numbers with fewer digits are the same in every run.
const DIGITS_MIN: usize = 9;
/// The precision with which an instant's distance from now is printed: a run takes less.
const STEP_SECONDS: i64 = 600;

/// The answers so far.
pub(crate) struct Golden {
    name: &'static str,
    text: String,
    begin: jiff::Timestamp,
    numbers: HashMap<String, usize>,
}

impl Golden {
    /// A transcript that is compared with the file of this name, such as `http/push`.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, text: String::new(), begin: now(), numbers: HashMap::new() }
    }

    /// Adds lines, after these replacements.
    pub(crate) fn add(&mut self, lines: &str) {
        let masked = self.masked(lines);
        self.text += masked.trim_end();
        self.text.push('\n');
    }

    /// Adds a JSON value, indented.
    pub(crate) fn add_json(&mut self, value: &Value) {
        let mut text = String::new();
        show(&self.masked_value(value), 0, &mut text);
        self.text += &text;
        self.text.push('\n');
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Compares, or writes the file.
    #[track_caller]
    pub(crate) fn finish(self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(self.name).with_extension("txt");
        let text = format!("{}\n", self.text.trim_end());
        if std::env::var_os("GOLDEN").is_some_and(|what| what == "write") {
            return std::fs::write(&path, text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == expected,
            "the answers differ from {}.\n{}\nIf this is meant, run the test with GOLDEN=write and read the diff.",
            path.display(),
            diff(&path, &text)
        );
    }

    /// Masks before it lays out: the layout must not depend on masked values.
    fn masked_value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(object) => object
                .iter()
                // A client names its pushes only to a server.
                .filter(|(name, value)| *name != "origin" || !value.as_str().is_some_and(is_random))
                .map(|(name, value)| {
                    let is_left = name == "expires_in";
                    (name.clone(), if is_left { "<time left>".into() } else { self.masked_value(value) })
                })
                .collect(),
            Value::Array(values) => values.iter().map(|value| self.masked_value(value)).collect(),
            Value::String(text) => Value::String(self.masked(text)),
            Value::Number(number) if number.to_string().len() >= DIGITS_MIN => {
                Value::String(format!("number {}", self.masked(&number.to_string())))
            }
            other => other.clone(),
        }
    }

    fn masked(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some((word, shown)) = self.instant(rest).or_else(|| self.number(rest)).or_else(|| address(rest)) {
                out += &shown;
                rest = &rest[word..];
            } else {
                // The rest of a number or word is no beginning of another.
                let is_word = |c: char| c.is_ascii_alphanumeric();
                let length =
                    if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
                out += &rest[..length];
                rest = &rest[length..];
            }
        }
        out.replace(env!("CARGO_PKG_VERSION"), "<version>")
    }

    /// An RFC 3339 instant at the beginning: its length, and its replacement.
    fn instant(&self, text: &str) -> Option<(usize, String)> {
        let length = text.find(|c: char| !(c.is_ascii_digit() || "-:.TZ".contains(c))).unwrap_or(text.len());
        let length = text[..length].trim_end_matches(['-', ':', '.']).len();
        let instant: jiff::Timestamp = text[..length].parse().ok()?;
        let steps = (instant.as_second() - self.begin.as_second() + STEP_SECONDS / 2).div_euclid(STEP_SECONDS);
        let minutes = steps * (STEP_SECONDS / 60);
        let sign = if minutes < 0 { '-' } else { '+' };
        let shown = match minutes.abs() {
            0 => "<now>".to_owned(),
            // Set by the test, or an example in a message: the same in every run.
            far if minutes < -60 || far > 24 * 60 => return None,
            far if far % 60 == 0 => format!("<{sign}{}h>", far / 60),
            far => format!("<{sign}{far}min>"),
        };
        Some((length, shown))
    }

    fn number(&mut self, text: &str) -> Option<(usize, String)> {
        let word = text.find(' ').unwrap_or(text.len());
        if text.starts_with(|c: char| c.is_ascii_digit()) && text[word..].starts_with(" unless it is renewed") {
            return Some((word, "<time left>".to_owned()));
        }
        let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        if length < DIGITS_MIN {
            return None;
        }
        let next = self.numbers.len() + 1;
        let number = *self.numbers.entry(text[..length].to_owned()).or_insert(next);
        Some((length, format!("#{number}")))
    }
}

/// Whether a client has chosen this origin: 32 random digits, the number of its request, and a place in that.
pub(crate) fn is_random(origin: &str) -> bool {
    let random = origin.split('-').next().unwrap_or_default();
    random.len() == 32 && random.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// An address of this machine at the beginning.
fn address(text: &str) -> Option<(usize, String)> {
    const HOST: &str = "127.0.0.1:";
    let port = text.strip_prefix(HOST)?;
    let digits = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
    Some((HOST.len() + digits, "<address>".to_owned()))
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// JSON with sorted fields, on as many lines as it needs.
fn show(value: &Value, depth: usize, out: &mut String) {
    let line = on_one_line(value);
    let parts: Vec<(String, &Value)> = match value {
        _ if depth * 2 + line.len() <= LINE_COLUMNS && depth > 0 => Vec::new(),
        Value::Object(object) => {
            object.iter().map(|(name, value)| (format!("{}: ", Value::from(name.as_str())), value)).collect()
        }
        Value::Array(values) => values.iter().map(|value| (String::new(), value)).collect(),
        _ => Vec::new(),
    };
    if parts.is_empty() {
        *out += &line;
        return;
    }
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    out.push(open);
    for (place, (name, value)) in parts.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        write!(out, "{comma}\n{:indent$}{name}", "", indent = depth * 2 + 2).unwrap();
        show(value, depth + 1, out);
    }
    write!(out, "\n{:indent$}{close}", "", indent = depth * 2).unwrap();
}

fn on_one_line(value: &Value) -> String {
    let parts = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Object(object) => {
            let field =
                |(name, value): (&String, &Value)| format!("{}: {}", Value::from(name.as_str()), on_one_line(value));
            format!("{{{}}}", parts(object.iter().map(field).collect()))
        }
        Value::Array(values) => format!("[{}]", parts(values.iter().map(on_one_line).collect())),
        other => other.to_string(),
    }
}

/// The difference between the text and the file.
fn diff(path: &Path, text: &str) -> String {
    let mut command = Command::new("diff");
    command.args(["-U3", "--label", "expected", "--label", "answered"]).arg(path).arg("-");
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else { return text.to_owned() };
    let mut stdin = child.stdin.take().unwrap();
    let input = text.to_owned();
    let feed = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap();
    if output.stdout.is_empty() { text.to_owned() } else { String::from_utf8_lossy(&output.stdout).into_owned() }
}
