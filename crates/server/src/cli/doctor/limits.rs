//! How many files a server may open: a connection is one. A server raises the bound by itself as far as it may.

use super::finding::Finding;
use nix::sys::resource::{Resource, getrlimit};

const CHECK: &str = "limits";

/// Compares it with what is needed for as many connections as may come.
pub(super) fn look(files: u64) -> Finding {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, hard)) => judge(hard, files),
        Err(error) => {
            Finding::warning(CHECK, format!("the limit of open files is not known: {error}"), "see `ulimit -n`")
        }
    }
}

fn judge(open_max: u64, needed: u64) -> Finding {
    if open_max >= needed {
        return Finding::ok(CHECK, format!("{open_max} files may be open, and {needed} are as many as are needed"));
    }
    let text =
        format!("{open_max} files may be open; connections (--connections-max) and the store take up to {needed}");
    Finding::warning(
        CHECK,
        text,
        format!("raise it: `ulimit -Hn {needed}`, or LimitNOFILE={needed} in a unit of systemd"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn too_few_files_are_told() {
        assert_eq!(judge(1 << 20, 1 << 15).status, Status::Ok);
        let finding = judge(64, 1 << 15);
        assert!(finding.status == Status::Warning && finding.advice.unwrap().contains("ulimit -n"));
    }
}
