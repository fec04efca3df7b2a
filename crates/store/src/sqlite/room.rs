//! Room on a disk that is nearly full. Pages of dropped records are used again, so jobs still find room where the file cannot grow.
//!
//! Only a share of a large file gives way. A small one did not fill the disk, and dropping its records would help nobody for long.
//!
//! The log needs room, too. While the disk is nearly full, it is copied and restarted often: a log that has taken the rest of
//! the disk could not be copied any more.

use super::fault::Fault;
use super::file;
use super::log;
use super::number::Numbers;
use rusqlite::{Connection, ErrorCode};

/// A disk is nearly full with less free space than this: 64 MiB, and on a small disk a sixteenth of it.
const LOW_BYTES: u64 = 64 << 20;
const LOW_SHARE: u64 = 16;
/// The part of the file that records give way for, so that a disk that something else has filled does not cost all of them.
const GIVEN_SHARE: u64 = 8;
/// Growth of the log, in pages, after which the disk is looked at: 256 KiB.
const PAGES_PER_LOOK: u32 = 64;
/// Records that are dropped in one transaction, until there is enough room: few at first, since they may be large. After the
/// last step, waiting tasks have their turn.
pub(super) const STEPS: [usize; 9] = [4, 8, 16, 32, 64, 128, 256, 512, 1_024];

/// What the writer remembers of its last look.
#[derive(Default)]
pub(super) struct Room {
    /// The length of the log then, in pages.
    looked_at: u32,
    /// Pages that should be free within the file while the disk is nearly full.
    wanted: u64,
}

impl Room {
    /// Whether the disk is nearly full, if the log has grown since the last look.
    pub(super) fn look(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let pages = log::pages();
        if pages < self.looked_at {
            self.looked_at = 0;
        }
        if pages < self.looked_at + PAGES_PER_LOOK {
            return Ok(false);
        }
        self.looked_at = pages;
        self.measure(connection)
    }

    /// Whether the disk is nearly full. Decides how many pages should be free within the file.
    pub(super) fn measure(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let Some(disk) = file::disk(connection)? else { return Ok(false) };
        let low = LOW_BYTES.min(disk.all / LOW_SHARE);
        let given = if disk.used < low { 0 } else { low.min(disk.used / GIVEN_SHARE) };
        self.wanted = given / u64::from(file::PAGE_BYTES);
        Ok(disk.free < disk.growth.saturating_add(low))
    }

    /// Whether enough pages are free within the file.
    pub(super) fn has_enough(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let free = connection.prepare_cached("PRAGMA freelist_count")?.query_row([], |row| row.number(0))?;
        Ok(free >= self.wanted)
    }
}

/// Whether a transaction failed for lack of room.
pub(super) fn is_full(fault: &Fault) -> bool {
    matches!(fault, Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
}
