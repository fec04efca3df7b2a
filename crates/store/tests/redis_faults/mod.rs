//! Faults between us and a Redis, each on a private server: the caller's answer, what waits, and that nothing is lost
//! or done twice.

mod access;
mod begin;
mod cluster;
mod connections;
mod fallback;
mod fitness;
mod full;
mod full_engine;
mod large;
mod left;
mod memory;
mod races;
mod slow;
mod subject;
mod swapped;
