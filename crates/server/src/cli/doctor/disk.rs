//! Room for the store's file.

use super::finding::Finding;
use duetime_store::sqlite;
use std::path::Path;

const CHECK: &str = "disk";
/// Below this nothing can be recorded before long.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Below this, the free space is reported as low.
const FREE_BYTES_LOW: u64 = 1 << 30;

/// The free bytes beside a store of this size; `None` if the system does not tell.
pub(super) fn probe(folder: &Path, bytes: u64) -> Option<Finding> {
    Some(judge(&folder.display().to_string(), sqlite::free_bytes(folder)?, bytes))
}

fn judge(folder: &str, free: u64, bytes: u64) -> Finding {
    let text = format!("{} MiB are free in {folder}; the store has {} MiB", free >> 20, bytes >> 20);
    if free < FREE_BYTES_MIN {
        return Finding::problem(CHECK, text, "free disk space: pushes are refused once the disk is full");
    }
    if free < FREE_BYTES_LOW || free < bytes {
        return Finding::warning(CHECK, text, "free disk space: a backup needs as much as the store");
    }
    Finding::ok(CHECK, text)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn too_little_room_is_told() {
        assert_eq!(judge("/a", 10 << 30, 1 << 30).status, Status::Ok);
        assert_eq!(judge("/a", 10 << 30, 11 << 30).status, Status::Warning);
        assert_eq!(judge("/a", 500 << 20, 0).status, Status::Warning);
        assert_eq!(judge("/a", 1 << 20, 0).status, Status::Problem);
    }
}
