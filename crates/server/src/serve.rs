//! `duetime serve`: opens the store, serves it, and stops in good order.

mod args;
mod banner;
pub(crate) mod beanstalk;
mod error;
mod instance;
mod port;
mod run;
mod size;
mod store;
mod supervise;
mod test;

pub(crate) use args::{Args, address};
pub(crate) use error::Error;
pub(crate) use port::port_bound;
pub(crate) use run::{delivery_troubles, refusals, run};
pub(crate) use size::RequestsSize;
