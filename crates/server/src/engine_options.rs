//! The options that every command of this program starts an engine with.

use crate::deliver;
use duetime::server::kind_rules;
use duetime_core::engine::Options;

/// Options with which an engine decides and refuses as those of all other servers.
pub(crate) fn engine_options() -> Options {
    Options { kind_rules: kind_rules(), list_check: deliver::check_list, ..Options::default() }
}
