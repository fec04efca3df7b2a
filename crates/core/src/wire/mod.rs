//! JSON that more than one edge reads: durations, retry rules, and what a row of the inbox says of its job. The HTTP API
//! spells them the same way.

mod inbox;
mod object;
mod read;
mod rule;
#[cfg(feature = "openapi")]
pub mod schema;
mod span;

pub use inbox::JobOptions;
pub use object::Object;
pub use read::{Unread, read, read_bytes, unread};
pub use rule::{Backoff, Exponential, Fixed, Rule};
pub use span::Span;
