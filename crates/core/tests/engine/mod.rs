//! The engine over the memory broker and the model ledger, by a clock that tokio's paused time drives.

mod completion;
mod conditions;
mod edits;
mod events;
mod failures;
mod faults;
mod fixture;
mod history;
mod imports;
mod keys;
mod limits;
mod locks;
mod many_queues;
mod origins;
mod overflow;
mod paused_schedules;
mod reports;
mod reserve;
mod restarts;
mod retention;
mod schedules;
mod shared;
mod stale;
mod takes;
mod targets;
mod why;
