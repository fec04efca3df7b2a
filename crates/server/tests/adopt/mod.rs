//! `duetime adopt`, from real sources.

mod beanstalkd;
mod beanstalkd_dies;
mod bullmq;
mod bullmq_dies;
mod message_queue;
mod message_queue_dies;
mod old_bullmq;
mod old_listener;
mod outside_bullmq;
mod redis_source;
