//! PostgreSQL, 13 or later.
//!
//! Rows are sent as arrays, so a statement for many rows is one round trip and its text is always the same.

mod connection;
mod fault;
mod pool;
mod statements;
mod tls;

use super::connection::{Dialect, Words};

pub(super) static DIALECT: Dialect = Dialect {
    name: "PostgreSQL",
    open: pool::open,
    migrations: &[include_str!("migrations/0001.sql")],
    is_transactional: true,
    has_tables: "SELECT (to_regclass('duetime_meta') IS NOT NULL)",
    clock: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    foreign: Words { quote: '"', text: "text", schema: "ANY(current_schemas(false))" },
    statements: statements::STATEMENTS,
};
