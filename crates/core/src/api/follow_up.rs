//! The jobs of `then` and `otherwise`: what they are, and whether they are within all limits.

use super::Push;
use super::push::first_given;
use crate::json::{Unread, read};
use crate::limits::CHAIN_JOBS_MAX;
use crate::model::name;
use crate::{Error, FollowUp, Invalid, JobId, JobOptions, Millis, NewJob};
use std::sync::Arc;

/// Writes out what the jobs that follow leave out: their queue is this one by default.
///
/// # Errors [`Error::Invalid`] if one of them is no job.
#[doc(hidden)]
pub fn complete_follow_ups(options: &mut JobOptions, queue: &Arc<str>) -> Result<(), Error> {
    for (name, list) in [("then", &mut options.then), ("otherwise", &mut options.otherwise)] {
        let follow_ups = list.take().filter(|list| !list.is_empty());
        let complete =
            |(place, follow_up): (usize, &FollowUp)| match follow_up.push().and_then(|push| push.into_job(queue)) {
                Ok(job) => Ok(FollowUp::from(&job)),
                Err(error) => Err(within(name, place, error)),
            };
        *list = follow_ups.map(|list| list.iter().enumerate().map(complete).collect()).transpose()?;
    }
    Ok(())
}

/// The error about a field of one of these jobs.
fn within(name: &str, place: usize, error: Error) -> Error {
    match error {
        Error::Invalid(Invalid { what, expected, got }) => {
            Error::invalid(format!("{name}[{place}].{what}"), expected, got)
        }
        other => other,
    }
}

impl FollowUp {
    /// The push, without what tells one push from others: the end that begins this job does.
    fn push(&self) -> Result<Push<'_>, Error> {
        let push: Push<'_> = read(self.get()).map_err(Unread::into_invalid)?;
        let given = first_given([
            ("key", push.key.is_some()),
            ("origin", push.origin.is_some()),
            ("on_conflict", push.on_conflict.is_some()),
            ("key_until", push.key_until.is_some()),
        ]);
        match given {
            Some(field) => Err(Error::invalid(field, "left out: a job that follows has none", format!("`{field}`"))),
            None => Ok(push),
        }
    }
}

impl From<&NewJob> for FollowUp {
    fn from(job: &NewJob) -> Self {
        let json = serde_json::value::to_raw_value(&Push::from(job)).expect("it has only string keys");
        Self::of_json((&*json).into())
    }
}

/// Whether the jobs that begin with ends of this one keep all limits, and theirs.
///
/// # Errors
/// [`Error::Invalid`], naming the field.
pub(crate) fn check_follow_ups(options: &JobOptions, now: Millis, payload_bytes_max: usize) -> Result<(), Error> {
    check_chain(options, now, payload_bytes_max, 1)
}

fn check_chain(options: &JobOptions, now: Millis, payload_bytes_max: usize, place: usize) -> Result<(), Error> {
    if place == CHAIN_JOBS_MAX && options.has_follow_ups() {
        let name = if options.then.is_some() { "then" } else { "otherwise" };
        return Err(Error::invalid(name, format!("a chain of at most {CHAIN_JOBS_MAX} jobs"), "a longer one"));
    }
    each_follow_up(options, |job| {
        job.accept(JobId::MIN, now, payload_bytes_max)?;
        check_chain(&job.options, now, payload_bytes_max, place + 1)
    })
}

/// Does this with each job that follows one with these options.
///
/// # Errors
/// The first one, naming the field from here on, such as `then[0].delay`; [`Error::Invalid`] if one of them is no job.
pub(crate) fn each_follow_up(options: &JobOptions, visit: impl Fn(NewJob) -> Result<(), Error>) -> Result<(), Error> {
    for (name, list) in [("then", &options.then), ("otherwise", &options.otherwise)] {
        for (place, next) in list.iter().flat_map(|list| list.iter()).enumerate() {
            NewJob::try_from(next).and_then(&visit).map_err(|error| within(name, place, error))?;
        }
    }
    Ok(())
}

impl TryFrom<&FollowUp> for NewJob {
    type Error = Error;

    fn try_from(follow_up: &FollowUp) -> Result<Self, Error> {
        follow_up.push()?.into_job_alone(&Arc::from(name::QUEUE_DEFAULT))
    }
}
