//! Changes of jobs: read, decided by the rules, and written where the version is still the one that was read.

use super::codec::Record;
use super::jobs::{bytes, place};
use super::reserve::ended;
use super::settle::{TRIES, note};
use super::{Parts, scripts};
use duetime_core::ports::{Change, Edit, Edited, Note};
use duetime_core::{Error, Job, JobId, Stage, rules};

/// What came of writing a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Changed,
    /// The job has changed since it was read.
    Mismatch,
    /// Another job holds the key that it would hold.
    KeyHeld(JobId),
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waits,
    Runs,
    Ended,
    Gone,
}

impl Fate {
    fn of(record: &Record) -> Self {
        match record.job.stage {
            _ if record.removed => Self::Gone,
            Stage::Pending if record.job.lease_until.is_some() => Self::Runs,
            Stage::Pending => Self::Waits,
            _ => Self::Ended,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Runs => "runs",
            Self::Ended => "ended",
            Self::Gone => "gone",
        }
    }
}

impl Parts {
    /// Changes live jobs.
    pub(super) async fn edit_live(&self, edits: Vec<Edit>) -> Result<(Vec<Edited>, Vec<Note>), Error> {
        let (mut edited, mut notes) = (Vec::with_capacity(edits.len()), Vec::new());
        for edit in edits {
            edited.push(self.edit_one(&edit, false, &mut notes).await?);
        }
        Ok((edited, notes))
    }

    /// Changes one job; one that has ended only where that is asked for.
    pub(super) async fn edit_one(&self, edit: &Edit, also_ended: bool, notes: &mut Vec<Note>) -> Result<Edited, Error> {
        for _ in 0..TRIES {
            let Some(record) = self.records(&[edit.id]).await?.pop().flatten() else {
                if !self.options.is_ledger {
                    let arguments = |text: &mut super::Text| text.push(&bytes(edit.id));
                    self.run(place(self, edit.id), &scripts::BURY, &[], arguments).await?;
                }
                return Ok(Edited::Unknown);
            };
            if !record.is_live() && !also_ended {
                return Ok(ended(&record.job));
            }
            let mut changed = record.clone();
            let made = rules::edit(&mut changed.job, edit.version, &edit.change, self.clock.now());
            if !matches!(made, Edited::Changed(_) | Edited::CancelAsked(_)) {
                return Ok(made);
            }
            changed.rewritten |= matches!(edit.change, Change::Update(_));
            changed.removed = matches!(edit.change, Change::Delete);
            match self.change(&record, &mut changed, None).await? {
                Made::Changed => {
                    if !self.options.is_ledger {
                        notes.push(note(changed));
                    }
                    return Ok(made);
                }
                Made::KeyHeld(holder) => {
                    let key = record.job.key.clone().unwrap_or_default();
                    return Ok(Edited::KeyHeld(holder, record.job.queue, key));
                }
                Made::Mismatch => {}
            }
        }
        Err(Error::Unavailable(format!("the job {} is changed by others all the time", edit.id)))
    }

    /// Writes a changed job where it still has the version that was read; perhaps with a copy that it leaves in another
    /// queue.
    pub(super) async fn change(
        &self,
        was: &Record,
        changed: &mut Record,
        successor: Option<&Job>,
    ) -> Result<Made, Error> {
        if self.options.is_ledger {
            changed.rewritten = false;
        }
        let (old, new) = (&was.job, &changed.job);
        let fate = Fate::of(changed);
        let is_new_body = old.payload != new.payload || old.tags != new.tags || old.priority != new.priority;
        let body = if is_new_body { changed.body() } else { Vec::new() };
        let meta = changed.full_meta();
        let result = new.result.as_ref().map(|result| [b"=", &**result].concat()).unwrap_or_default();
        let moved = successor.map(|successor| packed(&Record::new(successor.clone()))).unwrap_or_default();
        let arguments = |text: &mut super::Text| {
            text.number(self.options.ended_max as u64);
            text.number(self.options.dead_max as u64);
            text.push(&bytes(new.id));
            text.number(1);
            text.number(old.version);
            text.push(&meta);
            text.push(&body);
            text.push(fate.word().as_bytes());
            text.number(new.due_at);
            text.number(new.start_by().unwrap_or(0));
            text.flag(!self.options.is_ledger);
            text.push(&result);
            text.push(&moved);
            text.number(u64::from(old.priority));
            text.number(u64::from(new.priority));
        };
        let partition = place(self, new.id);
        let mut reply = self.run(partition, &scripts::CHANGE, &[&new.queue], arguments).await?;
        let answer = reply.list()?.number_or_id()?;
        self.note_backlog(partition, reply.number()? as u64);
        Ok(match answer {
            Ok(1) => Made::Changed,
            Ok(_) => Made::Mismatch,
            Err(holder) => Made::KeyHeld(holder),
        })
    }
}

/// A job as one value: the length of its body, the body, the meta.
pub(super) fn packed(record: &Record) -> Vec<u8> {
    let body = record.body();
    let length = u32::try_from(body.len()).expect("payloads are limited to 64 MiB");
    [&bytes(record.job.id)[..], &length.to_be_bytes(), &body, &record.full_meta()].concat()
}
