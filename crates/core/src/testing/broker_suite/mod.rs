//! The conformance suite of brokers: the contract of [`Broker`], case by case.
//!
//! A store runs all cases with [`broker_suite!`](crate::broker_suite), naming an async function that makes an empty
//! broker on a given clock. Each case gets its own broker. Brokers that keep leases on a monotonic clock also run
//! [`stepped_clock_suite!`](crate::stepped_clock_suite). A case never asks which store it runs on, and never sleeps: it
//! moves the clock.

pub mod aside;
pub mod beginnings;
pub mod burst;
pub mod edits;
pub mod keys;
pub mod leases;
pub mod limits;
pub mod named;
pub mod order;
pub mod outbox;
pub mod puts;
pub mod repeats;
pub mod room;
pub mod settles;
pub mod steps;
pub mod views;
pub mod wakes;

use super::clock::ManualClock;
use super::fixtures::{QUEUE, edit, reserve};
use crate::clock::{Clock, Millis};
use crate::error::Error;
use crate::model::id::{JobId, Receipt};
use crate::model::job::{Job, State};
use crate::model::progress::Progress;
use crate::ports::{
    Beginning, Broker, Change, Detail, Edited, EventBus, Extend, Extended, Host, Lease, Limits, OutboxEntry, Outcomes,
    Put, Reserve, Reserved, Room, Settle, Settled, Take, Taken,
};
use crate::rules::Decision;
use async_trait::async_trait;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a case waits for a wake before it gives up.
const WAKE_WAIT_MAX: Duration = Duration::from_secs(10);

/// A broker, and its event bus if there is one.
pub type BrokerAndBus = (Arc<dyn Broker>, Option<Arc<dyn EventBus>>);

/// A broker under test. Its methods fail the test if the broker fails.
pub struct Subject {
    /// The broker.
    pub broker: Arc<dyn Broker>,
    /// Its event bus, if there is one.
    pub events: Option<Arc<dyn EventBus>>,
    clock: Arc<ManualClock>,
    woken: Arc<Woken>,
    limits_version: AtomicU64,
}

/// Stands for a wake of waiters at any queue.
const ALL: &str = "*";

/// Queues whose waiters were woken.
#[derive(Default)]
struct Woken {
    queues: Mutex<Vec<Arc<str>>>,
    signal: Notify,
}

/// A host with this beginning, which records wakes.
struct Watching {
    beginning: Beginning,
    woken: Arc<Woken>,
}

#[async_trait]
impl Host for Watching {
    async fn beginning(&self) -> Result<Beginning, Error> {
        Ok(self.beginning.clone())
    }

    fn wake(&self, queue: Option<&Arc<str>>) {
        let queue = queue.cloned().unwrap_or_else(|| ALL.into());
        self.woken.queues.lock().expect("no case panics with it").push(queue);
        self.woken.signal.notify_one();
    }
}

impl Subject {
    /// An empty broker that uses this clock and has not begun yet.
    pub fn new((broker, events): BrokerAndBus, clock: Arc<ManualClock>) -> Self {
        Self { broker, events, clock, woken: Arc::default(), limits_version: AtomicU64::new(0) }
    }

    /// The same, begun with a first generation, and nothing limited.
    #[must_use]
    pub async fn begun(self) -> Self {
        self.begin(Beginning { generation: 1, limits: Vec::new() }).await;
        self
    }

    async fn begin(&self, beginning: Beginning) {
        let host = Watching { beginning, woken: self.woken.clone() };
        self.broker.begin(Arc::new(host)).await.expect("begin");
    }

    fn now(&self) -> Millis {
        self.clock.wall()
    }

    fn pass(&self, ms: u64) {
        self.clock.advance(ms);
    }

    async fn put(&self, jobs: &[Job]) -> Vec<Put> {
        self.broker.put(jobs.to_vec(), self.broker.reading(), Room::Any).await.expect("put")
    }

    async fn hold(&self, jobs: &[Job]) {
        assert_eq!(self.put(jobs).await, vec![Put::Held; jobs.len()]);
    }

    /// Each call has a later version of the settings.
    async fn limit(&self, limits: Limits) {
        let version = self.limits_version.fetch_add(1, Ordering::Relaxed) + 1;
        self.broker.limit(&QUEUE.into(), limits, version).await.expect("limit");
    }

    async fn reserve(&self, reserve: Reserve) -> Reserved {
        self.broker.reserve(reserve).await.expect("reserve")
    }

    async fn take(&self, take: Take) -> Taken {
        self.broker.take(take).await.expect("take")
    }

