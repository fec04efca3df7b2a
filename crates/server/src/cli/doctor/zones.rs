//! The time zones of schedules.

use super::finding::Finding;
use std::path::{Path, PathBuf};

const CHECK: &str = "time zones";
/// The usual folders of the database, unless TZDIR names another.
const FOLDERS: [&str; 3] = ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo"];

/// Whether the machine has its own database.
pub(super) fn probe() -> Finding {
    let named = std::env::var_os("TZDIR").map(PathBuf::from);
    let has_zones = |folder: &Path| folder.join("Europe/London").exists() || folder.join("UTC").exists();
    let mut folders = named.map_or_else(|| FOLDERS.map(PathBuf::from).to_vec(), |folder| vec![folder]).into_iter();
    match folders.find(|folder| has_zones(folder)) {
        Some(folder) => Finding::ok(CHECK, format!("the time zone database of this machine in {}", folder.display())),
        None => Finding::warning(
            CHECK,
            "this machine has no time zone database, so the one built into this program is used, which becomes outdated",
            "install tzdata, or set TZDIR",
        ),
    }
}
