//! Checks how the given options fit together: which exclude each other, and which need another.
//!
//! If two exclude each other, the one of higher precedence counts: `--broker` overrides the file's `store`, and any options
//! that need `store`. If both have the same precedence, that is a mistake. clap does not check these rules, since it does
//! not know where a value comes from.

use super::keys::{key, options};
use super::option_values::{Mistake, OptionValues};
use clap::{Arg, Command, Id};
use std::collections::BTreeMap;

/// The options that exclude each other, each pair in the order of the help.
const EXCLUDING: [(&str, &str); 2] = [("store", "broker"), ("broker", "durability")];
/// The options that an option needs, all of them.
const NEEDS: [(&str, &[&str]); 5] = [
    ("ledger", &["broker"]),
    ("ledger_connections", &["broker", "ledger"]),
    ("no_migrate", &["broker", "ledger"]),
    ("ledger_may_lose", &["broker", "ledger"]),
    ("settle", &["broker", "ledger"]),
];

/// The options that this one needs.
pub(super) fn needs(name: &str) -> &'static [&'static str] {
    NEEDS.iter().find(|(needing, _)| *needing == name).map_or(&[], |(_, needed)| needed)
}

/// Checks the given options. Removes those put aside, and reports the flag, variable or line of each.
pub(super) fn check(serve: &Command, given: &mut BTreeMap<Id, OptionValues>) -> (Vec<Mistake>, Vec<String>) {
    let mut judge = Judge { given, mistakes: Vec::new(), aside: Vec::new(), lost: BTreeMap::new() };
    let args: BTreeMap<&str, &Arg> = options(serve).map(|arg| (arg.get_id().as_str(), arg)).collect();
    for (one, other) in EXCLUDING {
        judge.exclude(args[one], args[other]);
    }
    let mut on: Vec<_> = options(serve).filter(|arg| judge.is_on(arg.get_id().as_str())).collect();
    on.sort_by_key(|arg| std::cmp::Reverse(judge.given[arg.get_id()].from.rank()));
    on.into_iter().for_each(|arg| judge.need(arg));
    (judge.mistakes, judge.aside)
}

struct Judge<'a> {
    given: &'a mut BTreeMap<Id, OptionValues>,
    mistakes: Vec<Mistake>,
    aside: Vec<String>,
    /// The options put aside, each with what replaced it and that one's rank.
    lost: BTreeMap<Id, (String, u8)>,
}

impl Judge<'_> {
    fn is_on(&self, name: &str) -> bool {
        self.given.get(name).is_some_and(OptionValues::is_on)
    }

    fn exclude(&mut self, one: &Arg, other: &Arg) {
        if ![one, other].iter().all(|arg| self.is_on(arg.get_id().as_str())) {
            return;
        }
        let rank = |arg: &Arg| self.given[arg.get_id()].from.rank();
        let (high, low) = if rank(other) > rank(one) { (other, one) } else { (one, other) };
        let (by, rank, is_above) = (self.given[high.get_id()].named(high), rank(high), rank(high) > rank(low));
        if is_above {
            self.put_aside(low, &by, rank);
        } else {
            let named = self.given[low.get_id()].named(low);
            self.mistake(low, format!("{named} cannot be used with {by}: remove one of them"));
        }
    }

    fn need(&mut self, arg: &Arg) {
        let missing: Vec<_> = needs(arg.get_id().as_str()).iter().filter(|name| !self.is_on(name)).collect();
        if missing.is_empty() {
            return;
        }
        // If a needed option was overridden from a source of higher precedence than this one, this one is put aside too.
        match missing.iter().find_map(|name| self.lost.get(**name)).cloned() {
            Some((by, rank)) if rank > self.given[arg.get_id()].from.rank() => self.put_aside(arg, &by, rank),
            ground => {
                let names: Vec<_> = missing.iter().map(|name| format!("`{name}`")).collect();
                let why = ground.map_or_else(|| "not given".to_owned(), |(by, _)| format!("overridden by {by}"));
                let named = self.given[arg.get_id()].named(arg);
                let verb = if names.len() == 1 { "is" } else { "are" };
                self.mistake(arg, format!("{named} needs {}, which {verb} {why}", names.join(" and ")));
            }
        }
    }

    fn put_aside(&mut self, arg: &Arg, by: &str, rank: u8) {
        if let Some(given) = self.given.remove(arg.get_id()) {
            self.aside.push(format!("{} is overridden by {by}", given.named(arg)));
            self.lost.insert(arg.get_id().clone(), (by.to_owned(), rank));
        }
    }

    fn mistake(&mut self, arg: &Arg, text: String) {
        let from = Some(self.given[arg.get_id()].from.clone());
        self.mistakes.push(Mistake { key: Some(key(arg)), from, text });
    }
}
