//! `duetime adopt`, from real sources.

mod beanstalkd;
mod beanstalkd_dies;
mod bullmq;
mod bullmq_dies;
mod locked_set;
mod message_queue;
mod message_queue_dies;
mod old_bullmq;
mod old_listener;
mod outside;
mod outside_bullmq;
mod redis_places;
mod redis_source;
mod table_set;
mod zset;
mod zset_dies;
mod zset_races;
