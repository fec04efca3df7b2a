//! Which options exclude each other, and which need another: as clap's definition says it.

use clap::builder::{OsStr, Resettable, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Id};
use std::ffi::OsString;

use super::keys::options;
use super::value::is_switch;

/// Whether two options exclude each other.
pub(super) fn exclude(serve: &Command, one: &Arg, other: &Arg) -> bool {
    let names = |from: &Arg, to: &Arg| serve.get_arg_conflicts_with(from).iter().any(|arg| arg.get_id() == to.get_id());
    names(one, other) || names(other, one)
}

/// The options that this one needs. clap does not tell, but says it when they are missing.
pub(super) fn needs(serve: &Command, arg: &Arg) -> Vec<Id> {
    let any_value = |arg: Arg| {
        let arg = arg.env(Resettable::<OsStr>::Reset);
        if is_switch(&arg) { arg } else { arg.value_parser(ValueParser::os_string()) }
    };
    let probe = serve.clone().no_binary_name(true).mut_args(any_value);
    let value = if is_switch(arg) { "" } else { "=1" };
    let flag = OsString::from(format!("--{}{value}", arg.get_long().unwrap_or_default()));
    let Err(error) = probe.try_get_matches_from([flag]) else { return Vec::new() };
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return Vec::new();
    }
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.clone(),
        Some(ContextValue::String(missing)) => vec![missing.clone()],
        _ => Vec::new(),
    };
    // As in a usage: `--broker <URL>`.
    let is_missing = |arg: &&Arg| {
        let flag = format!("--{}", arg.get_long().unwrap_or_default());
        missing.iter().any(|text| text.split([' ', '=']).next() == Some(&flag))
    };
    options(serve).filter(is_missing).map(|arg| arg.get_id().clone()).collect()
}
