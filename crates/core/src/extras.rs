//! What few jobs have, and what is therefore kept together: a target of their own, a trace, and hops. A job's retry rule, key and
//! tags are not among it: more jobs have those, and stores look by them.

use crate::job::Job;
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A job's target, trace and hops as every store keeps them: as one JSON object, or nothing where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Extras {
    /// See [`Job::target`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<Target>>,
    /// See [`Job::trace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
    /// See [`Job::hops`].
    #[serde(skip_serializing_if = "is_zero")]
    pub hops: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Extras {
    /// Those of a job, where it has any.
    pub fn of(job: &Job) -> Option<Self> {
        let extras = Self { target: job.target.clone(), trace: job.trace.clone(), hops: job.hops };
        (extras != Self::default()).then_some(extras)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::job;

    #[test]
    fn what_a_job_has_comes_back() {
        assert_eq!(Extras::of(&job(1)), None);
        let target: Arc<Target> = Arc::new(serde_json::from_str(r#"{"queue":"mail"}"#).unwrap());
        let trace = Some(Arc::from("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        let some =
            [(Some(target.clone()), None, 0), (None, trace.clone(), 0), (None, None, 3), (Some(target), trace, 1)];
        for (target, trace, hops) in some {
            let extras = Extras::of(&Job { target, trace, hops, ..job(1) }).unwrap();
            let text = serde_json::to_string(&extras).unwrap();
            assert_eq!(serde_json::from_str::<Extras>(&text).unwrap(), extras, "{text}");
        }
    }
}
