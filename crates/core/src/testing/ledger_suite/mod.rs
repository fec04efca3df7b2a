//! The cases that every ledger and registry passes. A store's tests name a factory, and get one test for each case:
//!
//! ```ignore
//! async fn subject() -> Subject { /* an empty store */ }
//! duetime_core::ledger_suite!(subject);
//! ```
//!
//! Ledgers beside a broker in the memory of a process also record leases:
//!
//! ```ignore
//! async fn noting() -> NotingSubject { /* an empty store */ }
//! duetime_core::lease_ledger_suite!(noting);
//! ```
//!
//! Ledgers beside a broker that several processes share have more to do, and their own cases:
//!
//! ```ignore
//! async fn shared() -> SharedSubject { /* an empty store, and the way into its inbox */ }
//! duetime_core::shared_ledger_suite!(shared);
//! ```
//!
//! A case never asks which store it runs on.

pub mod apply;
pub mod edit;
pub mod find;
pub mod fixture;
pub mod inbox;
pub mod lease;
pub mod loaded;
pub mod overflow;
pub mod pending;
pub mod prune;
pub mod record;
pub mod registry;
pub mod reports;
pub mod tally;

use crate::ports::{Inbox, Leases, Ledger, Registry, Reports};
use std::any::Any;
use std::sync::Arc;

/// An empty store to run a case on.
pub struct Subject {
    /// Its ledger.
    pub ledger: Arc<dyn Ledger>,
    /// Its registry.
    pub registry: Arc<dyn Registry>,
    /// Its reports.
    pub reports: Arc<dyn Reports>,
    /// A resource that must live as long, such as a folder.
    pub keep: Box<dyn Any + Send>,
}

/// An empty store for the cases of ledgers that note leases.
pub struct NotingSubject {
    /// Its ledger.
    pub ledger: Arc<dyn Ledger>,
    /// The store that notes leases.
    pub leases: Arc<dyn Leases>,
    /// A resource that must live as long, such as a folder.
    pub keep: Box<dyn Any + Send>,
}

/// An empty store for the cases of shared ledgers.
pub struct SharedSubject {
    /// Its ledger.
    pub ledger: Arc<dyn Ledger>,
    /// Its inbox.
    pub inbox: Arc<dyn Inbox>,
    /// Its registry.
    pub registry: Arc<dyn Registry>,
    /// The application that inserts rows.
    pub application: Box<dyn inbox::Application>,
}

