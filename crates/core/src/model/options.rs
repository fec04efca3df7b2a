//! Rarely used options, kept as one value: one column or slot in every store, which is empty for other jobs. Fields that
//! scripts, indexes or views read stay separate: see [`Job`](crate::Job).
//!
//! A new option is a field here; [`check`](JobOptions::check) and [`moved`](JobOptions::moved) name every field, so that a
//! forgotten one does not compile.

use super::follow_up::{self, FollowUp, FollowUps, Previous};
use super::marks::Marks;
use super::meta::{self, Meta};
use super::retry::Retry;
use super::sent::Sent;
use super::target::Target;
use super::trace;
use crate::invalid::Invalid;
use crate::json::is_zero;
use crate::limits::MOVES_MAX;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A job's own retry rule, target, trace and metadata, how often it was moved and released, and the marks of a port. The same
/// JSON in stores and in the API.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOptions {
    /// Its retry rule. A job inherits what is unset from its queue.
    #[serde(flatten)]
    pub retry: Retry,
    /// Its own target, which replaces its queue's target. The queue must have one.
    pub target: Option<Arc<Target>>,
    /// The trace that it belongs to: a W3C `traceparent`.
    pub trace: Option<Arc<str>>,
    /// Metadata of its caller, such as a tenant or a user.
    pub meta: Option<Arc<Meta>>,
    /// Jobs that are pushed when it succeeds, in the same step: at most 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: FollowUps,
    /// Jobs that are pushed when it has failed for good, was cancelled, or has expired, in the same step: at most 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: FollowUps,
    /// The job whose end pushed this one.
    #[doc(hidden)]
    pub previous: Option<Arc<Previous>>,
    /// How often it was moved between queues, at most [`MOVES_MAX`] times.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "is_zero")]
    pub moves: u32,
    /// How often it was released. Brokers keep it beside the attempts, and ledgers write the options of a job that has any with
    /// each change.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "is_zero")]
    pub releases: u32,
    /// What a port keeps with it.
    #[doc(hidden)]
    pub marks: Option<Arc<Marks>>,
    /// Whether an import brought it, so that another store chose its id. Only the engine's admission asks; the API does not
    /// show it.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    /// What the push with its origin sent, whatever the job has become since. Only the engine compares it; the API does not
    /// show it.
    #[doc(hidden)]
    pub sent: Option<Sent>,
}

