//! The rest of a lease that is read back, from a ledger or an export.

use crate::clock::Millis;
use crate::json::{Span, Timestamp};
use crate::limits::{LEASE_MS_DEFAULT, LEASE_MS_MAX};
use crate::model::job::Job;

impl Job {
    /// The length that its lease was last given, in milliseconds; or the rest that was left when its worker was asked to
    /// stop.
    fn given_ms(&self) -> u64 {
        self.lease_until.map_or(0, |until| until.0.saturating_sub(self.updated_at.0).min(LEASE_MS_MAX))
    }

    /// When its lease ends if the job is read back now: no later than the lease's given length from now, however far the
    /// wall clock was set back since.
    #[doc(hidden)]
    pub fn restored_until(&self, now: Millis) -> Option<Millis> {
        self.lease_until.map(|until| until.min(Timestamp(now.saturating_add(self.given_ms())))).map(|at| at.0)
    }

    /// The length of its lease in milliseconds if the job is read back: the default of extensions.
    #[doc(hidden)]
    pub fn restored_lease_ms(&self) -> u64 {
        let least = if self.cancel_asked { self.lease.unwrap_or(Span(LEASE_MS_DEFAULT)) } else { Span(0) };
        self.given_ms().max(least.0)
    }
}
