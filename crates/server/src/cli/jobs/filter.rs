//! Options that say which jobs.

use crate::cli::exit::Failure;
use crate::cli::time::instant;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};
use duetime_core::api::Timestamp;
use duetime_core::engine::Query;
use duetime_core::{State, States};
use std::ffi::OsStr;
use std::sync::Arc;

/// The word for scheduled or ready jobs that have had an attempt.
const RETRYING: &str = "retrying";

/// Reads a state, or `retrying`. The word that another queue uses is refused with ours.
#[derive(Clone, Debug)]
struct StateWord;

impl StateWord {
    fn known() -> PossibleValuesParser {
        State::ALL.iter().map(|state| state.word()).chain([RETRYING]).collect::<Vec<_>>().into()
    }
}

impl TypedValueParser for StateWord {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        Self::known().parse_ref(command, arg, value).map_err(|mut error| {
            if let Some(ours) = value.to_str().and_then(States::word_here) {
                error.insert(ContextKind::SuggestedValue, ContextValue::String(ours.to_owned()));
            }
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values: Vec<_> = Self::known().possible_values()?.collect();
        Some(Box::new(values.into_iter()))
    }
}

/// Which jobs.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Filter {
    /// Only jobs in this queue
    #[arg(long, short, value_name = "QUEUE", help_heading = "Which jobs")]
    pub(crate) queue: Option<Arc<str>>,
    /// Only jobs in this state; repeatable
    #[arg(long, short, value_name = "STATE", value_parser = StateWord, help_heading = "Which jobs")]
    pub(crate) state: Vec<String>,
    /// Only jobs with this tag
    #[arg(long, short, value_name = "TAG", help_heading = "Which jobs")]
    pub(crate) tag: Option<Arc<str>>,
    /// Only jobs with this key; needs --queue
    #[arg(long, value_name = "KEY", requires = "queue", help_heading = "Which jobs")]
    pub(crate) key: Option<Arc<str>>,
    /// Only jobs of this kind
    #[arg(long, short, value_name = "KIND", help_heading = "Which jobs")]
    pub(crate) kind: Option<Arc<str>>,
    /// Only jobs due at or after this time, such as 2027-01-31T08:00:00Z or -1h
    #[arg(long, value_name = "TIME", value_parser = instant, allow_hyphen_values = true, help_heading = "Which jobs")]
    pub(crate) due_from: Option<Timestamp>,
    /// Only jobs due at or before this time
    #[arg(long, value_name = "TIME", value_parser = instant, allow_hyphen_values = true, help_heading = "Which jobs")]
    pub(crate) due_to: Option<Timestamp>,
}

impl Filter {
    /// In the form of an engine's query.
    pub(crate) fn query(&self) -> Result<Query, Failure> {
        let retrying = self.state.iter().any(|word| word == RETRYING);
        if retrying && self.state.len() > 1 {
            return Err(Failure::usage("the state `retrying` cannot be combined with others"));
        }
        let states = State::ALL.into_iter().filter(|state| self.state.iter().any(|word| word == state.word()));
        Ok(Query {
            queue: self.queue.clone(),
            key: self.key.clone(),
            tag: self.tag.clone(),
            kind: self.kind.clone(),
            state: States { states: states.collect(), retrying },
            due_from: self.due_from,
            due_to: self.due_to,
        })
    }
}
