//! Variables of the environment with a mistyped name, which would be ignored without a word.

use super::output::note;
use clap::{Arg, Command};
use std::collections::BTreeSet;

/// All variables of ours begin with this.
const PREFIX: &str = "DUETIME_";
/// Variables that are no option's: of the client, and those that the commands of `work` and `lock` find.
const OTHERS: [&str; 17] = [
    "SERVER",
    "LEDGER",
    "TOKEN",
    "TOKEN_FILE",
    "CA",
    "ID",
    "QUEUE",
    "KIND",
    "ATTEMPT",
    "DUE_AT",
    "DUE_AT_MS",
    "TAGS",
    "KEY",
    "RECEIPT",
    "EPOCH",
    "FENCE",
    "LOCK",
];
/// A name less similar than this is probably another program's variable.
const LIKENESS_MIN: f64 = 0.9;

/// Says which variables are probably mistyped.
pub(super) fn note_mistyped(command: &Command) {
    for text in mistakes(command) {
        note!("duetime: {text}");
    }
}

/// The variables of this process that are probably mistyped, in words.
pub(super) fn mistakes(command: &Command) -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let said = |(name, meant)| format!("the variable {name} is unknown and ignored; did you mean {meant}?");
    mistyped(command, names).into_iter().map(said).collect()
}

fn mistyped(command: &Command, names: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let mut known: BTreeSet<String> = OTHERS.iter().map(|name| (*name).to_owned()).collect();
    collect(command, &mut known);
    let nearest = |name: &str| {
        let likeness = |known: &&String| strsim::jaro_winkler(known, name);
        known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|best| likeness(best) >= LIKENESS_MIN)
    };
    names
        .filter_map(|name| {
            let own = name.strip_prefix(PREFIX).filter(|own| !known.contains(*own))?;
            let meant = format!("{PREFIX}{}", nearest(own)?);
            Some((name, meant))
        })
        .collect()
}

fn collect(command: &Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(Arg::get_env).filter_map(|name| name.to_str()?.strip_prefix(PREFIX));
    known.extend(names.map(str::to_owned));
    command.get_subcommands().for_each(|command| collect(command, known));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_variable_is_noticed_and_no_other() {
        let names = ["DUETIME_LISTN", "DUETIME_SERVR", "DUETIME_LISTEN", "DUETIME_RECEIPT", "DUETIME_DIR", "LISTN"];
        let found = mistyped(&crate::cli::command(), names.into_iter().map(str::to_owned));
        let pair = |name: &str, meant: &str| (name.to_owned(), meant.to_owned());
        assert_eq!(found, [pair("DUETIME_LISTN", "DUETIME_LISTEN"), pair("DUETIME_SERVR", "DUETIME_SERVER")]);
    }
}