    async fn leases(&self, request: Reserve) -> Vec<Lease> {
        self.reserve(request).await.leases
    }

    /// The ids that a reserve of the queue [`QUEUE`] hands out, in order.
    async fn handed_out(&self, limit: usize) -> Vec<JobId> {
        ids(self.leases(reserve(QUEUE, limit)).await)
    }

    /// The job that a reserve of the queue [`QUEUE`] hands out.
    async fn one(&self) -> Job {
        let mut leases = self.leases(reserve(QUEUE, 1)).await;
        assert_eq!(leases.len(), 1, "something is due");
        leases.remove(0).job
    }

    async fn settled(&self, receipt: Receipt, decision: Decision) -> Settled {
        let settled = self.broker.settle(vec![Settle::new(receipt, decision)]).await.expect("settle");
        assert_eq!(settled.states.len(), 1);
        settled
    }

    /// The state that a settle returns.
    async fn settle(&self, receipt: Receipt, decision: Decision) -> Option<State> {
        self.settled(receipt, decision).await.states[0]
    }

    async fn extend(&self, receipt: Receipt, lease_ms: Option<u64>) -> Extended {
        self.broker.extend(vec![Extend::new(receipt, lease_ms)]).await.expect("extend")[0]
    }

    /// Reports a job's progress.
    async fn progress(&self, receipt: Receipt, progress: &Arc<Progress>) -> Extended {
        let extend = Extend { progress: Some(progress.clone()), ..Extend::new(receipt, None) };
        self.broker.extend(vec![extend]).await.expect("extend")[0]
    }

    async fn edit(&self, id: JobId, change: Change) -> Edited {
        self.edit_with_entries(edit(id, change)).await.0
    }

    async fn edit_with_entries(&self, edit: crate::ports::Edit) -> (Edited, Vec<OutboxEntry>) {
        let (mut edited, entries) = self.broker.edit(vec![edit]).await.expect("edit");
        assert_eq!(edited.len(), 1);
        (edited.remove(0), entries)
    }

    /// The ledger is about to edit a job in this version.
    async fn bar(&self, id: JobId, version: u64) -> Vec<JobId> {
        self.broker.bar(&[(id, version)]).await.expect("bar")
    }

    async fn get(&self, id: JobId) -> Option<Job> {
        let mut jobs = self.broker.get(&[id], Detail::Whole).await.expect("get");
        assert_eq!(jobs.len(), 1);
        jobs.remove(0)
    }

    async fn outcomes(&self) -> Vec<OutboxEntry> {
        self.broker.outcomes(Outcomes::Oldest { limit: 1_000, age_ms: 0 }).await.expect("outcomes")
    }

    /// The ledger has a job in this version.
    async fn forget(&self, id: JobId, version: u64) {
        self.broker.forget(&[(id, version)], Millis::MAX).await.expect("forget");
    }

    /// Ends expired leases, as an engine would, and returns the jobs.
    async fn crashed(&self) -> Vec<JobId> {
        self.broker.expired(1_000).await.expect("expired").crashed.iter().map(|job| job.id).collect()
    }

    fn take_woken(&self, queues: &[&str]) -> Option<Vec<Arc<str>>> {
        let mut woken = self.woken.queues.lock().expect("no case panics with it");
        woken.iter().any(|told| queues.contains(&&**told)).then(|| std::mem::take(&mut *woken))
    }

    /// Waits until the broker has woken this queue, and returns all queues woken since the last call.
    async fn told_of(&self, queue: &str) -> Vec<Arc<str>> {
        let mut told = self.told_of_one(&[queue]).await;
        told.retain(|queue| **queue != *ALL);
        told
    }

    async fn told_of_one(&self, queues: &[&str]) -> Vec<Arc<str>> {
        let told = async {
            loop {
                let signal = self.woken.signal.notified();
                if let Some(told) = self.take_woken(queues) {
                    return told;
                }
                signal.await;
            }
        };
        tokio::time::timeout(WAKE_WAIT_MAX, told).await.unwrap_or_else(|_| panic!("nobody was told of {queues:?}"))
    }
}

fn ids(leases: Vec<Lease>) -> Vec<JobId> {
    leases.into_iter().map(|lease| lease.job.id).collect()
}

