//! External changes of rows that no broker holds. Any lease in such a row is therefore over.

use super::apply::{RowHead, free_key, remove, rewrite};
use super::fault::Fault;
use super::read;
use super::record::{holder, insert, is_known};
use super::task::Transaction;
use duetime_core::ports::{Change, Edit, Edited};
use duetime_core::{Millis, Numbers, rules};

/// Makes the changes, in order.
pub(super) fn edit(
    transaction: &mut Transaction<'_>,
    edits: &[Edit],
    now: Millis,
    watermark: Millis,
) -> Result<Vec<Edited>, Fault> {
    edits.iter().map(|edit| one(transaction, edit, now, watermark)).collect()
}

fn one(transaction: &mut Transaction<'_>, edit: &Edit, now: Millis, watermark: Millis) -> Result<Edited, Fault> {
    let Some(row) = read::one(transaction.connection, edit.id)? else { return Ok(Edited::Unknown) };
    let stored = RowHead::of(&row);
    let mut job = row.clone();
    job.lease_until = None;
    let edited = rules::edit(&mut job, edit.version, &edit.change, now, Numbers::Ledger);
    match (&edit.change, &edited) {
        (Change::Delete, Edited::Changed(_)) => {
            remove(transaction, job.id, &stored, stored.stage)?;
            return Ok(Edited::Changed(row));
        }
        (_, Edited::Mismatch(_)) => return Ok(Edited::Mismatch(row)),
        (Change::Retry { .. }, Edited::Changed(_)) => {
            if let Some(key) = job.live_key()
                && let Some(holder) =
                    holder(transaction.connection, &job.queue, key)?.filter(|&holder| holder != job.id)
            {
                return Ok(Edited::KeyHeld(holder, job.queue.clone(), key.clone()));
            }
        }
        _ => {}
    }
    if matches!(edited, Edited::Changed(_)) {
        let successors = edit.change.successors();
        for successor in successors {
            if is_known(transaction.connection, successor.id)? {
                return Ok(Edited::Undecided(row));
            }
        }
        rewrite(transaction, &stored, &job, watermark)?;
        for successor in successors {
            let live_key = free_key(transaction.connection, successor)?;
            insert(transaction, successor, live_key, watermark)?;
        }
    }
    Ok(edited)
}
