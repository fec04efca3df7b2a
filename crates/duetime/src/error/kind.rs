//! Kinds of errors.

/// What kind of error a call has returned: see [`Error::kind`](crate::Error::kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request, an option or an address is malformed or beyond a limit. Change it; nothing was done.
    Invalid,
    /// There is no such job or schedule, or no longer.
    NotFound,
    /// The job, schedule, queue, key or lock is not in the state that the call needs. Read it again, and decide anew.
    Conflict,
    /// A lease or a lock is no longer yours. Drop the work that it protected.
    Lost,
    /// The store or the queue has no room. Nothing was done; repeat the call once there is.
    Full,
    /// There were too many calls. Repeat it later.
    RateLimited,
    /// The store or the server cannot be used now. Nothing was done.
    Unavailable,
    /// The token is missing or invalid, or does not have the right.
    Unauthorized,
    /// The connection broke before the answer came: the call may or may not have been carried out. A repeated push with the same
    /// [origin](crate::Push::origin) makes no second job.
    OutcomeUnknown,
    /// What the call has waited for has not happened in time.
    TimedOut,
    /// The content of the store is damaged: restore a backup.
    Damaged,
    /// The other side is not a Duetime server that this client can talk to, or its certificate is not trusted.
    Protocol,
    /// The database has refused a row of the [inbox](crate::inbox). Roll the transaction back.
    Database,
}
