//! A server that is killed and started again, as its clients see it.

mod random;
mod server;
mod site;

pub(crate) use random::Random;
pub(crate) use site::{Exchange, Kill, Site};
