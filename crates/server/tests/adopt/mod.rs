//! `duetime adopt`, from real sources.

mod beanstalkd;
mod beanstalkd_dies;
