//! Changes of jobs: read, decided by the rules, and written if the version is still the one that was read. If another change
//! came in between, the job is read again.

use super::call::Text;
use super::codec::Record;
use super::jobs::{Jobs, bytes, groups_by_size};
use super::scripts;
use duetime_core::ports::Detail;
use duetime_core::{Error, Job, JobId, Stage};
use std::collections::HashSet;

/// How often a change is retried after concurrent changes.
const ROUNDS: usize = 20;

/// The decision about a job that was read.
pub(super) enum Step<T> {
    /// Nothing; return this.
    Answer(T),
    /// Write the job, and the new jobs that begin with its end.
    Write(Box<Record>, Vec<Job>, T),
}

/// The result of a change.
pub(super) enum ChangeResult<T> {
    Of(T),
    /// Another job holds the key that the changed job would hold.
    KeyHeld(JobId, Box<Record>),
}

/// The result of writing a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteResult {
    Changed,
    /// The job has changed since it was read.
    Mismatch,
    KeyHeld(JobId),
}

/// A job before and after its change.
struct Write {
    was: Record,
    now: Record,
    successors: Vec<u8>,
}

impl Write {
    /// About how many bytes it takes in a call.
    fn bytes(&self) -> usize {
        self.now.bytes() + self.successors.len()
    }
}

impl Jobs {
    /// Decides on each of these jobs and returns the results; if a job is named twice, one after the other. If the head of a
    /// job was read before, the decision is based on that, and the job is read only if it has changed since.
    pub(super) async fn change<T>(
        &self,
        ids: &[JobId],
        mut heads: Vec<Option<Record>>,
        decide: impl Fn(usize, Option<&Record>) -> Step<T>,
    ) -> Result<Vec<ChangeResult<T>>, Error> {
        let mut came: Vec<Option<ChangeResult<T>>> = ids.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..ids.len()).collect();
        for _ in 0..ROUNDS + ids.len() {
            if left.is_empty() {
                break;
            }
            let mut named = HashSet::new();
            let (round, mut later): (Vec<usize>, Vec<usize>) = left.iter().partition(|&&i| named.insert(ids[i]));
            let unread = round.iter().filter(|&&i| heads[i].is_none()).map(|&i| ids[i]);
            let mut read = self.records(&unread.collect::<Vec<_>>(), Detail::Whole).await?.into_iter();
            let (mut writes, mut answers) = (Vec::new(), Vec::new());
            for i in round {
                let record = heads[i].take().or_else(|| read.next().flatten());
                match (decide(i, record.as_ref()), record) {
                    (Step::Write(now, successors, answer), Some(was)) => {
                        let successors = successors.into_iter().flat_map(|job| Record::new(job).packed()).collect();
                        writes.push(Write { was, now: *now, successors });
                        answers.push((i, answer));
                    }
                    (Step::Answer(answer) | Step::Write(_, _, answer), _) => came[i] = Some(ChangeResult::Of(answer)),
                }
            }
            let made = self.write(&mut writes).await?;
            for (((i, answer), made), write) in answers.into_iter().zip(made).zip(writes) {
                match made {
                    WriteResult::Changed => came[i] = Some(ChangeResult::Of(answer)),
                    WriteResult::KeyHeld(holder) => came[i] = Some(ChangeResult::KeyHeld(holder, Box::new(write.was))),
                    WriteResult::Mismatch => later.push(i),
                }
            }
            left = later;
        }
        let all: Option<Vec<ChangeResult<T>>> = came.into_iter().collect();
        all.ok_or_else(|| Error::Unavailable("jobs are changed by others all the time".into()))
    }

    async fn write(&self, writes: &mut [Write]) -> Result<Vec<WriteResult>, Error> {
        let mut made = vec![WriteResult::Mismatch; writes.len()];
        if self.partitions.is_ledger() {
            writes.iter_mut().for_each(|write| write.now.rewritten = false);
        }
        let sizes = writes.iter().map(|write| (self.partitions.of(write.now.job.id), write.bytes()));
        for (partition, chosen) in groups_by_size(sizes) {
            let mut queues: Vec<&str> = chosen.iter().map(|&i| writes[i].now.job.queue.as_ref()).collect();
            queues.sort_unstable();
            queues.dedup();
            // A call that is sent again after a lost reply gets the answers of its first attempt.
            let request = self.partitions.requests.begin();
            let arguments = |text: &mut Text| {
                text.number(self.partitions.options.ended_max as u64);
                text.number(self.partitions.options.dead_max as u64);
                text.push(request.name.as_bytes());
                for &i in &chosen {
                    let number = queues.binary_search(&writes[i].now.job.queue.as_ref()).unwrap_or(0);
                    self.describe(&writes[i], number, text);
                }
            };
            let mut reply =
                self.partitions.run_request(partition, &scripts::CHANGE, &request.key, &queues, arguments).await?;
            let mut answers = reply.list()?;
            for i in chosen {
                made[i] = match answers.number_or_id()? {
                    Ok(1) => WriteResult::Changed,
                    Ok(_) => WriteResult::Mismatch,
                    Err(holder) => WriteResult::KeyHeld(holder),
                };
            }
            self.entry_backlog(partition, reply.number()? as u64);
        }
        Ok(made)
    }

    /// The 13 values that the script expects of a job.
    fn describe(&self, write: &Write, queue: usize, text: &mut Text) {
        let (old, new) = (&write.was.job, &write.now.job);
        text.push(&bytes(new.id));
        text.number(queue as u64 + 1);
        text.number(old.version);
        text.push(&write.now.full_meta());
        let body =
            if write.now.shares_body(&write.was) { Vec::new() } else { write.now.body(self.partitions.is_ledger()) };
        text.push(&body);
        text.push(fate(&write.now).as_bytes());
        text.number(new.due_at.0);
        text.number(new.start_by().unwrap_or(0));
        text.flag(!self.partitions.is_ledger());
        text.push(&new.result.as_ref().map(|result| [b"=", &**result].concat()).unwrap_or_default());
        text.push(&write.successors);
        text.number(u64::from(old.priority));
        text.number(u64::from(new.priority));
    }
}

/// The new state of a job, in the script's terms.
fn fate(record: &Record) -> &'static str {
    match record.job.stage {
        _ if record.removed => "gone",
        Stage::Pending if record.job.lease_until.is_some() => "runs",
        Stage::Pending => "waits",
        _ => "ended",
    }
}
