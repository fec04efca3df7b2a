//! All tests of the real binary that take seconds, in one program, because each program links everything again.

#[macro_use]
#[path = "../../duetime/tests/cases/mod.rs"]
mod cases;
mod adopt;
mod beanstalk;
mod book;
mod browser;
#[path = "common/certificate.rs"]
mod certificate;
mod cli;
mod clients;
mod common;
mod conformance;
mod frozen;
#[path = "common/golden.rs"]
mod golden;
mod http;
mod inbox;
mod library;
mod mounted;
mod orders;
mod packages;
mod packaging;
mod readme;
mod redis_clock;
mod restore;
mod scale;
mod service;
mod webhooks;
