//! What fits together of all that was given: what excludes what, and what needs what.
//!
//! Of two that exclude each other the one of higher precedence counts: `--broker` puts the file's `store` aside, and
//! with it what needs that. Of the same precedence neither does, and that is a mistake.

use super::keys::{key, options};
use super::relations::{exclude, needs};
use super::settings::{Given, Mistake};
use clap::{Arg, Command, Id};
use std::collections::BTreeMap;

/// Judges what was given; what is put aside is removed, and told by which flag, variable or line.
pub(super) fn check(serve: &Command, given: &mut BTreeMap<Id, Given>) -> (Vec<Mistake>, Vec<String>) {
    let mut judge = Judge { serve, given, mistakes: Vec::new(), aside: Vec::new(), lost: BTreeMap::new() };
    judge.exclusions();
    judge.needs();
    (judge.mistakes, judge.aside)
}

struct Judge<'a> {
    serve: &'a Command,
    given: &'a mut BTreeMap<Id, Given>,
    mistakes: Vec<Mistake>,
    aside: Vec<String>,
    /// What was put aside, and what did that.
    lost: BTreeMap<Id, (String, u8)>,
}

impl<'a> Judge<'a> {
    /// Those that are given, the highest precedence first.
    fn on(&self) -> Vec<&'a Arg> {
        let rank =
            |arg: &&Arg| self.given.get(arg.get_id()).filter(|given| given.is_on()).map(|given| given.from.rank());
        let mut on: Vec<_> = options(self.serve).filter(|arg| rank(arg).is_some()).collect();
        on.sort_by_key(|arg| std::cmp::Reverse(rank(arg)));
        on
    }

    fn exclusions(&mut self) {
        let on = self.on();
        for (place, higher) in on.iter().enumerate() {
            for lower in &on[place + 1..] {
                if !exclude(self.serve, higher, lower) {
                    continue;
                }
                let (Some(high), Some(low)) = (self.given.get(higher.get_id()), self.given.get(lower.get_id())) else {
                    continue;
                };
                if high.from.rank() > low.from.rank() {
                    let (by, rank) = (high.named(higher), high.from.rank());
                    self.put_aside(lower, &by, rank);
                } else {
                    let (high, low) = (high.named(higher), low.named(lower));
                    let from = self.given[lower.get_id()].from.clone();
                    let text = format!("{low} cannot be used with {high}: name one of them");
                    self.mistakes.push(Mistake { key: Some(key(lower)), from, text });
                }
            }
        }
    }

    fn put_aside(&mut self, arg: &Arg, by: &str, rank: u8) {
        if let Some(given) = self.given.remove(arg.get_id()) {
            self.aside.push(format!("{} is put aside by {by}", given.named(arg)));
            self.lost.insert(arg.get_id().clone(), (by.to_owned(), rank));
        }
    }

    fn needs(&mut self) {
        for arg in self.on() {
            let Some(given) = self.given.get(arg.get_id()) else { continue };
            let is_on = |id: &Id| self.given.get(id).is_some_and(Given::is_on);
            let missing: Vec<Id> = needs(self.serve, arg).into_iter().filter(|id| !is_on(id)).collect();
            if missing.is_empty() {
                continue;
            }
            // Where it was given before what took away its ground, it falls with it.
            let ground = missing.iter().find_map(|id| self.lost.get(id)).cloned();
            match ground {
                Some((by, rank)) if rank > given.from.rank() => self.put_aside(arg, &by, rank),
                ground => {
                    let flags: Vec<_> = options(self.serve).filter(|arg| missing.contains(arg.get_id())).collect();
                    let names: Vec<_> = flags.iter().map(|arg| format!("`{}`", key(arg))).collect();
                    let why = ground.map_or_else(|| "not given".to_owned(), |(by, _)| format!("put aside by {by}"));
                    let text = format!("{} needs {}, which is {why}", given.named(arg), names.join(" and "));
                    let from = given.from.clone();
                    self.mistakes.push(Mistake { key: Some(key(arg)), from, text });
                }
            }
        }
    }
}
