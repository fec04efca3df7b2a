//! `duetime adopt`, from real sources.

mod beanstalkd;
mod beanstalkd_dies;
mod framework;
mod framework_dies;
mod hand_back;
mod laravel;
mod outside;
mod sidekiq;
