//! The keys of a file: the long flags of `serve`, with `_` instead of `-`.

use super::{FILE, TEST};
use clap::{Arg, ArgAction, Command};

/// Below this likeness two words have nothing to do with each other.
const LIKENESS_MIN: f64 = 0.75;
/// The key of a table that means the table's own flag.
const OWN: &str = "url";

/// The options that a file may have, in the order of the help.
pub(super) fn options(serve: &Command) -> impl Iterator<Item = &Arg> {
    let is_option = |arg: &&Arg| arg.get_long().is_some() && ![FILE, TEST].contains(&arg.get_id().as_str());
    serve.get_arguments().filter(move |arg| is_option(arg) && !is_help(arg))
}

fn is_help(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort | ArgAction::Version)
}

/// The flag of an option, with its dashes.
pub(super) fn flag(arg: &Arg) -> String {
    format!("--{}", arg.get_long().unwrap_or_default())
}

/// The key of an option.
pub(super) fn key(arg: &Arg) -> String {
    arg.get_long().unwrap_or_default().replace('-', "_")
}

/// The option that a path of keys names: a table is a prefix, and its `url` the flag of the table's own name.
pub(super) fn find<'a>(serve: &'a Command, path: &[&str]) -> Option<&'a Arg> {
    let named = |name: &str| options(serve).find(|arg| key(arg) == name);
    let own = path.split_last().filter(|(last, before)| **last == OWN && !before.is_empty());
    named(&path.join("_")).or_else(|| own.and_then(|(_, before)| named(&before.join("_"))))
}

/// The key that may have been meant.
pub(super) fn nearest(serve: &Command, name: &str) -> Option<String> {
    let name = name.replace('-', "_").to_lowercase();
    let likeness = |key: &String| strsim::jaro_winkler(key, &name);
    let best = options(serve).map(key).max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) >= LIKENESS_MIN).then_some(best)
}