/// Makes a test of each case, on brokers that this async function makes: `async fn(Arc<ManualClock>) -> BrokerAndBus`.
///
/// With `broker_cases_in_one:` before the function it makes one test of all, `every_case`, for brokers that are expensive to
/// set up: if each test has its own process, tests cannot share a setup.
#[macro_export]
macro_rules! broker_suite {
    ($make:path) => {
        $crate::broker_suite! { broker_cases: $make }
    };
    ($cases:ident: $make:path) => {
        $crate::$cases! { $make =>
            beginnings {
                nothing_is_handed_out_before_the_beginning numbers_begin_at_the_floor limits_stand_from_the_beginning
                a_burst_is_used_up_at_the_beginning what_is_outdated_is_listed_and_dropped_before_the_beginning
            }
            burst { a_burst_keeps_its_order_and_lets_others_through }
            edits {
                a_waiting_job_is_cancelled a_running_job_is_asked_to_stop a_running_job_is_not_updated
                a_cancelled_run_can_succeed a_cancelled_run_does_not_go_on an_update_moves_a_job
                an_update_keeps_what_it_does_not_name a_replaced_job_starts_anew an_edit_of_another_version_changes_nothing
                an_edit_that_ends_a_job_needs_what_follows
                two_edits_at_once_are_both_made of_edits_of_one_version_one_is_made a_finished_job_is_unfit
                the_version_of_a_finished_job_is_compared a_deleted_job_is_gone a_removed_job_is_not_edited_behind_its_entry
                a_late_job_is_expired_by_hand
                an_unknown_job_is_not_edited a_barred_job_is_not_put_as_it_was a_barred_job_is_put_as_it_was_edited
                a_job_is_barred_for_two_edits a_job_that_is_here_is_not_barred
                a_tombstone_stands_when_the_ledger_has_answered the_end_of_a_barred_job_is_still_known a_tombstone_lapses
            }
            keys {
                a_key_has_one_holder a_key_is_free_when_its_job_ends a_key_may_be_free_once_its_job_started
                keys_of_queues_differ a_key_is_held_over_a_retry
            }
            leases {
                a_lease_has_one_holder the_nearest_length_wins numbers_grow_with_each_lease
                numbers_grow_over_a_lost_memory a_restored_lease_has_the_time_left running_jobs_are_shown_page_by_page a_restored_lease_is_no_longer_than_it_was
                a_lease_of_a_clock_that_was_ahead_is_no_longer an_extension_moves_the_end an_extended_lease_can_be_lost
                an_extension_takes_the_first_length_again what_is_said_of_a_job_stays_until_its_next_lease what_is_said_of_a_job_extends_its_lease a_lease_ends_once_its_time_is_over
                an_unsettled_end_is_told_again an_extension_counts_after_its_end_was_told expired_is_bounded a_job_not_started_in_time_is_not_handed_out
            }
            limits {
                no_more_run_than_may room_is_told limits_change older_limits_change_nothing a_full_queue_is_passed_over a_named_job_needs_room_too a_look_leases_nothing
                a_take_needs_no_room a_rate_holds a_rate_holds_in_the_long_run a_clock_set_back_does_not_block_a_rate
                a_faster_rate_is_not_held_up_by_a_slower_one limits_hold_together
                a_limit_does_not_hide_what_is_due_later a_removed_job_leaves_room
                a_removed_queue_is_gone a_queue_with_jobs_is_not_removed limits_of_a_removed_queue_change_nothing
            }
            named {
                a_named_job_is_handed_out a_named_job_must_have_its_version a_named_job_must_be_due
                a_running_job_is_refused a_job_of_a_paused_queue_is_refused an_unknown_job_is_refused_without_a_trace
                an_ended_job_is_refused the_limit_holds named_jobs_of_one_request_are_all_handed_out
            }
            order {
                nothing_is_early priority_comes_first then_the_due_time_then_the_id queues_come_in_their_order
                a_reserve_stops_at_its_limit a_reserve_stops_at_its_bytes a_window_is_inclusive a_window_goes_by_priority_too
                a_paused_queue_hands_out_nothing the_next_instant_is_told
            }
            outbox {
                the_latest_entry_stands a_rewritten_entry_absorbs_later_ones a_lease_joins_the_entry_of_its_job a_returned_entry_says_it_all
                entries_are_forgotten_by_version entries_have_an_age_and_a_limit what_waits_beyond_the_watermark_goes
                what_the_brokers_own_watermark_has_passed_stays what_is_in_an_older_version_is_let_go_of
                what_is_not_known_is_not_put_in_a_lower_version what_has_changed_since_stays a_lease_leaves_no_entry
            }
            puts {
                a_put_is_idempotent an_older_version_changes_nothing a_newer_version_replaces a_running_job_stays
                a_reading_can_be_too_old an_ended_job_leaves_a_tombstone an_ended_job_leaves_a_tombstone_however_late_it_is_noted
                a_job_let_go_is_not_put_as_it_was a_job_retried_by_hand_is_held
            }
            repeats {
                a_repeat_gets_the_same_leases a_repeat_gets_what_still_lives a_request_that_got_nothing_looks_again
                a_repeated_take_leases_nothing_more a_request_is_forgotten_in_time
            }
            room {
                a_queue_without_room_is_told a_queue_that_holds_nothing_waiting_gets_a_job_in
                what_is_handed_out_at_once_needs_no_room what_is_held_needs_no_room
            }
            aside {
                a_returned_job_has_a_new_priority a_parked_job_has_failed a_park_without_a_reason_has_one
                a_returned_job_that_is_to_stop_is_cancelled
                marks_change_with_a_waiting_job a_scheduled_job_is_reserved_early the_most_urgent_of_all_queues_comes_first
            }
            settles {
                success_ends_a_job a_failure_is_kept_with_its_error a_job_goes_on_later a_stale_receipt_changes_nothing
                an_end_is_answered_again a_release_keeps_the_place a_moved_job_leaves_both
                an_end_that_others_follow_needs_them a_cancel_that_comes_before_an_end_changes_what_follows a_dropped_job_leaves_nothing
                the_end_of_a_dropped_job_is_answered_again
                what_is_to_be_taken_is_let_alone a_decision_from_a_reading_loses_against_an_extension
                a_decision_from_a_reading_loses_against_a_cancellation a_cancelled_run_leaves_no_copy
                a_settle_from_a_head_keeps_what_the_job_holds a_settle_from_an_old_head_counts
                a_settle_says_which_run_it_ended
            }
            views {
                a_live_job_is_seen_as_it_is an_ended_job_is_seen_until_it_is_noted a_listing_goes_by_due_time
                a_listing_is_paged a_listing_has_states_and_a_window a_job_that_is_given_back_meanwhile_is_listed jobs_are_counted a_job_waits_since_it_was_made_if_it_was_due_before queues_are_counted_in_steps pausing_is_counted
            }
            wakes {
                something_sooner_is_told something_later_is_not a_reserve_says_what_is_known
                a_retry_is_told resuming_is_told
            }
        }
    };
}

