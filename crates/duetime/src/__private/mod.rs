//! Types that the compiler infers in users' code, and functions that our macros call. Nothing here is stable.

#[cfg(feature = "testing")]
mod pushes;

#[cfg(feature = "testing")]
pub use pushes::{length, pushed};

/// The place of the payload among the arguments of a handler.
#[derive(Debug)]
pub struct At<const PLACE: usize>;