/// Declares a struct with the [`JobOptions`] that a caller gives between its own fields, as they stand in JSON.
macro_rules! with_options {
    (
        $(#[$meta:meta])*
        pub struct $name:ident<$life:lifetime> { $($before:tt)* } { $($after:tt)* }
    ) => {
        $crate::model::retry::with_rule! {
            $(#[$meta])*
            pub struct $name<$life> { $($before)* } {
                /// The target of this job, instead of its queue's.
                #[cfg_attr(feature = "openapi", schema(value_type = Option<$crate::Target>))]
                pub target: Option<std::sync::Arc<$crate::Target>>,
                /// The trace that it belongs to: a W3C `traceparent`.
                #[cfg_attr(feature = "openapi", schema(value_type = Option<$crate::json::schema::Trace>))]
                #[serde(default, deserialize_with = "crate::json::text::some")]
                pub trace: Option<std::sync::Arc<str>>,
                /// Metadata of the caller, such as a tenant or a user: shown with the job, but not searched. To find jobs, use tags.
                #[cfg_attr(feature = "openapi", schema(value_type = Option<$crate::json::schema::Meta>))]
                pub meta: Option<std::sync::Arc<$crate::Meta>>,
                /// Jobs that are pushed when it succeeds, in the same step. They have the fields of a push, but no key and no origin.
                #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<$crate::json::schema::FollowUp>>, max_items = 16))]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub then: $crate::model::follow_up::FollowUps,
                /// Jobs that are pushed when it has failed for good, was cancelled, or has expired.
                #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<$crate::json::schema::FollowUp>>, max_items = 16))]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub otherwise: $crate::model::follow_up::FollowUps,
                $($after)*
            }
        }

        impl<$life> $name<$life> {
            /// The given options of a job.
            pub fn options(&self) -> $crate::JobOptions {
                $crate::JobOptions {
                    then: self.then.clone(),
                    otherwise: self.otherwise.clone(),
                    ..$crate::JobOptions::given(self.rule(), self.target.clone(), self.trace.clone(), self.meta.clone())
                }
            }

            /// The same with these options.
            #[must_use]
            pub fn with_options(self, options: &$crate::JobOptions) -> Self {
                let $crate::JobOptions { retry, target, trace, meta, then, otherwise, .. } = options.clone();
                Self { target, trace, meta, then, otherwise, ..self.with_rule(retry) }
            }
        }
    };
}
pub(crate) use with_options;

/// A literal of such a struct: its own fields, and no options.
macro_rules! without_options {
    ($name:ident { $($own:tt)* }) => {
        $crate::model::retry::without_rule!($name { target: None, trace: None, meta: None, then: None, otherwise: None, $($own)* })
    };
}
pub(crate) use without_options;

/// The options of a job that has none.
pub(crate) static NONE: JobOptions = JobOptions {
    retry: Retry::INHERITED,
    target: None,
    trace: None,
    meta: None,
    then: None,
    otherwise: None,
    previous: None,
    moves: 0,
    releases: 0,
    marks: None,
    imported: false,
    sent: None,
};

impl From<Retry> for JobOptions {
    fn from(retry: Retry) -> Self {
        Self { retry, ..Self::default() }
    }
}

impl JobOptions {
    /// All that a caller can give.
    #[doc(hidden)]
    pub fn given(retry: Retry, target: Option<Arc<Target>>, trace: Option<Arc<str>>, meta: Option<Arc<Meta>>) -> Self {
        let meta = meta.filter(|meta| !meta.is_empty());
        Self { retry, target, trace, meta, ..NONE.clone() }
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == NONE
    }

    /// Whether others may begin with the end of the job.
    #[doc(hidden)]
    pub fn has_follow_ups(&self) -> bool {
        self.then.is_some() || self.otherwise.is_some()
    }

    /// The bytes of the jobs before and after it.
    #[doc(hidden)]
    pub fn chain_bytes(&self) -> usize {
        let lists = [&self.then, &self.otherwise].into_iter().flatten().map(|list| follow_up::bytes(list));
        lists.sum::<usize>() + self.previous.as_ref().map_or(0, |previous| previous.bytes())
    }

    /// The jobs that may begin with an end of the job.
    #[doc(hidden)]
    pub fn all_follow_ups(&self) -> impl Iterator<Item = &FollowUp> {
        [&self.then, &self.otherwise].into_iter().flatten().flat_map(|list| list.iter())
    }

    /// Metadata of its caller; empty by default.
    pub fn meta(&self) -> &Meta {
        self.meta.as_deref().unwrap_or(&meta::NONE)
    }

    /// Sets a value of the metadata. One that the name had is replaced.
    pub fn set_meta(&mut self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) {
        Arc::make_mut(self.meta.get_or_insert_default()).set(name, value);
    }

    /// In the form that a job stores.
    #[doc(hidden)]
    pub fn shared(self) -> Option<Arc<Self>> {
        (!self.is_empty()).then(|| Arc::new(self))
    }

    /// Whether everything keeps its limits, for a job in this queue.
    ///
    /// # Errors
    /// [`Invalid`], naming the field.
    #[doc(hidden)]
    pub fn check(&self, queue: &str) -> Result<(), Invalid> {
        let Self { retry, target, trace, meta, then, otherwise, previous: _, .. } = self;
        let Self { moves, releases: _, marks, imported: _, sent: _, .. } = self;
        if *moves > MOVES_MAX {
            return Err(Invalid::new("moves", format!("at most {MOVES_MAX}"), moves));
        }
        retry.check(queue)?;
        target.as_ref().map_or(Ok(()), |target| target.check())?;
        marks.as_ref().map_or(Ok(()), |marks| marks.check())?;
        meta.as_ref().map_or(Ok(()), |meta| meta.check())?;
        follow_up::check("then", then)?;
        follow_up::check("otherwise", otherwise)?;
        trace.as_ref().map_or(Ok(()), |trace| trace::check(trace))
    }

    /// The options of a copy in another queue: that queue's retry rule and target apply there. The copy leads to what its
    /// original would have led to.
    #[doc(hidden)]
    #[must_use]
    pub fn moved(&self) -> Self {
        Self {
            retry: Retry::default(),
            target: None,
            moves: self.moves + 1,
            releases: 0,
            marks: None,
            imported: false,
            sent: None,
            ..self.clone()
        }
    }

    /// Whether both are the same but for the number of releases.
    #[doc(hidden)]
    pub fn is_but_for_releases(&self, other: &Self) -> bool {
        *self == Self { releases: self.releases, ..other.clone() }
    }

    /// About how many bytes of memory they take.
    pub(crate) fn bytes(&self) -> usize {
        let Self { trace, meta, marks, .. } = self;
        let of_marks = marks.as_ref().map_or(0, |marks| marks.bytes());
        let of_meta = meta.as_ref().map_or(0, |meta| meta.bytes());
        size_of::<Self>() + trace.as_ref().map_or(0, |trace| trace.len()) + of_marks + of_meta + self.chain_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Span;
    use crate::model::retry::WhenExhausted;

    #[test]
    fn options_read_back() {
        let target: Arc<Target> = Arc::new(serde_json::from_str(r#"{"queue":"mail"}"#).unwrap());
        let trace = Some(Arc::from("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        let marks = Marks::from_iter([("parks", 2)]).shared();
        let retry = Retry {
            max_attempts: Some(3),
            max_age: Some(Span(60_000)),
            when_exhausted: Some(WhenExhausted::Move("dead".into())),
            ..Retry::default()
        };
        let meta = Some(Arc::new(Meta::from_iter([("tenant", "7")])));
        let sent = Some(crate::NewJob::new(*b"1").sent());
        let list = |json: &str| Some([serde_json::from_str(json).unwrap()].into());
        let previous = serde_json::from_str(r#"{"id":"1","queue":"a","state":"succeeded","result":[ 1 ]}"#).unwrap();
        let all = JobOptions {
            retry,
            target: Some(target),
            trace,
            meta,
            then: list(r#"{"queue": "mail", "payload": 1.0}"#),
            otherwise: list("{}"),
            previous: Some(Arc::new(previous)),
            moves: 2,
            releases: 3,
            marks,
            imported: true,
            sent,
        };
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"max_attempts":3,"max_age":"1m","when_exhausted":{"move":"dead"},"target":{"queue":"mail"},"#,
                r#""trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","meta":{"tenant":"7"},"then":[{"queue": "mail", "payload": 1.0}],"otherwise":[{}],"previous":{"id":"1","queue":"a","state":"succeeded","result":[ 1 ]},"moves":2,"releases":3,"marks":{"parks":2},"imported":true,"sent":"fDgy3eAg1HCELlNnhcPzdUJlD2Dggmll"}"#
            )
        );
        let some = [
            JobOptions { target: None, ..all.clone() },
            JobOptions { retry: Retry::default(), meta: None, moves: 0, ..all.clone() },
            all,
        ];
        for options in some {
            let text = serde_json::to_string(&options).unwrap();
            assert_eq!(serde_json::from_str::<JobOptions>(&text).unwrap(), options, "{text}");
        }
        assert_eq!(JobOptions::default().shared(), None);
        assert_eq!(NONE, JobOptions::default());
    }
}
