//! The pages, a file each.

mod attention;
mod due;
pub(super) mod events;
pub(super) mod failed;
mod history;
pub(super) mod job;
mod job_call;
pub(super) mod jobs;
pub(super) mod locks;
pub(super) mod overview;
pub(super) mod queue;
pub(super) mod queues;
mod runs;
pub(super) mod schedule;
mod schedule_form;
pub(super) mod schedules;
pub(super) mod search;
mod settings;
pub(super) mod sign_in;
pub(super) mod workers;
