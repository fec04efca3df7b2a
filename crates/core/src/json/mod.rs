//! How values are read from JSON and written to it. The [bodies](crate::api) are made of them.

mod bytes;

mod object;
mod plain;
mod read;
#[cfg(feature = "openapi")]
pub mod schema;
mod span;
pub(crate) mod text;
mod timestamp;

pub(crate) use bytes::raw;
pub use bytes::{Base64, RawJson, bytes_of, show_bytes};
pub(crate) use object::is_zero;
pub use object::{Object, object, or_default};
pub(crate) use read::known;
pub use read::{Unread, read, read_bytes, unread};
pub use span::Span;
pub(crate) use span::about;
pub use timestamp::Timestamp;
