//! The pace of an incoming body. A stalled body is given up, and sooner if others wait for its room.

use crate::http::limits::{BODY_PROGRESS_BYTES, BODY_PROGRESS_PART, BODY_STALL_SECONDS_MAX};

/// The progress of a body in this second and before.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Since it last made enough progress.
    came: usize,
    slow_seconds: u32,
}

impl Pace {
    /// So many bytes came in.
    pub(crate) fn came(&mut self, bytes: usize) {
        self.came += bytes;
    }

    /// Ends a second in which this body held so many bytes; returns whether it has stalled.
    pub(crate) fn second_over(&mut self, held: usize, others_wait: bool) -> bool {
        if self.came >= BODY_PROGRESS_BYTES.max(if others_wait { held / BODY_PROGRESS_PART } else { 0 }) {
            *self = Self::default();
            return false;
        }
        self.slow_seconds += 1;
        others_wait || self.slow_seconds >= BODY_STALL_SECONDS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_stands_still_has_stalled_after_some_seconds() {
        let mut pace = Pace::default();
        let stalled = (1..).find(|_| pace.second_over(0, false));
        assert_eq!(stalled, Some(BODY_STALL_SECONDS_MAX));
    }

    #[test]
    fn a_body_that_trickles_has_enough_time_for_enough_progress() {
        let mut pace = Pace::default();
        for _ in 0..1_000 {
            pace.came(BODY_PROGRESS_BYTES.div_ceil(BODY_STALL_SECONDS_MAX as usize));
            assert!(!pace.second_over(1 << 20, false));
        }
        let stalled = (1..).find(|_| {
            pace.came(100);
            pace.second_over(0, false)
        });
        assert_eq!(stalled, Some(BODY_STALL_SECONDS_MAX));
    }

    #[test]
    fn who_holds_much_while_others_wait_must_be_fast() {
        let mut pace = Pace::default();
        let held = 64 << 20;
        pace.came(BODY_PROGRESS_BYTES);
        assert!(!pace.second_over(0, true));
        pace.came(held / BODY_PROGRESS_PART);
        assert!(!pace.second_over(held, true));
        pace.came(held / BODY_PROGRESS_PART - 1);
        assert!(pace.second_over(held, true));
    }
}
