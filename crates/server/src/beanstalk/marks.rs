//! What a job needs for this protocol alone. The core keeps it as [`Marks`].

use duetime_core::Job;
use duetime_core::model::marks::Marks;
use std::sync::Arc;

/// The marks of a job. Attempts (`reserves`), crashes (`timeouts`) and releases are counted for every job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JobMarks {
    /// Number of buries.
    pub(super) buries: u64,
    /// Number of kicks.
    pub(super) kicks: u64,
    /// The delay of its last release, in milliseconds; `None`: that of its put.
    pub(super) delay_ms: Option<u64>,
    /// Its time to run in seconds, if that is longer than the longest lease.
    pub(super) ttr_s: Option<u64>,
}

impl JobMarks {
    pub(super) fn of(marks: Option<&Arc<Marks>>) -> Self {
        let mark = |name| marks.and_then(|marks| marks.get(name));
        Self {
            buries: mark("buries").unwrap_or(0),
            kicks: mark("kicks").unwrap_or(0),
            delay_ms: mark("delay_ms"),
            ttr_s: mark("ttr_s"),
        }
    }

    pub(super) fn of_job(job: &Job) -> Self {
        Self::of(job.options().marks.as_ref())
    }

    pub(super) fn shared(self) -> Option<Arc<Marks>> {
        let Self { buries, kicks, delay_ms, ttr_s } = self;
        let count = |number: u64| (number > 0).then_some(number);
        let marks = [("buries", count(buries)), ("kicks", count(kicks)), ("delay_ms", delay_ms), ("ttr_s", ttr_s)];
        marks.into_iter().filter_map(|(name, mark)| Some((name, mark?))).collect::<Marks>().shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back() {
        let all = JobMarks { buries: 1, kicks: 2, delay_ms: Some(0), ttr_s: Some(50_000) };
        for marked in [JobMarks::default(), all, JobMarks { buries: 0, ..all }, JobMarks { delay_ms: None, ..all }] {
            let marks = marked.shared();
            assert_eq!(JobMarks::of(marks.as_ref()), marked);
            assert_eq!(marks.map_or(Ok(()), |marks| marks.check()), Ok(()));
        }
        assert_eq!(JobMarks::default().shared(), None);
    }
}
