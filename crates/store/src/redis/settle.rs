//! Leases: extended, settled, run out.

use super::codec::Record;
use super::jobs::{bytes, groups, place};
use super::{Parts, scripts};
use duetime_core::ports::{Expired, Extended, Note, Settled};
use duetime_core::rules::{self, Decision, Finish};
use duetime_core::{Error, Receipt, Stage, State};

/// How often a change is tried that another one comes in between of.
pub(super) const TRIES: usize = 10;

impl Parts {
    pub(super) async fn settle_jobs(&self, decisions: Vec<(Receipt, Decision)>) -> Result<Settled, Error> {
        let mut settled = Settled { states: vec![None; decisions.len()], notes: Vec::new() };
        let (mut plain, mut others) = (Vec::new(), Vec::new());
        for (position, (receipt, decision)) in decisions.into_iter().enumerate() {
            match decision {
                Decision::Finish(finish) if is_plain(&finish) => plain.push((position, receipt, finish.result)),
                decision => others.push((position, receipt, decision)),
            }
        }
        for (partition, chosen) in groups(plain.iter().map(|(_, receipt, _)| place(self, receipt.id))) {
            let arguments = |text: &mut super::Text| {
                text.number(self.options.ended_max as u64);
                for &i in &chosen {
                    let (_, receipt, result) = &plain[i];
                    text.push(&bytes(receipt.id));
                    text.number(receipt.epoch);
                    text.push(&result.as_ref().map(|result| [b"=", &**result].concat()).unwrap_or_default());
                }
            };
            let mut reply = self.run(partition, &scripts::SETTLE, &[], arguments).await?;
            let mut stages = reply.list()?;
            for &i in &chosen {
                let stage = Stage::from_code(stages.number()? as u8);
                let is_this = |stage: &Stage| *stage == Stage::Succeeded;
                settled.states[plain[i].0] = stage.filter(is_this).and_then(Stage::end_state);
            }
            let noted = reply.list()?.records()?.into_iter().filter_map(|(_, record)| record);
            settled.notes.extend(noted.filter(|record| record.job.stage == Stage::Succeeded).map(note));
            if !self.options.is_ledger {
                self.note_backlog(partition, reply.number()? as u64);
            }
        }
        for (position, receipt, decision) in others {
            settled.states[position] = self.decide(receipt, &decision, &mut settled.notes).await?;
        }
        Ok(settled)
    }

    /// Carries one decision out, under the version that is read.
    async fn decide(
        &self,
        receipt: Receipt,
        decision: &Decision,
        notes: &mut Vec<Note>,
    ) -> Result<Option<State>, Error> {
        for _ in 0..TRIES {
            let Some(record) = self.records(&[receipt.id]).await?.pop().flatten() else {
                return self.buried_end(receipt, decision).await;
            };
            let now = self.clock.now();
            let holds = record.is_live() && record.job.lease_until.is_some() && record.job.receipt() == receipt;
            if !holds {
                let Decision::Finish(finish) = decision else { return Ok(None) };
                let is_this = record.job.receipt() == receipt && record.job.stage == finish.stage;
                let is_dropped = record.removed && record.job.receipt() == receipt;
                if !is_this && !is_dropped {
                    return Ok(None);
                }
                if !self.options.is_ledger {
                    notes.extend(self.outcomes_of(receipt.id).await?);
                }
                return Ok(finish.stage.end_state());
            }
            let (mut changed, drops, successor) = match decision {
                Decision::Finish(Finish { drop, successor, .. }) => (record.clone(), *drop, successor.as_deref()),
                Decision::Again(_) => (record.clone(), false, None),
            };
            rules::apply(&mut changed.job, decision.clone(), now);
            changed.removed = drops;
            let successor = successor.filter(|_| !drops);
            if self.change(&record, &mut changed, successor).await? == super::edit::Made::Changed {
                if !self.options.is_ledger {
                    notes.push(match successor {
                        Some(successor) => Note::Moved(changed.job.clone(), Box::new(successor.clone())),
                        None => note(changed.clone()),
                    });
                } else if let Some(successor) = successor {
                    notes.push(Note::Moved(changed.job.clone(), Box::new(successor.clone())));
                }
                return Ok(Some(changed.job.state(now)));
            }
        }
        Err(Error::Unavailable(format!("the job {} is changed by others all the time", receipt.id)))
    }

