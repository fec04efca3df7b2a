//! What becomes of rows that a transaction has locked, written by as few statements as it takes.

use super::fault::Fault;
use super::row::{Head, Inserted};
use super::session::Session;
use crate::sums::Tallies;
use duetime_core::{Job, JobId, Stage};

/// Changes of rows, each row at most once.
#[derive(Default)]
pub(super) struct Changes<'a> {
    gone: Vec<JobId>,
    /// Rows that hold no key. They are written before those that do: keys are freed before they are taken.
    without: Vec<Inserted<'a>>,
    with: Vec<Inserted<'a>>,
    /// Jobs of which payload and tags are written, too.
    bodies: Vec<&'a Job>,
    untagged: Vec<(&'a str, JobId)>,
    tagged: Vec<(&'a str, JobId)>,
}

impl<'a> Changes<'a> {
    /// A row is gone, after its job came to this stage.
    pub(super) fn remove(&mut self, stored: &'a Head, last: Stage, tallies: &mut Tallies) {
        self.gone.push(stored.id);
        self.untagged.extend(stored.tags.iter().map(|tag| (&**tag, stored.id)));
        tallies.removed(&stored.queue, stored.stage, last);
    }

    /// A row is written again, also with payload and tags where they are given.
    pub(super) fn change(&mut self, stored: &'a Head, row: Inserted<'a>, body: Option<&'a Job>, tallies: &mut Tallies) {
        if stored.stage != row.job.stage {
            tallies.moved(&stored.queue, stored.stage, row.job.stage);
        }
        if row.live_key.is_none() { &mut self.without } else { &mut self.with }.push(row);
        let Some(body) = body else { return };
        self.bodies.push(body);
        if *stored.tags != *body.tags {
            self.untagged.extend(stored.tags.iter().map(|tag| (&**tag, stored.id)));
            self.tagged.extend(body.tags.iter().map(|tag| (&**tag, stored.id)));
        }
    }

    /// Writes them.
    pub(super) async fn write(self, session: &mut Session) -> Result<(), Fault> {
        session.delete(&self.gone).await?;
        session.untag(&self.untagged).await?;
        session.change(&self.without).await?;
        session.change(&self.with).await?;
        session.rewrite(&self.bodies).await?;
        session.tag(&self.tagged).await
    }
}
