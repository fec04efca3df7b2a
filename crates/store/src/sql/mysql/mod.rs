//! MySQL, 8.0 or later, and MariaDB, 10.6 or later.
//!
//! Statements for many rows come in a few sizes, so that few texts have to be prepared. Transactions are READ COMMITTED.

mod connection;
mod fault;
mod pool;
mod statements;

use super::connection::{Dialect, Words};

pub(super) static DIALECT: Dialect = Dialect {
    name: "MySQL or MariaDB",
    open: pool::open,
    migrations: &[include_str!("migrations/0001.sql")],
    is_transactional: false,
    has_tables: "SELECT COUNT(*) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_name = 'duetime_meta'",
    clock: "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000",
    foreign: Words { quote: '`', text: "CHAR", schema: "DATABASE()" },
    statements: statements::STATEMENTS,
};
