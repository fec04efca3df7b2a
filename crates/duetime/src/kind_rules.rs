//! Retry rules of the kinds that Duetime's own ports push. Every engine on a store has to decide by the same ones: a program that
//! opens the store itself as well as the server.

use duetime_core::Retry;

/// The kind of jobs that clients of the beanstalkd protocol put.
pub(crate) const BEANSTALK: &str = "beanstalk";

/// Without a limit from the job or its queue, attempts and crashes of these jobs are not limited.
pub(crate) static KIND_RULES: [(&str, Retry); 1] =
    [(BEANSTALK, Retry::INHERITED.max_attempts(0).max_crashes(u32::MAX))];
