//! The ports: what stores must implement for the engine. Every verb takes a batch and is bounded.
//!
//! - [`Broker`] holds the live jobs that are due soon, and their leases. It has a [clock](BrokerClock) and an
//!   [outbox](Outbox), and wakes its [`Host`].
//! - [`Ledger`] remembers every job. Beside a broker in memory it also notes [`Leases`]; in an SQL server it has an
//!   [`Inbox`].
//! - [`Reports`] are readings of many rows, for people.
//! - [`Registry`] keeps small documents, such as queue settings.
//! - [`Locks`] keeps the holders and waiters of locks.
//! - [`EventBus`] carries job events between processes that share a broker.
//!
//! The broker is the authority for what it holds, the ledger for the rest.

mod broker;
mod broker_clock;
mod events;
mod host;
mod inbox;
mod leases;
mod ledger;
mod limits;
mod locks;
mod outbox;
mod queue_leases;
mod queues;
mod registry;
mod reports;
mod room;
mod trouble;
mod window;

pub use crate::model::edit::{Change, Edit, Edited, Update};
pub use broker::{
    Broker, Counts, Detail, Expired, Extend, Extended, HandOut, Lease, Listing, OLDEST_HEADS, OLDEST_LATE_MS, Pick,
    Put, Reserve, Reserved, Run, Settle, Settled, Source, Take, Taken,
};
pub use broker_clock::{BrokerClock, Reading};
pub use events::{Event, EventBus, EventSink, Transition, What};
pub use host::{Beginning, Host};
pub use inbox::{Admitted, INBOX_BYTES_MAX, INBOX_TEXT_MAX, Inbox, InboxRow, Verdict};
pub use leases::{LeaseRecord, Leases};
pub use ledger::{
    ADOPTED, BROKER, BUCKET_MS, COMPARED, Cursor, Find, Found, GENERATION, LOADED, Ledger, OVERFLOW, OVERFLOW_BUCKET,
    OutboxEntry, OverflowDue, Page, Place, Recorded, Retention, Selector, Tally, Totals, bucket, buckets, key_order,
};
pub use limits::{GcraLimiter, Limits, Rate};
pub use locks::{Acquire, Acquired, Grant, Holding, LockList, Locks, Released, TurnWake};
pub use outbox::{Outbox, Outcomes};
pub use queue_leases::QueueLeases;
pub use queues::{Queues, after};
pub use registry::{Document, PutIf, REMOVED, Registry};
pub use reports::{DueTally, FAILED_MESSAGE_CHARS, FAILED_MESSAGE_READ, FailedJob, Reports, row_after};
pub use room::{Room, SOON_MS};
pub use trouble::Trouble;
pub use window::Window;
