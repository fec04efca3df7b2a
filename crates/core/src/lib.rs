//! Being written.

pub mod wheel;
