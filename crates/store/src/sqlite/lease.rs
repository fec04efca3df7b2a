//! Recorded leases, which tell a restarted process who was running which job.

use super::fault::Fault;
use super::number::Number;
use super::task::Transaction;
use crate::sums::Tallies;
use duetime_core::ports::LeaseRecord;
use rusqlite::{Connection, TransactionBehavior};

/// Records leases of pending rows with a lower version.
pub(super) fn write(transaction: &mut Transaction<'_>, leases: &[LeaseRecord]) -> Result<(), Fault> {
    if leases.is_empty() {
        return Ok(());
    }
    let mut keep = transaction.connection.prepare_cached(
        "UPDATE duetime_jobs SET version = ?2, epoch = ?3, attempt = ?4, lease_until = ?5, started_at = ?6, \
         updated_at = ?7, progress = NULL WHERE id = ?1 AND version < ?2 AND state = 1",
    )?;
    let mut free = transaction.connection.prepare_cached(
        "UPDATE duetime_jobs SET version = ?2, epoch = ?3, attempt = ?4, lease_until = ?5, started_at = ?6, \
         updated_at = ?7, progress = NULL, key_order = id \
         WHERE id = ?1 AND version < ?2 AND state = 1",
    )?;
    for lease in leases {
        let statement = if lease.frees_key { &mut free } else { &mut keep };
        let LeaseRecord { version, epoch, attempt, lease_until, started_at, updated_at, .. } = *lease;
        let [lease_until, started_at, updated_at] = [lease_until, started_at, updated_at].map(Number);
        statement.execute((
            Number(lease.id.get()),
            Number(version),
            Number(epoch),
            attempt,
            lease_until,
            started_at,
            updated_at,
        ))?;
    }
    Ok(())
}

/// Writes the leases of a process that was killed.
pub(super) fn restore(connection: &mut Connection, leases: &[LeaseRecord]) -> Result<(), Fault> {
    if leases.is_empty() {
        return Ok(());
    }
    let restoring = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut transaction = Transaction { connection: &restoring, tallies: Tallies::default(), is_careful: false };
    write(&mut transaction, leases)?;
    Ok(restoring.commit()?)
}
