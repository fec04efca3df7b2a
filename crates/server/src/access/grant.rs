//! The rights of a token, each with the names it covers: `push:orders.*`.

use super::names::Names;
use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::fmt;
use std::str::FromStr;

/// A right. It covers names of queues, or of locks for [`Lock`](Self::Lock).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// Push jobs, and nothing else: not even look at them.
    Push,
    /// Give jobs that are pushed their own target.
    Target,
    /// Reserve, take, settle and extend.
    Work,
    /// Look at jobs, queues, schedules, events and metrics.
    Read,
    /// Cancel, reschedule, run, retry and delete jobs.
    Change,
    /// Hold locks, and look at them.
    Lock,
    /// All of these, and settings, pauses, purges and schedules.
    Admin,
}

impl Scope {
    /// All of them.
    pub(crate) const ALL: [Self; 7] =
        [Self::Push, Self::Target, Self::Work, Self::Read, Self::Change, Self::Lock, Self::Admin];

    /// In its text form.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Target => "target",
            Self::Work => "work",
            Self::Read => "read",
            Self::Change => "change",
            Self::Lock => "lock",
            Self::Admin => "admin",
        }
    }
}

/// The right to do something with these names.
#[derive(Clone, Debug, PartialEq, Eq, SerializeDisplay, DeserializeFromStr)]
pub(crate) struct Grant {
    scope: Scope,
    names: Names,
}

impl Grant {
    /// Whether it is the right to do this, with some name.
    pub(crate) fn is_for(&self, scope: Scope) -> bool {
        self.scope == scope || self.scope == Scope::Admin
    }

    /// Whether it is the right to do this with this name.
    pub(crate) fn allows(&self, scope: Scope, name: &str) -> bool {
        self.is_for(scope) && self.names.has(name)
    }

    /// The names that it is the right to do this with.
    pub(crate) fn names_for(&self, scope: Scope) -> Option<&Names> {
        self.is_for(scope).then_some(&self.names)
    }

    /// The least name from this one on with which it is the right to do this, or the beginning of such names.
    pub(crate) fn first_from<'a>(&'a self, scope: Scope, from: &'a str) -> Option<&'a str> {
        let first = match &self.names {
            Names::One(one) => (**one >= *from).then_some(&**one),
            Names::Beginning(beginning) if **beginning >= *from => Some(&**beginning),
            Names::Beginning(beginning) => from.starts_with(&**beginning).then_some(from),
        };
        first.filter(|_| self.is_for(scope))
    }

    /// Whether it is the right to do this with any name.
    pub(crate) fn allows_all(&self, scope: Scope) -> bool {
        self.is_for(scope) && self.names.are_all()
    }
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let words = Scope::ALL.map(Scope::word).join(", ");
            format!("expected a right such as push:orders.* or read (one of {words}), got {text:?}")
        };
        let (word, names) = text.split_once(':').unwrap_or((text, "*"));
        let scope = Scope::ALL.into_iter().find(|scope| scope.word() == word).ok_or_else(wrong)?;
        Ok(Self { scope, names: names.parse()? })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.scope.word();
        if self.names.are_all() { f.write_str(word) } else { write!(f, "{word}:{}", self.names) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(text: &str) -> Grant {
        let grant: Grant = text.parse().unwrap();
        assert_eq!(grant.to_string(), text);
        grant
    }

    #[test]
    fn a_right_is_for_its_names_only() {
        let orders = grant("push:orders.*");
        for (name, may) in [("orders.eu", true), ("orders.", true), ("orders", false), ("mail", false)] {
            assert_eq!(orders.allows(Scope::Push, name), may, "{name}");
        }
        assert!(!orders.allows(Scope::Work, "orders.eu") && !orders.allows_all(Scope::Push));
        let mail = grant("work:mail");
        assert!(mail.allows(Scope::Work, "mail") && !mail.allows(Scope::Work, "mails"));
        assert!(grant("read").allows(Scope::Read, "any") && grant("read").allows_all(Scope::Read));
        assert_eq!("read:*".parse(), Ok(grant("read")));
    }

    #[test]
    fn a_right_says_where_its_names_begin() {
        let orders = grant("read:orders.*");
        for (from, first) in [("", Some("orders.")), ("orders.eu", Some("orders.eu")), ("orderz", None)] {
            assert_eq!(orders.first_from(Scope::Read, from), first, "{from}");
        }
        assert_eq!(orders.first_from(Scope::Work, ""), None);
        assert_eq!(grant("read").first_from(Scope::Read, "b"), Some("b"));
        let mail = grant("read:mail");
        assert_eq!((mail.first_from(Scope::Read, "a"), mail.first_from(Scope::Read, "mail$")), (Some("mail"), None));
    }

    #[test]
    fn admin_is_every_right() {
        for scope in Scope::ALL {
            assert!(grant("admin").allows_all(scope));
            assert!(grant("admin:shop.*").allows(scope, "shop.a") && !grant("admin:shop.*").allows(scope, "a"));
            assert_eq!(grant(scope.word()).is_for(Scope::Admin), scope == Scope::Admin);
        }
    }

    #[test]
    fn what_is_no_right_is_refused() {
        for text in ["", "all", "push:", "push:a*b", "push:**", "Push", "push,work", ":a"] {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
    }

    #[test]
    fn whatever_is_written_is_a_right_or_refused() {
        duetime_core::testing::fuzz("grant", |text| text.parse::<Grant>().ok().map(|grant| grant.to_string()));
    }
}