    /// The end of a job of which only a tombstone is left.
    async fn buried_end(&self, receipt: Receipt, decision: &Decision) -> Result<Option<State>, Error> {
        let Decision::Finish(finish) = decision else { return Ok(None) };
        let arguments = |text: &mut super::Text| {
            text.number(0);
            text.push(&bytes(receipt.id));
            text.number(receipt.epoch);
            text.push(b"");
        };
        let mut reply = self.run(place(self, receipt.id), &scripts::SETTLE, &[], arguments).await?;
        let stage = Stage::from_code(reply.list()?.number()? as u8);
        Ok(stage.filter(|stage| *stage == finish.stage).and_then(Stage::end_state))
    }

    pub(super) async fn extend_leases(&self, leases: Vec<(Receipt, Option<u64>)>) -> Result<Vec<Extended>, Error> {
        let mut extended = vec![Extended::Lost; leases.len()];
        for (partition, chosen) in groups(leases.iter().map(|(receipt, _)| place(self, receipt.id))) {
            let arguments = |text: &mut super::Text| {
                for &i in &chosen {
                    let (receipt, lease_ms) = leases[i];
                    text.push(&bytes(receipt.id));
                    text.number(receipt.epoch);
                    text.number(lease_ms.unwrap_or(0));
                }
            };
            let mut answers = self.run(partition, &scripts::EXTEND, &[], arguments).await?.list()?;
            for &i in &chosen {
                if let Err(mut answer) = answers.number_or_list()? {
                    let lease_until = answer.optional()?.unwrap_or(0);
                    let version = answer.optional()?.unwrap_or(0);
                    let (cancel_asked, is_noted) = (answer.number()? != 0, answer.number()? != 0);
                    extended[i] = Extended::Until { lease_until, version, cancel_asked, is_noted };
                }
            }
        }
        Ok(extended)
    }

    /// What has run out in the partitions that this process has to do with.
    pub(super) async fn expired_jobs(&self, limit: usize) -> Result<Expired, Error> {
        let mut expired = Expired::default();
        let mut next_ms: Option<u64> = None;
        for partition in self.used() {
            let arguments = |text: &mut super::Text| text.number(limit as u64);
            let mut reply = self.run(partition, &scripts::EXPIRED, &[], arguments).await?;
            let live = |record: Record| Some(record.job).filter(|job| job.is_pending());
            let jobs = |reply: super::Reply| -> Result<Vec<_>, Error> {
                Ok(reply.records()?.into_iter().filter_map(|(_, record)| live(record?)).collect())
            };
            expired.crashed.extend(jobs(reply.list()?)?);
            expired.unstarted.extend(jobs(reply.list()?)?);
            let next = u64::try_from(reply.number()?).ok();
            next_ms = [next_ms, next].into_iter().flatten().min();
            self.note_backlog(partition, reply.number()? as u64);
        }
        expired.next_ms = next_ms;
        Ok(expired)
    }
}

/// Whether it is a success with nothing said but a result, which needs no look at the job.
fn is_plain(finish: &Finish) -> bool {
    let Finish { stage, message, error, result: _, crashes, drop, successor } = finish;
    *stage == Stage::Succeeded
        && message.is_none()
        && error.is_none()
        && crashes.is_none()
        && !drop
        && successor.is_none()
}

/// The note of a job as it is kept.
pub(super) fn note(record: Record) -> Note {
    match (record.removed, record.rewritten) {
        (true, _) => Note::Removed(record.job),
        (_, true) => Note::Rewritten(record.job),
        _ => Note::Changed(record.job),
    }
}
