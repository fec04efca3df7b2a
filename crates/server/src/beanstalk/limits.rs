//! Limits of connections.

use std::time::Duration;

/// Default limit of a job's body, in bytes: the same as beanstalkd's.
pub(crate) const JOB_BYTES_DEFAULT: u32 = 65_535;
/// Bytes of input that a connection holds without a share of the budget, and reads at once.
pub(super) const INPUT_FREE_BYTES: usize = 16 << 10;
/// The same for a client that has shown no token yet.
pub(super) const STRANGER_INPUT_FREE_BYTES: usize = 4 << 10;
/// Bytes that the buffer of a large body grows by: the rest of a body of the default limit finds room at once, or has no share.
pub(super) const INPUT_STEP_BYTES: usize = 64 << 10;
/// Bytes of replies that a connection holds without a share of the budget.
pub(super) const OUTPUT_FREE_BYTES: usize = 16 << 10;
/// Bytes of replies after which a connection sends them before it continues.
pub(super) const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// A connection is closed if its client reads nothing for this long.
pub(super) const SEND_TIME_MAX: Duration = Duration::from_secs(60);
/// If the server requires tokens, a client that has shown no valid one this long after it connected, or after its token was revoked or
/// expired, is disconnected.
pub(super) const AUTH_TIME_MAX: Duration = Duration::from_secs(10);
/// Most tubes that a connection watches.
pub(super) const WATCHED_MAX: usize = duetime_core::limits::RESERVE_QUEUES_MAX;
/// The bytes counted for a watched tube: its name in the connection, among the tubes of the process, and where a reserve waits.
pub(super) const WATCHED_BYTES: usize = 1 << 10;
