//! Names of queues or locks in rights and keys: `orders.eu`, or `orders.*` for all with this prefix.

use std::fmt;
use std::str::FromStr;

/// Names: one, or all with a beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// This one.
    One(Box<str>),
    /// Names with this prefix.
    Beginning(Box<str>),
}

impl Names {
    /// Whether a name is one of these.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::One(one) => **one == *name,
            Self::Beginning(beginning) => name.starts_with(&**beginning),
        }
    }

    /// The common prefix of all these names.
    pub(crate) fn beginning(&self) -> &str {
        match self {
            Self::One(text) | Self::Beginning(text) => text,
        }
    }

    /// Whether it is one name.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// All of them by name, and no name twice.
    pub(crate) fn in_order(mut all: Vec<&Self>) -> Vec<&Self> {
        all.sort_by_key(|names| (names.beginning(), names.is_one()));
        let mut apart: Vec<&Self> = Vec::with_capacity(all.len());
        for names in all {
            if !apart.iter().any(|other| other.has(names.beginning())) {
                apart.push(names);
            }
        }
        apart
    }

    /// Whether all names are these.
    pub(crate) fn are_all(&self) -> bool {
        matches!(self, Self::Beginning(beginning) if beginning.is_empty())
    }
}

impl FromStr for Names {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, is_beginning) = text.strip_suffix('*').map_or((text, false), |beginning| (beginning, true));
        if name.contains('*') || (name.is_empty() && !is_beginning) {
            return Err(format!("expected a name, or a prefix followed by *, got {text:?}"));
        }
        Ok(if is_beginning { Self::Beginning(name.into()) } else { Self::One(name.into()) })
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(name) => f.write_str(name),
            Self::Beginning(beginning) => write!(f, "{beginning}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_there_twice() {
        let read = |text: &str| text.split(' ').map(|names| names.parse().unwrap()).collect::<Vec<Names>>();
        let in_order = |text: &str| {
            let names = read(text);
            Names::in_order(names.iter().collect()).into_iter().map(Names::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(in_order("b a.* a.b a.b.* a a.* ab"), "a a.* ab b");
        assert_eq!(in_order("a a* aa"), "a*");
    }
}
