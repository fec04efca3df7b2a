//! `duetime adopt`, from real sources.

mod beanstalkd;
mod beanstalkd_dies;
mod bullmq;
mod dies;
mod framework;
mod hand_back;
mod hand_back_dies;
mod laravel;
mod left;
mod locked_set;
mod message_queue;
mod old;
mod old_bullmq;
mod old_listener;
mod outside;
mod redis_places;
mod redis_source;
mod sidekiq;
mod table_set;
mod undo;
mod zset;
mod zset_races;