/// One test for each case, on its own store made by this async function.
///
/// With `ledger_cases_in_one:` before the function it makes one test of each group, `every_case`, for stores that are expensive to
/// set up: if each test has its own process, tests cannot share a server.
#[macro_export]
macro_rules! ledger_suite {
    ($subject:ident) => {
        $crate::ledger_suite! { ledger_cases: $subject }
    };
    ($cases:ident: $subject:ident) => {
        $crate::$cases! { $subject:
            edit: [
                a_cancel_ends_a_waiting_job, a_cancel_takes_a_lost_lease_with_it, what_follows_a_cancel_is_recorded_with_it, a_delete_removes_row_and_tags,
                an_update_gives_new_values, an_update_sets_a_new_bucket, a_replaced_job_starts_anew, a_retry_starts_over_and_keeps_errors,
                a_retry_holds_the_key_again, a_retry_of_a_taken_key_names_the_holder, a_waiting_job_that_is_due_now_keeps_its_key,
                an_expiry_only_where_not_started_in_time,
                a_change_that_does_not_fit_changes_nothing, a_version_must_match, an_unknown_job_is_unknown,
                edits_of_one_job_follow_each_other, edits_at_once_are_made_one_after_the_other, versions_of_edits_are_odd,
            ]
            find: [
                versions_are_those_of_the_rows, by_queue_live_jobs_first, by_states_merged_in_order, by_key_live_and_finished, a_row_that_moves_is_not_missed, by_tag,
                everything, everything_in_a_state, by_due_time_over_all_queues, by_end_the_latest_first, by_end_while_jobs_come_and_go, filters_narrow, pages_continue, rare_rows_are_found_among_many,
                names_compare_byte_by_byte, get_answers_in_order,
            ]
            apply: [
                every_field_comes_back, how_far_a_job_had_come_stays_with_its_end, the_higher_version_wins, what_has_ended_is_changed_by_no_entry, the_end_of_a_later_lease_replaces_that_of_an_earlier_one,
                the_end_of_a_later_lease_replaces_a_take,
                what_an_edit_has_ended_stays,
                an_entry_of_an_unknown_job_is_nothing,
                a_final_entry_frees_the_key, a_job_that_waits_again_keeps_its_key, a_rewritten_job_has_new_payload_and_tags, a_rewritten_job_has_new_options, releases_are_counted_by_any_entry,
                a_moved_job_is_copied_once, the_end_of_a_second_run_begins_the_same_jobs_no_second_time, a_moved_job_comes_back_no_second_time, a_moved_job_survives_a_taken_key,
                a_copy_whose_id_is_taken_gets_another_one_once,
                a_removed_job_is_gone, a_removal_of_an_older_version_is_nothing, entries_of_one_job_in_disorder,
            ]
            overflow: [
                the_most_urgent_come_first, rows_are_read_as_they_are, large_payloads_make_short_pages,
                queues_with_an_overflow_are_named, they_are_not_among_what_is_loaded_by_time, what_is_loaded_leaves,
                what_finds_no_room_joins, only_what_waits_is_there, what_is_due_is_counted, rows_are_marked_in_bulk,
            ]
            pending: [
                near_rows_come_first_then_by_bucket, rows_beyond_are_left_out, pages_cover_all_once,
                leased_and_finished_rows_are_left_out, large_payloads_make_short_pages, tags_and_keys_are_read, a_row_that_waits_again_has_a_new_bucket,
            ]
            prune: [
                only_what_is_past_its_retention, at_most_the_limit, tags_go_too, late_finishers_among_early_ids, what_is_parked_stays,
            ]
            reports: [
                jobs_are_counted_by_due_time, due_counts_add_up_to_what_has_not_ended, many_jobs_are_counted_once,
                the_latest_failed_jobs_come_first,
            ]
            record: [
                blocks_of_ids_never_overlap, a_job_comes_back_as_it_was, a_job_that_has_ended_comes_back, extreme_values_come_back, a_repeat_is_told_and_changes_nothing,
                a_held_key_names_its_holder, what_a_push_would_meet_is_known, an_origin_names_the_job_of_the_first_push, a_batch_with_origins_may_be_repeated,
                a_repeat_beside_a_job_that_takes_its_key_is_known,
                concurrent_pushes_of_one_origin_make_one_job, a_key_is_held_within_a_batch, keys_of_other_queues_are_free,
                a_repeat_within_a_batch, every_kind_of_job_in_bulk, numbers_beyond_63_bits_are_refused, a_bad_batch_hurts_no_other,
                an_empty_batch, many_at_once, concurrent_keys_have_one_winner,
            ]
            registry: [
                a_document_has_versions, a_mismatch_changes_nothing, documents_come_by_name, a_removed_document_is_gone, a_document_has_no_version_twice,
                a_document_is_removed_in_the_version_that_is_known, kinds_are_apart, concurrent_puts_have_one_winner,
            ]
            tally: [
                rows_are_counted_by_queue, queues_are_tallied_in_steps, a_refused_entry_counts_nothing, totals_only_grow, a_removed_queue_begins_with_no_totals, totals_are_exact_under_load, counts_match_a_model, a_closed_store_says_so,
            ]
        }
    };
}

/// Makes a test of each named case of each named group.
#[doc(hidden)]
#[macro_export]
macro_rules! ledger_cases {
    ($subject:ident: $($module:ident: [$($case:ident),* $(,)?])*) => {
        $(
            mod $module {
                $(
                    #[tokio::test]
                    async fn $case() {
                        $crate::testing::ledger_suite::$module::$case(super::$subject().await).await;
                    }
                )*
            }
        )*
    };
}

/// Makes one test of all named cases of a group, which prints each before it runs.
#[doc(hidden)]
#[macro_export]
macro_rules! ledger_cases_in_one {
    ($subject:ident: $($module:ident: [$($case:ident),* $(,)?])*) => {
        $(
            mod $module {
                #[tokio::test]
                async fn every_case() {
                    $(
                        println!("{}", stringify!($case));
                        let subject = super::$subject().await;
                        ::std::boxed::Box::pin($crate::testing::ledger_suite::$module::$case(subject)).await;
                    )*
                }
            }
        )*
    };
}

/// The same for ledgers that record leases.
#[macro_export]
macro_rules! lease_ledger_suite {
    ($subject:ident) => {
        $crate::ledger_cases! { $subject:
            lease: [
                a_lease_is_restored, a_lease_forgets_how_far_the_last_one_came, a_lease_never_overwrites_a_higher_version,
                a_lease_frees_a_key_held_until_started, a_settled_job_is_not_leased, a_later_lease_wins,
            ]
        }
    };
}

/// The same for ledgers that several processes share.
#[macro_export]
macro_rules! shared_ledger_suite {
    ($cases:ident: $subject:ident) => {
        $crate::$cases! { $subject:
            loaded: [
                loaded_rows_are_near, what_is_loaded_must_be_as_it_is_now, rows_that_are_not_loaded_wait_to_be,
                finished_rows_stay_as_they_are, rows_are_marked_in_bulk,
            ]
            inbox: [
                a_row_is_read_as_it_was_inserted, the_oldest_come_first, large_rows_make_short_pages,
                a_recorded_row_is_a_job, a_row_is_moved_once, many_movers_at_once,
                a_refused_row_is_kept_and_passed_over, a_long_reason_is_kept, a_held_key_names_its_holder,
                a_taken_id_keeps_the_row, verdicts_go_together, rows_move_in_bulk,
            ]
        }
    };
}
