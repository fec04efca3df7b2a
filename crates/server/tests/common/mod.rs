//! A server that is killed and started again, as its clients see it.

#![allow(dead_code, unused_imports, reason = "each test uses its own part of it")]

pub(crate) mod packages;
mod random;
mod server;
mod site;

pub(crate) use random::Random;
pub(crate) use server::binary;
pub(crate) use site::{Exchange, Kill, Site};
