//! Plain messages for mistakes on the command line: clap leaves those about values to the parsers of the standard library,
//! and cannot detect a missing `--`.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use duetime_core::Redacted;
use duetime_core::api::Span;
use std::error::Error as StdError;
use std::ffi::OsString;

/// Commands that run a command given after `--`, with an example.
const RUNNERS: [(&str, &str); 2] = [
    ("work", "put `--` before the command to run: duetime work QUEUE -- COMMAND; or send jobs to a URL with --url"),
    ("lock", "put `--` before the command to run: duetime lock NAME -- COMMAND"),
];

/// Beginnings of the names of values that cannot begin with a minus. If one does, it is still read as the option's value, so
/// that the option's own parser says what it accepts.
const NOT_NEGATIVE: [&str; 4] = ["DURATION", "N", "NUMBER", "FENCE"];

/// Messages of the standard library about numbers, and their meaning.
const OF_NUMBERS: [(&str, &str); 5] = [
    ("invalid digit found", "expected a whole number"),
    ("cannot parse integer from empty", "expected a whole number"),
    ("number too large", "the number is too large"),
    ("number too small", "the number is too small"),
    ("number would be zero", "expected a whole number, 1 or more"),
];

/// Parses a duration from `LOW` to `HIGH` milliseconds.
///
/// # Errors
/// A message with both bounds.
pub(super) fn span<const LOW: u64, const HIGH: u64>(text: &str) -> Result<Span, String> {
    Span::parse_within(text, LOW, HIGH)
}

/// The command, with options that take a value such as `-1s` and refuse it with what they accept.
pub(super) fn with_negative_values(command: Command) -> Command {
    let is_number = |arg: &Arg| {
        let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        !arg.is_positional() && NOT_NEGATIVE.contains(&name.split('|').next().unwrap_or_default())
    };
    command
        .mut_args(|arg| if is_number(&arg) { arg.allow_hyphen_values(true) } else { arg })
        .mut_subcommands(with_negative_values)
}

/// A wrong value with a blank after it, as it may be repeated: an address is redacted, and nothing is repeated of what may
/// hold other secrets, such as the headers in JSON.
fn shown(value: &str) -> String {
    let is_address = value.contains("://");
    if value.contains('{') || (!is_address && value.rfind('@').is_some_and(|at| at > 0)) {
        String::new()
    } else if is_address {
        format!("'{}' ", Redacted(value))
    } else {
        format!("'{value}' ")
    }
}

/// The message of a parser of values, in plain words.
pub(crate) fn value_words(source: &(dyn StdError + 'static)) -> String {
    // Some parsers of ours pass on the text alone.
    let said = source.to_string();
    for (word, plain) in OF_NUMBERS {
        if said.contains(word) {
            return plain.to_owned();
        }
    }
    match said.split_once(" is not in ").and_then(|(_, range)| range.split_once("..=")) {
        Some((low, high)) => format!("expected a whole number from {low} to {high}"),
        None => said,
    }
}

/// The same mistake in plain language.
pub(super) fn plain(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let tip = tip(line);
    if error.kind() == ErrorKind::ValueValidation
        && let Some(source) = StdError::source(&error)
    {
        let said = value_words(source);
        if let (Some(ContextValue::String(arg)), Some(ContextValue::String(value))) =
            (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
            && (said != source.to_string() || tip.is_some() || shown(value) != format!("'{value}' "))
        {
            let value = shown(value);
            let tip = tip.map(|tip| format!("\n\n  tip: {tip}")).unwrap_or_default();
            let said =
                format!("invalid value {value}for '{arg}': {said}{tip}\n\nFor more information, try '--help'.\n");
            return clap::Error::raw(ErrorKind::ValueValidation, said);
        }
    }
    let lacks_command = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument);
    if let Some(tip) = tip.filter(|_| lacks_command) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// Advice for a command line that runs a command and lacks the `--` before it.
fn tip(line: &[OsString]) -> Option<&'static str> {
    let has = |wanted: &str| line.iter().any(|word| word == wanted);
    let (_, tip) = RUNNERS.iter().find(|(name, _)| line.get(1).is_some_and(|word| word == name))?;
    (line.len() > 2 && !has("--") && !has("--url")).then_some(*tip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_repeated() {
        for (value, expected) in [
            ("redis://me:hu@sh@db/0", "'redis://***@db/0' "),
            ("https://a.example/x?token=hush", "'https://a.example/x?***' "),
            (r#"{"headers":{"authorization":"hush"},"url":"ftp://a"}"#, ""),
            ("me:hush@a.example", ""),
            ("https://a.example/x", "'https://a.example/x' "),
            ("@dayly", "'@dayly' "),
            ("7 days", "'7 days' "),
        ] {
            assert_eq!(shown(value), expected);
        }
    }
}
