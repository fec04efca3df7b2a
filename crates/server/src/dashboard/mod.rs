//! The dashboard: pages of HTML for the people who run jobs.
//!
//! A page is a client of the API in the same process. It calls the API's routes with the rights of its reader and renders
//! the answers. So each number is the API's, rights are checked in one place, and each action is a call that can be copied.

mod action;
mod answer;
mod api;
mod assets;
mod attention;
mod chart;
mod error_page;
mod fields;
mod figures;
mod form;
mod html;
mod language;
mod pages;
pub(crate) mod paths;
mod routes;
pub(crate) mod session;
mod state;
mod text;
mod untrusted;
mod visit;

pub(crate) use error_page::{Browser, with_error_pages};
pub(crate) use language::Language;
pub(crate) use routes::routes;
