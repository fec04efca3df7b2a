//! One transaction for the work of several callers.

use super::apply;
use super::call::Verb;
use super::fault::Fault;
use super::queue::{Task, Work};
use super::record;
use super::row::NewRow;
use super::session::Session;
use super::tally;
use crate::sums::Tallies;
use async_trait::async_trait;
use duetime_core::ports::{OutboxEntry, Recorded};
use duetime_core::{JobId, Millis};

/// The work of several tasks.
pub(super) struct Group<'a> {
    tasks: &'a [Task],
    /// The results for all new jobs in the last attempt, in order.
    found: Vec<Recorded>,
    /// The results of an earlier attempt that may have been committed. A job that it created and that is now reported as a
    /// repeat was created by this call.
    before: Option<Vec<Recorded>>,
}

impl<'a> Group<'a> {
    pub(super) fn new(tasks: &'a [Task]) -> Self {
        Self { tasks, found: Vec::new(), before: None }
    }
}

/// What became of the work.
#[derive(Clone, Default)]
pub(super) struct Answers {
    /// Of each new job, in order.
    pub(super) recorded: Vec<Recorded>,
    /// The ids of successors that other jobs have.
    pub(super) taken: Vec<JobId>,
}

#[async_trait]
impl Verb for Group<'_> {
    type Answer = Answers;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, is_careful: bool) -> Result<Answers, Fault> {
        let mut tallies = Tallies::default();
        let mut entries: Vec<(&OutboxEntry, Millis)> = Vec::new();
        let mut jobs: Vec<NewRow<'_>> = Vec::new();
        for task in self.tasks {
            match &task.work {
                Work::Apply(these, _) => entries.extend(these.iter().map(|entry| (entry, task.watermark))),
                Work::Record(these, _) => jobs.extend(these.iter().map(|job| NewRow::new(job, task.watermark))),
            }
        }
        let taken = apply::apply(session, &entries, &mut tallies).await?;
        self.found = record::record(session, &jobs, &mut tallies, is_careful).await?;
        tally::write(tallies, session).await?;
        if let Some(before) = &self.before {
            for (found, before) in self.found.iter_mut().zip(before) {
                if (*before, *found) == (Recorded::Created, Recorded::Repeat) {
                    *found = Recorded::Created;
                }
            }
        }
        Ok(Answers { recorded: self.found.clone(), taken })
    }

    fn unsure(&mut self) -> bool {
        self.before = Some(self.found.clone());
        true
    }
}
