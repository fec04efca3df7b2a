//! `duetime adopt`, from real sources.

mod beanstalkd;
mod beanstalkd_dies;
mod bullmq;
mod bullmq_dies;
mod framework;
mod framework_dies;
mod hand_back;
mod laravel;
mod locked_set;
mod message_queue;
mod message_queue_dies;
mod old_bullmq;
mod old_listener;
mod outside;
mod redis_places;
mod redis_source;
mod sidekiq;
mod table_set;
mod zset;
mod zset_dies;
mod zset_races;
