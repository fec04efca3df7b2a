//! Changes of rows that a transaction has locked, written with as few statements as possible.

use super::fault::Fault;
use super::row::{Head, NewRow};
use super::session::Session;
use crate::sums::Tallies;
use duetime_core::{Job, JobId, Stage};

/// Changes of rows, each row at most once.
#[derive(Default)]
pub(super) struct Changes<'a> {
    gone: Vec<JobId>,
    /// Rows without a key. They are written first: keys are freed before they are taken.
    without: Vec<NewRow<'a>>,
    with: Vec<NewRow<'a>>,
    /// Jobs whose payload and tags are written, too.
    bodies: Vec<&'a Job>,
    untagged: Vec<(&'a str, JobId)>,
    tagged: Vec<(&'a str, JobId)>,
}

impl<'a> Changes<'a> {
    /// Removes a row, whose job had reached this stage.
    pub(super) fn remove(&mut self, stored: &'a Head, last: Stage, tallies: &mut Tallies) {
        self.gone.push(stored.id);
        self.untagged.extend(stored.tags.iter().map(|tag| (&**tag, stored.id)));
        tallies.removed(&stored.queue, stored.stage, last);
    }

    /// Changes a row, including payload and tags if `body` is given.
    pub(super) fn change(&mut self, stored: &'a Head, row: NewRow<'a>, body: Option<&'a Job>, tallies: &mut Tallies) {
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

    /// Writes all changes.
    pub(super) async fn write(self, session: &mut Session) -> Result<(), Fault> {
        session.delete(&self.gone).await?;
        session.untag(&self.untagged).await?;
        session.change(&self.without).await?;
        session.change(&self.with).await?;
        session.rewrite(&self.bodies).await?;
        session.tag(&self.tagged).await
    }
}
