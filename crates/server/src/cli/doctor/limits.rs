//! The limit of open files: each connection needs one. A server raises its soft limit to the hard limit.

use super::finding::Finding;
use nix::sys::resource::{Resource, getrlimit};

const CHECK: &str = "limits";
/// For the store, its log, deliveries and other open files.
const OTHERS: u64 = 512;

/// Compares the limit with the files that the server may need.
pub(super) fn probe(connections_max: u32) -> Finding {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        // A server raises its own soft limit to the hard limit.
        Ok((_, hard)) => judge(hard, connections_max),
        Err(error) => {
            Finding::warning(CHECK, format!("cannot read the limit of open files: {error}"), "check `ulimit -n`")
        }
    }
}

fn judge(open_max: u64, connections_max: u32) -> Finding {
    let needed = u64::from(connections_max) + OTHERS;
    if open_max >= needed {
        return Finding::ok(CHECK, format!("{open_max} open files allowed, for at most {connections_max} connections"));
    }
    let text =
        format!("{open_max} open files allowed; {connections_max} connections and the store need up to {needed}");
    Finding::warning(
        CHECK,
        text,
        format!("raise the limit: `ulimit -n {needed}`, or LimitNOFILE={needed} in the systemd unit"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn too_few_files_are_told() {
        assert_eq!(judge(1 << 20, 10_000).status, Status::Ok);
        let finding = judge(64, 10_000);
        assert!(finding.status == Status::Warning && finding.advice.unwrap().contains("ulimit -n"));
    }
}
