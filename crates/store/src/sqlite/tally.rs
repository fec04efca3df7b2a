//! Rows by queue and state: changed in memory while a transaction runs, and written at its end.

use super::fault::Fault;
use duetime_core::Stage;
use duetime_core::ports::Tally;
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::Arc;

/// How the tallies change in one transaction.
#[derive(Default)]
pub(super) struct Changes {
    queues: HashMap<Arc<str>, [i64; 4]>,
    /// The queue that rows are just about: neighbours mostly have it in common.
    last: Option<(Arc<str>, [i64; 4])>,
}

impl Changes {
    /// So many rows more (or fewer) of a queue in this stage.
    pub(super) fn add(&mut self, queue: &Arc<str>, stage: Stage, rows: i64) {
        match &mut self.last {
            Some((last, tally)) if last == queue => tally[place(stage)] += rows,
            _ => {
                self.settle();
                let mut tally = [0; 4];
                tally[place(stage)] = rows;
                self.last = Some((queue.clone(), tally));
            }
        }
    }

    fn settle(&mut self) {
        if let Some((queue, changes)) = self.last.take() {
            let tally = self.queues.entry(queue).or_default();
            tally.iter_mut().zip(changes).for_each(|(rows, change)| *rows += change);
        }
    }

    /// A row went from one stage to another.
    pub(super) fn moved(&mut self, queue: &Arc<str>, from: Stage, to: Stage) {
        if from != to {
            self.add(queue, from, -1);
            self.add(queue, to, 1);
        }
    }

    /// Writes them.
    pub(super) fn write(mut self, connection: &Connection) -> Result<(), Fault> {
        self.settle();
        for (queue, [pending, succeeded, failed, cancelled]) in self.queues {
            if [pending, succeeded, failed, cancelled] == [0; 4] {
                continue;
            }
            connection
                .prepare_cached(
                    "INSERT INTO duetime_tallies (queue, pending, succeeded, failed, cancelled) \
                     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET pending = pending + ?2, \
                     succeeded = succeeded + ?3, failed = failed + ?4, cancelled = cancelled + ?5",
                )?
                .execute((&*queue, pending, succeeded, failed, cancelled))?;
            if pending + succeeded + failed + cancelled < 0 {
                // So that queues used once do not pile up.
                connection
                    .prepare_cached(
                        "DELETE FROM duetime_tallies WHERE queue = ?1 \
                         AND pending = 0 AND succeeded = 0 AND failed = 0 AND cancelled = 0",
                    )?
                    .execute([&*queue])?;
            }
        }
        Ok(())
    }
}

fn place(stage: Stage) -> usize {
    match stage {
        Stage::Pending => 0,
        Stage::Succeeded => 1,
        Stage::Failed => 2,
        Stage::Cancelled => 3,
    }
}

/// All of them, by queue.
pub(super) fn all(connection: &Connection) -> Result<Vec<(Arc<str>, Tally)>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT queue, pending, succeeded, failed, cancelled FROM duetime_tallies ORDER BY queue")?;
    let rows = statement.query_map([], |row| {
        let tally = Tally { pending: row.get(1)?, succeeded: row.get(2)?, failed: row.get(3)?, cancelled: row.get(4)? };
        Ok((row.get(0)?, tally))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
