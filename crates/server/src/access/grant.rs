//! What a token may do, and with which names: `push:orders.*`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What may be done. Each is for names: of queues, or of locks for [`Lock`](Self::Lock).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// Push jobs, and nothing else: not even look at them.
    Push,
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
    pub(crate) const ALL: [Self; 6] = [Self::Push, Self::Work, Self::Read, Self::Change, Self::Lock, Self::Admin];

    /// As it is written.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Work => "work",
            Self::Read => "read",
            Self::Change => "change",
            Self::Lock => "lock",
            Self::Admin => "admin",
        }
    }
}

/// Names: one, or all with a beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    One(Box<str>),
    Beginning(Box<str>),
}

/// The right to do something with these names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
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
        let is_named = match &self.names {
            Names::One(one) => **one == *name,
            Names::Beginning(beginning) => name.starts_with(&**beginning),
        };
        is_named && self.is_for(scope)
    }

    /// Whether it is the right to do this with any name.
    pub(crate) fn allows_all(&self, scope: Scope) -> bool {
        self.is_for(scope) && self.names == Names::Beginning(Box::default())
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
        let (names, is_beginning) = names.strip_suffix('*').map_or((names, false), |beginning| (beginning, true));
        if names.contains('*') || (names.is_empty() && !is_beginning) {
            return Err(format!("expected a name, or the beginning of names and * at its end, got {text:?}"));
        }
        let names = Box::from(names);
        Ok(Self { scope, names: if is_beginning { Names::Beginning(names) } else { Names::One(names) } })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.scope.word();
        match &self.names {
            Names::One(name) => write!(f, "{word}:{name}"),
            Names::Beginning(beginning) if beginning.is_empty() => f.write_str(word),
            Names::Beginning(beginning) => write!(f, "{word}:{beginning}*"),
        }
    }
}

impl TryFrom<String> for Grant {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
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
