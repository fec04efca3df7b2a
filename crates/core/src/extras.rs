//! What few jobs have, and what is therefore kept together: a target of their own, and a trace. A job's retry rule, key and
//! tags are not among it: more jobs have those, and stores look by them.

use crate::job::Job;
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A job's target and trace as every store keeps them: as one JSON object, or nothing where there is neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Extras {
    /// See [`Job::target`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<Target>>,
    /// See [`Job::trace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
}

impl Extras {
    /// Those of a job, where it has any.
    pub fn of(job: &Job) -> Option<Self> {
        let extras = Self { target: job.target.clone(), trace: job.trace.clone() };
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
        for (target, trace) in [(Some(target.clone()), None), (None, trace.clone()), (Some(target), trace)] {
            let extras = Extras::of(&Job { target, trace, ..job(1) }).unwrap();
            let text = serde_json::to_string(&extras).unwrap();
            assert_eq!(serde_json::from_str::<Extras>(&text).unwrap(), extras, "{text}");
        }
    }
}
