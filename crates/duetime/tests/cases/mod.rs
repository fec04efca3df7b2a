//! Cases for a client and a worker on any backend: here an embedded store or a Redis, in the server's tests a server.
//! Each case has its own queue, so that cases can share a server.

pub(crate) mod calls;
pub(crate) mod leases;
pub(crate) mod locks;
pub(crate) mod schedules;
pub(crate) mod waits;
pub(crate) mod worker;

use duetime::job::Stage;
use duetime::worker::Handled;
use duetime::{Client, Context, Job, JobId, JobType};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes a test of each case, on the client of this expression, with values that must outlive it.
macro_rules! client_cases {
    ($make:expr) => {
        client_cases! { $make =>
            calls:
                a_push_keeps_what_the_builder_says
                a_push_beyond_a_limit_is_refused
                a_batch_is_answered_in_order
                many_are_pushed_at_once
                a_job_is_found_by_its_key
                bytes_come_back_as_they_were
                leases_are_settled_once
                a_reserve_waits_and_is_called_off
                due_jobs_are_seen_and_taken
                jobs_are_changed_on_their_condition
                jobs_are_found_and_cancelled_by_tag
                jobs_are_cancelled_by_key
                found_jobs_are_rescheduled
                a_job_says_why_it_does_not_run
                named_workers_are_listed
                queues_are_managed
                a_full_queue_takes_no_job
                a_program_sets_up_its_queue_and_leaves_the_rest
                what_happens_is_told
                metrics_are_a_text_for_prometheus;
            leases:
                an_extended_lease_has_no_second_holder;
            locks:
                a_lock_has_one_holder
                a_guard_renews_itself
                a_guard_that_is_dropped_releases
                those_who_wait_come_in_order
                one_who_goes_away_leaves_nothing
                a_lost_lock_is_told
                an_owner_gets_its_lock_again
                a_caller_that_blocks_keeps_its_lock
                a_lock_beyond_a_limit_is_refused;
            schedules:
                a_schedule_pushes_at_its_ticks
                schedules_are_set_shown_and_deleted
                times_and_a_job_are_a_schedule
                a_schedule_is_paused_resumed_and_run
                a_schedule_beyond_a_limit_is_refused;
            waits:
                a_job_that_has_ended_is_not_waited_for
                a_wait_lasts_until_the_job_has_ended
                a_wait_ends_at_its_limit
                many_waits_end_with_their_jobs;
            worker:
                a_typed_job_is_worked_off
                all_that_is_due_is_run_once
                handlers_are_for_kinds_and_queues_in_order
                wrappers_run_around_every_handler
                a_handler_has_a_time_limit
                a_handler_says_how_far_it_has_come
                a_panic_is_a_failure
                a_payload_that_does_not_decode_is_a_failure
                errors_say_what_follows
                what_fails_is_tried_again
                an_unknown_kind_is_given_back
                a_handler_that_blocks_keeps_its_lease
                a_job_behind_a_handler_that_blocks_is_given_back
                jobs_on_their_last_attempt_are_not_reserved_ahead
                a_cancel_reaches_the_handler
                a_stop_lets_handlers_finish_and_gives_the_rest_back
                an_idle_worker_stops_at_once
                a_stop_whose_limit_is_over_cancels_and_then_aborts
                a_worker_that_is_dropped_tells_its_handlers
                a_malformed_queue_ends_the_worker;
        }
    };
    ($make:expr => $($module:ident: $($case:ident)*;)*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                let (client, _kept) = $make;
                crate::cases::$module::$case(client).await;
            }
        )*)*
    };
}

/// A typed payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Remind {
    pub(crate) user: u64,
}

impl JobType for Remind {
    const KIND: &'static str = "remind";
    const QUEUE: &'static str = "reminders";
}

/// A queue that no other case has.
pub(crate) fn queue() -> Arc<str> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Arc::from(format!("case-{}-{count}", std::process::id()))
}

pub(crate) async fn push(client: &Client, queue: &Arc<str>, user: u64) -> JobId {
    client.push(Remind { user }).queue(queue.clone()).await.unwrap().id
}

pub(crate) async fn ended(client: &Client, id: JobId, stage: Stage) -> Job {
    let job = client.jobs().get(id).await.unwrap();
    assert_eq!(job.stage, stage, "{job:?}");
    job
}

/// A handler that has nothing to do.
pub(crate) async fn nothing(_: Remind, _: Context) -> Handled {
    Ok(())
}
