//! Being written.

#[doc(hidden)]
pub mod wire;