/// The cases for brokers that keep leases on a monotonic clock while the wall clock is set forward and back.
#[macro_export]
macro_rules! stepped_clock_suite {
    ($make:path) => {
        $crate::broker_cases! { $make =>
            steps {
                a_clock_set_forward_makes_jobs_due a_clock_set_back_holds_jobs_back
                a_clock_set_back_strands_nothing_new a_stepped_clock_ends_no_lease
                a_stepped_clock_spares_a_lease_that_is_cancelled a_stepped_clock_does_not_stretch_a_lease
                a_reading_from_before_a_step_is_stale numbers_grow_under_a_clock_set_back
                counts_follow_a_clock_set_back
                what_was_late_is_due_again
            }
        }
    };
}

/// Cases about beginnings begin the broker themselves.
#[doc(hidden)]
#[macro_export]
macro_rules! begun {
    (beginnings $subject:ident) => {
        $subject
    };
    ($module:ident $subject:ident) => {
        $subject.begun().await
    };
}

/// Makes a test of each named case of each named module.
#[doc(hidden)]
#[macro_export]
macro_rules! broker_cases {
    ($make:path => $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            #[allow(unused_imports, reason = "the function may be named by an absolute path")]
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    let clock = ::std::sync::Arc::new($crate::testing::ManualClock::new());
                    let broker = $make(clock.clone()).await;
                    let subject = $crate::testing::broker_suite::Subject::new(broker, clock);
                    let subject = $crate::begun!($module subject);
                    $crate::testing::broker_suite::$module::$case(subject).await;
                }
            )*
        })*
    };
}

/// Makes one test of all named cases, which prints each before it runs.
#[doc(hidden)]
#[macro_export]
macro_rules! broker_cases_in_one {
    ($make:path => $($module:ident { $($case:ident)* })*) => {
        #[tokio::test]
        async fn every_case() {
            $($(
                println!(concat!(stringify!($module), "::", stringify!($case)));
                let clock = ::std::sync::Arc::new($crate::testing::ManualClock::new());
                let broker = $make(clock.clone()).await;
                let subject = $crate::testing::broker_suite::Subject::new(broker, clock);
                let subject = $crate::begun!($module subject);
                ::std::boxed::Box::pin($crate::testing::broker_suite::$module::$case(subject)).await;
            )*)*
        }
    };
}
