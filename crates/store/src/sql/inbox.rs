//! The inbox: rows that applications insert in their own transactions, and their conversion to jobs.

use super::call::Verb;
use super::fault::Fault;
use super::record::record;
use super::row::NewRow;
use super::session::Session;
use super::tally;
use crate::sums::Tallies;
use async_trait::async_trait;
use duetime_core::ports::{Admitted, INBOX_BYTES_MAX, InboxRow, Verdict};
use std::collections::HashSet;

/// The first rows after this number that have not been refused.
pub(super) async fn waiting(session: &mut Session, after: i64, limit: usize) -> Result<Vec<InboxRow>, Fault> {
    let mut bytes = 0;
    let fits = |(_, size): &(i64, usize)| {
        let has_room = bytes < INBOX_BYTES_MAX;
        bytes = bytes.saturating_add(*size);
        has_room
    };
    let hits = session.inbox_hits(after, limit).await?;
    let numbers: Vec<i64> = hits.into_iter().take_while(fits).map(|(number, _)| number).collect();
    let mut rows = session.inbox_rows(&numbers).await?;
    rows.sort_unstable_by_key(|row| row.number);
    Ok(rows)
}

/// Verdicts on rows. Rows that are gone or locked by another transaction are skipped, so each row becomes one job.
pub(super) struct Admit(pub(super) Vec<(i64, Verdict)>);

#[async_trait]
impl Verb for Admit {
    type Answer = Vec<Admitted>;
    const WRITES: bool = true;

    async fn run(&mut self, session: &mut Session, is_careful: bool) -> Result<Vec<Admitted>, Fault> {
        let mut numbers: Vec<i64> = self.0.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        let locked: HashSet<i64> = session.lock_inbox(&numbers).await?.into_iter().collect();
        let is_there = |number: &i64| locked.contains(number);

        let mut tallies = Tallies::default();
        let jobs = self.0.iter().filter_map(|(number, verdict)| match verdict {
            // Filed for the loader: this transaction cannot know whether a broker has it.
            Verdict::Record(job) if is_there(number) => Some(NewRow::new(job, 0)),
            _ => None,
        });
        let jobs: Vec<NewRow<'_>> = jobs.collect();
        let mut recorded = record(session, &jobs, &mut tallies, is_careful).await?.into_iter();

        let (mut done, mut refused, mut admitted) = (Vec::new(), Vec::new(), Vec::with_capacity(self.0.len()));
        for (number, verdict) in &self.0 {
            let answer = match verdict {
                _ if !is_there(number) => Admitted::Gone,
                Verdict::Record(_) => recorded.next().map_or(Admitted::Gone, Admitted::Recorded),
                Verdict::Refuse(_) | Verdict::Remove => Admitted::Done,
            };
            match (answer, verdict) {
                (Admitted::Done, Verdict::Refuse(reason)) => refused.push((*number, reason.as_str())),
                (answer, _) if answer.is_done() => done.push(*number),
                _ => {}
            }
            admitted.push(answer);
        }
        session.delete_inbox(&done).await?;
        session.refuse_inbox(&refused).await?;
        tally::write(tallies, session).await?;
        Ok(admitted)
    }
}
