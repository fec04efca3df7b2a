//! Values: whether an option takes one, by the option's own parser.

use super::keys::flag;
use crate::cli::usage::value_words;
use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use std::any::TypeId;
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use toml::de::DeValue;

/// Whether the option is on or off, and takes no value.
pub(super) fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Whether its value may hold a password.
pub(super) fn is_secret(arg: &Arg) -> bool {
    arg.is_hide_env_values_set()
}

/// Whether it may be given several times.
pub(super) fn takes_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Whether it takes a plain number.
pub(super) fn is_number(arg: &Arg) -> bool {
    let of = arg.get_value_parser().type_id();
    let types = [TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()];
    types.iter().any(|id| of == *id)
}

fn is_text(arg: &Arg) -> bool {
    let of = arg.get_value_parser().type_id();
    [TypeId::of::<String>(), TypeId::of::<OsString>(), TypeId::of::<PathBuf>()].iter().any(|id| of == *id)
}

/// The value of a file, as it would be written after the flag.
///
/// # Errors
/// The expected and the given value.
pub(super) fn from_file(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<OsString>, String> {
    let wrong = |value: &DeValue<'_>| format!("expected {}, got {}", expected(arg), article(value.type_str()));
    let one = |value: &DeValue<'_>| match value {
        DeValue::Boolean(on) if is_switch(arg) => Ok(on.to_string()),
        DeValue::String(text) if !is_switch(arg) && !is_number(arg) => Ok(text.to_string()),
        DeValue::Integer(number) if !is_switch(arg) && !is_text(arg) => {
            let decimal = i64::from_str_radix(number.as_str(), number.radix());
            decimal.map(|number| number.to_string()).map_err(|_| "expected a smaller number".to_owned())
        }
        DeValue::Float(number) if !is_switch(arg) && !is_text(arg) => Ok(number.as_str().to_owned()),
        other => Err(wrong(other)),
    };
    let texts = match value {
        DeValue::Array(values) if takes_many(arg) => {
            values.iter().map(|value| one(value.get_ref())).collect::<Result<Vec<_>, _>>()?
        }
        value => vec![one(value)?],
    };
    let values: Vec<OsString> = texts.into_iter().map(OsString::from).collect();
    values.iter().try_for_each(|value| check(arg, value)).map(|()| values)
}

fn expected(arg: &Arg) -> &'static str {
    match arg {
        arg if is_switch(arg) => "true or false",
        arg if takes_many(arg) => "a string or an array of strings",
        arg if is_number(arg) => "a number",
        _ => "a string",
    }
}

fn article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// Whether the option takes this value.
///
/// # Errors
/// The expected and the given value; the given value is left out if it may be secret.
pub(super) fn check(arg: &Arg, value: &OsStr) -> Result<(), String> {
    let shown = || format!("{:?}", value.to_string_lossy());
    if is_switch(arg) {
        let is_right = value == "true" || value == "false";
        return if is_right { Ok(()) } else { Err(format!("expected true or false, got {}", shown())) };
    }
    let alone = arg.clone().env(Resettable::<clap::builder::OsStr>::Reset);
    let command = Command::new("check").no_binary_name(true).disable_help_flag(true).disable_version_flag(true);
    let Err(error) = command.arg(alone).try_get_matches_from([with_value(arg, value)]) else { return Ok(()) };
    if is_secret(arg) {
        return Err("the value is invalid; it is not shown because it may contain a password".to_owned());
    }
    let words: Vec<_> = arg.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
    Err(match error.source() {
        Some(source) => {
            let said = value_words(source);
            // Our own parsers name the received value.
            if said.contains(", got ") { said } else { format!("{said}, got {}", shown()) }
        }
        None if error.kind() == ErrorKind::InvalidValue && !words.is_empty() => {
            format!("expected one of {}, got {}", words.join(", "), shown())
        }
        None => {
            format!("expected {}, got {}", arg.get_value_names().map_or("a value", |names| names[0].as_str()), shown())
        }
    })
}

/// The option with a value, as an argument; a switch by itself.
pub(super) fn with_value(arg: &Arg, value: &OsStr) -> OsString {
    let mut argument = OsString::from(flag(arg));
    if !is_switch(arg) {
        argument.push("=");
        argument.push(value);
    }
    argument
}
