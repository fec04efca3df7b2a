//! One account of file descriptors, made once at the start: the system allows a process so many, and without one nothing works, also
//! not the store. So what each part may open is shared out before anything is opened.
//!
//! - A part is kept for the store, its log, connections to servers, and files that are read again.
//! - Deliveries get an eighth of the rest, or what connections leave if that is more.
//! - The listeners share what remains, each half, so that one door that is full does not close the other.
//!
//! A process that cannot have enough for this does not start.

use crate::http::{DELIVERIES_MAX, DESCRIPTORS_KEPT};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The least that is kept, and the least that a server needs.
const KEPT_MIN: usize = 64;
const FILES_MIN: usize = 160;

/// What each part may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Connections of each listener.
    pub(crate) connections: usize,
    /// Connections of deliveries.
    pub(crate) deliveries: usize,
}

/// Too few for any server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system allows {0} open files, and a server needs at least {FILES_MIN}: raise the limit with `ulimit -n`, or LimitNOFILE \
     of systemd"
)]
pub(crate) struct TooFew(usize);

impl Descriptors {
    /// Shares out what the system allows among this many listeners, each of which wants this many connections. The bound of the process
    /// is raised as far as it may be, and is needed.
    ///
    /// # Errors
    /// [`TooFew`].
    pub(crate) fn share_out(listeners: usize, connections_max: usize) -> Result<Self, TooFew> {
        let needed = listeners * connections_max + DELIVERIES_MAX + DESCRIPTORS_KEPT;
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(needed, |(soft, hard)| {
            let raised = (needed as u64).min(hard).max(soft);
            let is_raised = raised > soft && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok();
            usize::try_from(if is_raised { raised } else { soft }).unwrap_or(usize::MAX)
        });
        let shares = Self::of(files, listeners, connections_max)?;
        if shares.connections < connections_max {
            tracing::warn!(
                connections = shares.connections,
                deliveries = shares.deliveries,
                "the system allows {files} open files, too few for {connections_max} connections: raise its limit (`ulimit -n`, or \
                 LimitNOFILE of systemd) or lower --connections-max"
            );
        }
        Ok(shares)
    }

    fn of(files: usize, listeners: usize, connections_max: usize) -> Result<Self, TooFew> {
        if files < FILES_MIN {
            return Err(TooFew(files));
        }
        let left = files - (files / 4).clamp(KEPT_MIN, DESCRIPTORS_KEPT);
        let beyond = left.saturating_sub(listeners * connections_max);
        let deliveries = beyond.max(left / 8).min(DELIVERIES_MAX);
        Ok(Self { connections: connections_max.min((left - deliveries) / listeners), deliveries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_shared_out_than_there_is() {
        for files in [FILES_MIN, 256, 1_024, 4_096, 20_000, 65_536, 1 << 20] {
            for (listeners, wanted) in [(1, 2), (1, 16_384), (2, 100), (2, 16_384), (2, 1_000_000)] {
                let shares = Descriptors::of(files, listeners, wanted).unwrap();
                let Descriptors { connections, deliveries } = shares;
                assert!(listeners * connections + deliveries + KEPT_MIN <= files, "{files}: {shares:?}");
                assert!(connections <= wanted && connections.min(deliveries) >= 2, "{files}: {shares:?}");
            }
        }
        assert_eq!(
            Descriptors::of(1 << 20, 2, 16_384),
            Ok(Descriptors { connections: 16_384, deliveries: DELIVERIES_MAX })
        );
        assert_eq!(Descriptors::of(FILES_MIN - 1, 1, 2), Err(TooFew(FILES_MIN - 1)));
    }
}
