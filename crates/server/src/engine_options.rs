//! The options that every command of this program starts an engine with.

use crate::deliver;
use duetime::kind_rules::KIND_RULES;
use duetime_core::engine::Options;

/// Options with which an engine decides and refuses as those of all other servers.
pub(crate) fn engine_options() -> Options {
    Options { kind_rules: &KIND_RULES, list_check: deliver::check_list, ..Options::default() }
}
