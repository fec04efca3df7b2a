//! Reads JSON. An error names the field and says what it accepts, in the words of the documentation: users never see a Rust
//! type or the wording of a library.

use crate::invalid::{GIVEN, Invalid, MEANT, NOTHING, UNKNOWN};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt;

/// Why a text was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is not JSON: what is wrong, with line and column.
    Malformed(String),
    /// It is JSON that is not accepted: an [`Invalid`] with the path of the field.
    Invalid(Invalid),
}

impl Unread {
    /// As an error, also if it is not JSON.
    pub fn into_invalid(self) -> Invalid {
        match self {
            Self::Malformed(why) => Invalid::new(WHOLE, "valid JSON", format_args!("invalid JSON: {why}")),
            Self::Invalid(error) => error,
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed_json",
            Self::Invalid(_) => "invalid",
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "the JSON is invalid: {why}"),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

/// Accepted values of fields whose JSON has several forms, or a form best shown by an example.
const FORMS: [(&str, &str); 20] = [
    ("as", r#"the name of a layout, such as "list""#),
    ("exponential", r#"an object such as {"first": "1s", "factor": 2, "max": "1h", "jitter": 0.1}"#),
    ("fixed", r#"an object such as {"delay": "30s"}"#),
    ("jitter", "a number from 0 to 1"),
    ("key_until", r#""finished" or "started""#),
    ("max_crashes", "a whole number, 1 or more"),
    ("max_running", "a whole number, 1 or more"),
    ("max_waiting", "a whole number, 1 or more"),
    ("meta", r#"an object whose values are texts, such as {"tenant": "7"}"#),
    ("missed", r#""once" or "skip""#),
    ("on_conflict", r#""keep", "replace", "reject", or an object such as {"debounce": "10s", "at_latest": "2m"}"#),
    ("overlap", r#""allow" or "skip""#),
    ("percent", "a whole number from 0 to 100"),
    ("rate", r#"an object such as {"per_second": 100}"#),
    ("redis_list", r#"an object such as {"url": "redis://…", "key": "a list"}"#),
    ("retention", r#"an object such as {"succeeded": "24h", "failed": "30d"}"#),
    ("retry", r#""default", "none", {"steps": ["15s", "1m"]}, {"fixed": …} or {"exponential": …}"#),
    ("target", r#"an object such as {"url": "https://…"}, {"redis_list": …} or {"queue": "…"}"#),
    ("when_exhausted", r#""keep", "drop", "restart" or {"move": "a queue"}"#),
    ("when_full", r#""refuse" or "drop""#),
];

/// The field that an error about the text as a whole names.
const WHOLE: &str = "body";
/// The words for text that is nested too deeply for the parser.
const DEEP: &str = "it is nested more than 127 levels deep";
/// A name less similar than this was probably not meant.
const LIKENESS_MIN: f64 = 0.8;
/// A longer name is like none of ours. The comparison takes time in proportion to both lengths, and to all names.
const COMPARED_BYTES_MAX: usize = 100;
/// The maximum length of the received text that an error repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// Reads a value that borrows from the text.
///
/// # Errors
/// If the text is not JSON, or not such a value.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Unread> {
    serde_json::from_str(text).or_else(|_| explain(text))
}

/// The same for bytes.
///
/// # Errors Also if they are not UTF-8.
pub fn read_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Unread> {
    let text = std::str::from_utf8(bytes);
    read(text.map_err(|error| Unread::Malformed(format!("it is not UTF-8 at byte {}", error.valid_up_to())))?)
}

/// Reads once more and keeps the path. That is expensive, so it is done only for errors.
fn explain<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Unread> {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return Err(Unread::Malformed(syntax(&error)));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        refused(if path == "." { "" } else { &path }, error.inner(), text)
    })
}

/// Why a text was not read, if the path is not known.
pub fn unread(error: &serde_json::Error, text: &str) -> Unread {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => refused("", error, text),
        Err(error) => Unread::Malformed(syntax(&error)),
    }
}

fn refused(path: &str, error: &serde_json::Error, text: &str) -> Unread {
    let said = error.to_string();
    let (said, _) = said.rsplit_once(" at line ").unwrap_or((&said, ""));
    if ["surrogate", "hex escape", "unicode code point"].iter().any(|word| said.contains(word)) {
        let here = if path.is_empty() { WHOLE } else { path };
        return Unread::Invalid(Invalid::new(short(here), "valid Unicode", "half a surrogate pair (such as \\ud800)"));
    }
    if said == "recursion limit exceeded" {
        return Unread::Malformed(DEEP.to_owned());
    }
    // serde_json reports a number instead of an enum as a syntax error.
    let said = if error.is_data() { said } else { "" };
    Unread::Invalid(worded(path, said, text))
}

fn worded(path: &str, said: &str, text: &str) -> Invalid {
    let here = if path.is_empty() { WHOLE } else { path };
    let within = |field: &str| if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
    let quoted = |text: &str| text.split('`').nth(1).unwrap_or_default().to_owned();
    let (what, expected, got) = if let Some(forms) = forms_of_variant(path, said) {
        let (field, form) = forms;
        (field.to_owned(), form.to_owned(), value_at(text, field))
    } else if let Some(Invalid { what, expected, got }) = Invalid::parse(said) {
        let is_here = path == what || path.strip_suffix(&*what).is_some_and(|parent| parent.ends_with('.'));
        (if is_here { here.to_owned() } else { within(&what) }, expected, short(&got))
    } else if let Some(rest) = said.strip_prefix("unknown field ") {
        let field = rest.rsplit_once("`, expected ").map_or_else(|| quoted(rest), |(field, _)| field[1..].to_owned());
        let parent = path.strip_suffix(&field).map_or(path, |parent| parent.trim_end_matches('.'));
        let place = if parent.is_empty() { field.clone() } else { format!("{parent}.{field}") };
        (place, known_fields(rest), UNKNOWN.to_owned())
    } else if let Some(rest) = said.strip_prefix("missing field ") {
        (within(&quoted(rest)), GIVEN.to_owned(), NOTHING.to_owned())
    } else if let Some(rest) = said.strip_prefix("duplicate field ") {
        (within(&quoted(rest)), "given once".to_owned(), "it twice".to_owned())
    } else if let Some((got, expected)) = mismatch(said) {
        (here.to_owned(), form(path).map_or_else(|| type_words(expected), str::to_owned), value_words(got))
    } else if said.starts_with("invalid length ") {
        // An array in place of an object.
        (here.to_owned(), form(path).unwrap_or("an object").to_owned(), value_at(text, path))
    } else if let Some((expected, got)) = said.strip_prefix("expected ").and_then(|said| said.split_once(", got ")) {
        (here.to_owned(), expected.to_owned(), short(got))
    } else {
        let expected = match said.strip_prefix("expected ") {
            Some(expected) => expected.to_owned(),
            None if said.is_empty() || said.starts_with("unknown variant ") => {
                form(path).unwrap_or("of another type").to_owned()
            }
            None => format!("valid: {said}"),
        };
        (here.to_owned(), expected, value_at(text, path))
    };
    // A path has names of the caller.
    Invalid::new(short(&what), expected, got)
}

/// Explains text that is not JSON: the fault and its place.
fn syntax(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let (said, place) = said.rsplit_once(" at line ").unwrap_or((&said, ""));
    let why = match said {
        said if error.is_eof() => match said.rsplit(' ').next() {
            Some("object") => "it ends within an object",
            Some("list") => "it ends within an array",
            Some("string") => "it ends within a string",
            _ => "it ends too early",
        },
        "expected value" | "expected ident" => "a value is expected",
        "expected `:`" => "a colon is expected after a name",
        "expected `,` or `}`" => "a comma or `}` is expected",
        "expected `,` or `]`" => "a comma or `]` is expected",
        "key must be a string" => "a name in double quotes is expected",
        "trailing comma" => "a comma stands before the end of an object or array",
        "trailing characters" => "something follows the value",
        "invalid number" | "number out of range" => "a number is not valid",
        "recursion limit exceeded" => DEEP,
        said if said.starts_with("control character") => "a string contains a control character; write it as \\u…",
        said if said.contains("escape") || said.contains("surrogate") => "a string contains an invalid escape",
        _ => "it is not valid",
    };
    if place.is_empty() { why.to_owned() } else { format!("{why}, at line {place}") }
}

/// The received and the expected value, if a value has the wrong type or is out of bounds.
fn mismatch(said: &str) -> Option<(&str, &str)> {
    let said = ["invalid type: ", "invalid value: "].iter().find_map(|prefix| said.strip_prefix(prefix))?;
    said.rsplit_once(", expected ")
}

/// The field with several forms that has the wrong one: a word where an object is expected, or the reverse. serde speaks of
/// variants then, and the path may end with the word.
fn forms_of_variant<'a>(path: &'a str, said: &str) -> Option<(&'a str, &'static str)> {
    let (_, expected) = mismatch(said)?;
    if !["unit", "variant"].iter().any(|word| expected.ends_with(word)) {
        return None;
    }
    let parent = path.rsplit_once('.').map_or(path, |(parent, _)| parent);
    form(parent).map(|form| (parent, form)).or_else(|| form(path).map(|form| (path, form)))
}

/// The accepted forms of the field, if `FORMS` has it. A name without an index is a field.
fn form(path: &str) -> Option<&'static str> {
    let field = path.rsplit('.').next().unwrap_or(path);
    FORMS.iter().find(|(name, _)| *name == field).map(|(_, form)| *form)
}

/// "unknown field `x`, expected one of `a`, `b`", as what is accepted.
fn known_fields(rest: &str) -> String {
    // The unknown name is the caller's, so it may contain anything, of any length; the accepted names are ours.
    let (unknown, accepted) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
    let names: Vec<_> = accepted.split('`').skip(1).step_by(2).collect();
    known(unknown.strip_prefix('`').unwrap_or(unknown), &names)
}

/// Lists the accepted names, and suggests the one that an unknown name resembles.
pub(crate) fn known(unknown: &str, names: &[&str]) -> String {
    match (names, nearest(unknown, names)) {
        ([], _) => "no fields".to_owned(),
        ([name], _) => format!("`{name}`"),
        (names, Some(meant)) => format!("{MEANT}`{meant}`? Accepted: `{}`", names.join("`, `")),
        (names, None) => format!("one of `{}`", names.join("`, `")),
    }
}

/// The name that was probably meant.
fn nearest<'a>(unknown: &str, names: &[&'a str]) -> Option<&'a str> {
    if unknown.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let unknown = unknown.to_lowercase().replace('-', "_");
    let likeness = |name: &&&str| strsim::jaro_winkler(name, &unknown);
    names
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|best| likeness(best) >= LIKENESS_MIN)
        .copied()
}

/// A type, in the words of the documentation.
fn type_words(expected: &str) -> String {
    let whole = |max: u64| format!("a whole number from 0 to {max}");
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "string" | "str" | "a borrowed string" => "a string".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "an object".to_owned(),
        struct_name if struct_name.starts_with("struct ") => "an object".to_owned(),
        words => words.to_owned(),
    }
}

/// A value as serde describes it, in the words of the documentation.
fn value_words(got: &str) -> String {
    let inner = || short(got.split('`').nth(1).unwrap_or_default());
    match got.split(' ').next().unwrap_or_default() {
        "integer" | "floating" => format!("the number {}", inner()),
        "boolean" => inner(),
        "sequence" => "an array".to_owned(),
        "map" => "an object".to_owned(),
        "string" => short(got.trim_start_matches("string ")),
        "null" | "unit" => "null".to_owned(),
        _ => short(got),
    }
}

/// The value at a path of fields, described.
fn value_at(text: &str, path: &str) -> String {
    let read: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    let value = read
        .as_ref()
        .and_then(|value| if path.is_empty() { Some(value) } else { value.pointer(&format!("/{pointer}")) });
    match value {
        Some(serde_json::Value::Array(_)) => "an array".to_owned(),
        Some(serde_json::Value::Object(_)) => "an object".to_owned(),
        Some(serde_json::Value::Number(number)) => format!("the number {number}"),
        Some(value) => short(&value.to_string()),
        None => "something else".to_owned(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
