//! Filters for states.

use super::job::State;
use crate::invalid::Invalid;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;

/// The filter beside the states: scheduled or ready jobs that have had an attempt.
const RETRYING: &str = "retrying";

const EXPECTED_STATE: &str = "scheduled, ready, running, succeeded, failed, cancelled or retrying";
/// Words of other queues, and ours.
const ELSEWHERE: [(&str, &str); 18] = [
    ("active", "running"),
    ("canceled", "cancelled"),
    ("completed", "succeeded"),
    ("dead", "failed"),
    ("dead_letter", "failed"),
    ("delayed", "scheduled"),
    ("discarded", "failed"),
    ("done", "succeeded"),
    ("enqueued", "ready"),
    ("error", "failed"),
    ("executing", "running"),
    ("finished", "succeeded"),
    ("pending", "ready"),
    ("queued", "ready"),
    ("reserved", "running"),
    ("retry", RETRYING),
    ("success", "succeeded"),
    ("waiting", "ready"),
];

/// States to look for: a word, or an array of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// Any of these; empty for all.
    pub states: Vec<State>,
    /// Only those that have had an attempt.
    pub retrying: bool,
}

impl States {
    /// Whether it asks for no state in particular.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty() && !self.retrying
    }

    /// The words for them, as in JSON.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.states.iter().map(|state| state.word()).chain(self.retrying.then_some(RETRYING))
    }

    /// Our word for a state that other queues call so: `dead` jobs are `failed` here.
    #[doc(hidden)]
    pub fn word_here(word: &str) -> Option<&'static str> {
        ELSEWHERE.iter().find(|(other, _)| other.eq_ignore_ascii_case(word)).map(|(_, ours)| *ours)
    }

    /// Adds what a word says.
    ///
    /// # Errors
    /// [`Invalid`] for any other, and where `retrying` is not alone.
    pub fn add(&mut self, word: &str) -> Result<(), Invalid> {
        match State::ALL.into_iter().find(|state| state.word() == word) {
            Some(state) => self.states.push(state),
            None if word == RETRYING => self.retrying = true,
            None => {
                let ours = Self::word_here(word).map(|ours| format!(", which is `{ours}` here")).unwrap_or_default();
                return Err(Invalid::new("state", EXPECTED_STATE, format!("{word:?}{ours}")));
            }
        }
        if self.retrying && !self.states.is_empty() {
            return Err(Invalid::new("state", "`retrying` alone, or other states", "both"));
        }
        Ok(())
    }
}

impl Serialize for States {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.words())
    }
}

impl<'de> Deserialize<'de> for States {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = States;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a state, or an array of states")
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<States, E> {
                let mut states = States::default();
                states.add(word).map_err(E::custom)?;
                Ok(states)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut words: A) -> Result<States, A::Error> {
                let mut states = States::default();
                while let Some(word) = words.next_element::<Cow<'_, str>>()? {
                    states.add(&word).map_err(de::Error::custom)?;
                }
                Ok(states)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl From<Vec<State>> for States {
    fn from(states: Vec<State>) -> Self {
        Self { states, retrying: false }
    }
}

impl From<State> for States {
    fn from(state: State) -> Self {
        Self::from(vec![state])
    }
}
