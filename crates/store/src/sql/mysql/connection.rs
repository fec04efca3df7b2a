//! A connection, and how it runs statements.

use crate::sql::connection::{Answer, Connection};
use crate::sql::fault::Fault;
use crate::sql::schema::MIGRATE_MAX;
use crate::sql::statements::Bulk;
use crate::sql::value::{Row, Rows, Value, signed};
use async_trait::async_trait;
use duetime_core::Error;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value as Sent};

/// Numbers of rows of one statement, largest first.
pub(super) const SIZES: [usize; 11] = [250, 100, 50, 32, 20, 12, 8, 5, 3, 2, 1];
/// Maximum bytes of one statement, well below the server's limit (16 MiB by default in MariaDB).
const STATEMENT_BYTES: usize = 4 << 20;

/// A connection, borrowed from the pool.
pub(super) struct Borrowed {
    connection: Option<Conn>,
    is_held: bool,
}

impl Borrowed {
    pub(super) fn new(connection: Conn) -> Self {
        Self { connection: Some(connection), is_held: false }
    }

    fn connection(&mut self) -> Result<&mut Conn, Fault> {
        self.connection.as_mut().ok_or_else(|| Fault::Lost("MySQL: the connection was given back".into()))
    }

    async fn execute(&mut self, statement: &str, values: Vec<Sent>) -> Result<Answer, Fault> {
        let connection = self.connection()?;
        let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
        let rows = connection.exec(statement, values).await?;
        Ok(Answer { rows: read(rows)?, changed: connection.affected_rows() })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if self.is_held
            && let Some(connection) = self.connection.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // Closed instead of returned to the pool.
            runtime.spawn(connection.disconnect());
        }
    }
}

fn sent(value: Value<'_>) -> Sent {
    match value {
        Value::Null => Sent::NULL,
        Value::Int(number) => Sent::Int(number),
        Value::Bytes(bytes) => Sent::Bytes(bytes.into_owned()),
    }
}

fn read(rows: Vec<mysql_async::Row>) -> Result<Vec<Row>, Fault> {
    let value = |value| match value {
        Sent::NULL => Ok(Value::Null),
        Sent::Int(number) => Ok(Value::Int(number)),
        Sent::UInt(number) => Ok(Value::Int(signed(number))),
        Sent::Bytes(bytes) => Ok(bytes.into()),
        other => Err(Fault::damaged("a value", other.as_sql(true))),
    };
    let row = |row: mysql_async::Row| Ok(Row(row.unwrap().into_iter().map(value).collect::<Result<_, Fault>>()?));
    rows.into_iter().map(row).collect()
}

/// How many of these rows go into the next statement: one of the prepared sizes, and not above the byte limit unless a
/// single row is.
fn part(rows: &[Value<'_>], width: usize) -> usize {
    let bytes = |value: &Value<'_>| if let Value::Bytes(bytes) = value { bytes.len() } else { 0 };
    let fits = |size: &&usize| {
        let end = *size * width;
        end <= rows.len() && (**size == 1 || rows[..end].iter().map(bytes).sum::<usize>() <= STATEMENT_BYTES)
    };
    SIZES.iter().find(fits).copied().unwrap_or(1)
}

#[async_trait]
impl Connection for Borrowed {
    fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    async fn send(&mut self, statements: &str) -> Result<(), Fault> {
        for statement in split(statements) {
            self.connection()?.query_drop(statement).await?;
        }
        Ok(())
    }

    async fn ask(&mut self, statement: &str) -> Result<Vec<Row>, Fault> {
        read(self.connection()?.query(statement).await?)
    }

    async fn run(&mut self, statement: &'static str, values: Vec<Value<'_>>) -> Result<Answer, Fault> {
        self.execute(statement, values.into_iter().map(sent).collect()).await
    }

    async fn run_for(&mut self, statement: &'static Bulk, rows: Rows<'_>) -> Result<Answer, Fault> {
        let (mut answer, width) = (Answer::default(), rows.width());
        let mut rest = rows.values.into_iter();
        while !rest.as_slice().is_empty() {
            let rows = if statement.row.is_empty() { 1 } else { part(rest.as_slice(), width) };
            let values = rest.by_ref().take(rows * width).map(sent).collect();
            let Answer { rows, changed } = self.execute(&statement.text(rows), values).await?;
            answer.rows.extend(rows);
            answer.changed += changed;
        }
        Ok(answer)
    }

    async fn fit(&mut self, may_lose: bool) -> Result<(), Fault> {
        let unusable = |text: String| Err(Fault::Known(Error::Unusable(text)));
        let rows = self.ask("SELECT VERSION(), @@GLOBAL.innodb_flush_log_at_trx_commit").await?;
        let row = rows.first().ok_or_else(|| Fault::damaged("the settings", "nothing"))?;
        let (version, flush) = (row.text(0)?, row.whole(1)?);
        if !is_new_enough(&version) {
            return unusable(format!("MySQL 8.0 or MariaDB 10.6, or later, is needed; this is {version}"));
        }
        if flush != 1 && !may_lose {
            return unusable(format!(
                "innodb_flush_log_at_trx_commit is {flush}, so a crash of its machine would lose acknowledged jobs; set it \
                 to 1, or accept that with --ledger-may-lose"
            ));
        }
        Ok(())
    }

    async fn lock_schema(&mut self) -> Result<(), Fault> {
        // The server may have other databases.
        let lock = format!("SELECT GET_LOCK(CONCAT('duetime.', SHA1(DATABASE())), {})", MIGRATE_MAX.as_secs());
        match self.ask(&lock).await?.first().map(|row| row.whole(0)) {
            Some(Ok(1)) => Ok(()),
            _ => Err(Fault::Lost("MySQL: another process has been migrating the database for too long".into())),
        }
    }
}

/// The statements of a text.
fn split(statements: &str) -> impl Iterator<Item = &str> {
    statements.split(";\n").map(str::trim).filter(|statement| !statement.is_empty())
}

fn is_new_enough(version: &str) -> bool {
    // Some MariaDB servers put `5.5.5-` in front.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found >= if version.contains("MariaDB") { (10, 6) } else { (8, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        for fit in ["8.0.36", "8.4.0-log", "10.6.0-MariaDB", "10.11.6-MariaDB-0+deb12u1", "5.5.5-11.4.2-MariaDB"] {
            assert!(is_new_enough(fit), "{fit}");
        }
        for old in ["5.7.44", "10.5.9-MariaDB", "5.5.5-10.3.0-MariaDB", ""] {
            assert!(!is_new_enough(old), "{old}");
        }
    }

    #[test]
    fn a_migration_is_read_statement_by_statement() {
        assert_eq!(split("-- a;b\nONE;\n\nTWO\n;\n").collect::<Vec<_>>(), ["-- a;b\nONE", "TWO"]);
    }
}
