//! A connection, and how it carries statements.

use crate::sql::connection::{Answer, Connection};
use crate::sql::fault::Fault;
use crate::sql::statements::Bulk;
use crate::sql::value::{Row, Rows, Value};
use async_trait::async_trait;
use deadpool_postgres::Object;
use duetime_core::Error;
use futures_util::TryStreamExt;
use tokio_postgres::types::{FromSql, ToSql, Type};

/// Whose turn it is to migrate: "duetime" in bytes.
const LOCK: i64 = 0x64_7565_7469_6d65;
/// The oldest version that is tried.
const VERSION_MIN: i64 = 130_000;

/// A connection, borrowed from the pool.
pub(super) struct Borrowed {
    client: Option<Object>,
    is_held: bool,
}

impl Borrowed {
    pub(super) fn new(client: Object) -> Self {
        Self { client: Some(client), is_held: false }
    }

    fn client(&self) -> Result<&Object, Fault> {
        self.client.as_ref().ok_or_else(|| Fault::Lost("PostgreSQL: the connection was given back".into()))
    }

    /// `values` are those of rows, row after row, for a statement that takes columns.
    async fn execute(&self, statement: &str, values: &[Value<'_>]) -> Result<Answer, Fault> {
        let client = self.client()?;
        let statement = client.prepare_cached(statement).await?;
        let width = statement.params().len();
        let place = |(column, ty)| place(ty, values.iter().skip(column).step_by(width));
        let places = statement.params().iter().enumerate().map(place).collect::<Result<Vec<_>, _>>()?;
        let places = places.iter().map(|place| &**place as &(dyn ToSql + Sync));
        let mut found = std::pin::pin!(client.query_raw(&statement, places).await?);
        let mut rows = Vec::new();
        while let Some(row) = found.try_next().await? {
            rows.push(read(&row)?);
        }
        Ok(Answer { rows, changed: found.rows_affected().unwrap_or(0) })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if self.is_held
            && let Some(client) = self.client.take()
        {
            // Out of the pool, and with that closed.
            drop(Object::take(client));
        }
    }
}

/// What goes into one place of a statement: a value, or a column of values.
type Parameter<'a> = Box<dyn ToSql + Sync + Send + 'a>;

fn place<'a>(ty: &Type, values: impl Iterator<Item = &'a Value<'a>>) -> Result<Parameter<'a>, Fault> {
    Ok(match *ty {
        Type::INT8 => one(values, whole)?,
        Type::INT8_ARRAY => all(values, whole)?,
        Type::INT2 => one(values, small)?,
        Type::INT2_ARRAY => all(values, small)?,
        Type::BOOL_ARRAY => all(values, |value| Ok(whole(value)?.map(|number| number != 0)))?,
        Type::TEXT => one(values, text)?,
        Type::TEXT_ARRAY => all(values, text)?,
        Type::BYTEA => one(values, bytes)?,
        Type::BYTEA_ARRAY => all(values, bytes)?,
        _ => return Err(Fault::damaged("a place", ty)),
    })
}

fn one<'a, T: ToSql + Sync + Send + 'a>(
    mut values: impl Iterator<Item = &'a Value<'a>>,
    read: fn(&'a Value<'a>) -> Result<Option<T>, Fault>,
) -> Result<Parameter<'a>, Fault> {
    Ok(Box::new(values.next().map(read).transpose()?.flatten()))
}

fn all<'a, T: ToSql + Sync + Send + 'a>(
    values: impl Iterator<Item = &'a Value<'a>>,
    read: fn(&'a Value<'a>) -> Result<Option<T>, Fault>,
) -> Result<Parameter<'a>, Fault> {
    Ok(Box::new(values.map(read).collect::<Result<Vec<_>, _>>()?))
}

fn whole(value: &Value<'_>) -> Result<Option<i64>, Fault> {
    match value {
        Value::Null => Ok(None),
        Value::Int(number) => Ok(Some(*number)),
        Value::Bytes(_) => Err(Fault::damaged("a number", "text")),
    }
}

fn small(value: &Value<'_>) -> Result<Option<i16>, Fault> {
    let number = whole(value)?.map(i16::try_from).transpose();
    number.map_err(|error| Fault::damaged("a small number", error))
}

fn bytes<'a>(value: &'a Value<'a>) -> Result<Option<&'a [u8]>, Fault> {
    match value {
        Value::Null => Ok(None),
        Value::Bytes(bytes) => Ok(Some(bytes)),
        Value::Int(number) => Err(Fault::damaged("text", number)),
    }
}

fn text<'a>(value: &'a Value<'a>) -> Result<Option<&'a str>, Fault> {
    let text = bytes(value)?.map(std::str::from_utf8).transpose();
    text.map_err(|error| Fault::damaged("text", error))
}

impl<'a> FromSql<'a> for Value<'static> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT8 => i64::from_sql(ty, raw)?.into(),
            Type::INT4 => Self::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT2 => Self::Int(i16::from_sql(ty, raw)?.into()),
            Type::BOOL => bool::from_sql(ty, raw)?.into(),
            _ => raw.to_vec().into(),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::INT4 | Type::INT2 | Type::BOOL | Type::TEXT | Type::BYTEA)
    }
}

fn read(row: &tokio_postgres::Row) -> Result<Row, Fault> {
    Ok(Row((0..row.len()).map(|column| row.try_get(column)).collect::<Result<_, _>>()?))
}

#[async_trait]
impl Connection for Borrowed {
    fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    async fn send(&mut self, statements: &str) -> Result<(), Fault> {
        Ok(self.client()?.batch_execute(statements).await?)
    }

    async fn ask(&mut self, statement: &str) -> Result<Vec<Row>, Fault> {
        self.client()?.query(statement, &[]).await?.iter().map(read).collect()
    }

    async fn run(&mut self, statement: &'static str, values: Vec<Value<'_>>) -> Result<Answer, Fault> {
        self.execute(statement, &values).await
    }

    async fn run_for(&mut self, statement: &'static Bulk, rows: Rows<'_>) -> Result<Answer, Fault> {
        self.execute(statement.text, &rows.values).await
    }

    async fn fit(&mut self, may_lose: bool) -> Result<(), Fault> {
        let unusable = |text: String| Err(Fault::Known(Error::Unusable(text)));
        let settings = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), \
                        current_setting('synchronous_commit'), current_setting('fsync')";
        let rows = self.ask(settings).await?;
        let row = rows.first().ok_or_else(|| Fault::damaged("the settings", "nothing"))?;
        let (version, encoding) = (row.whole(0)?, row.text(1)?);
        if version < VERSION_MIN {
            let (major, minor) = (version / 10_000, version % 10_000);
            return unusable(format!("PostgreSQL 13 or later is needed; this is {major}.{minor}"));
        }
        if &*encoding != "UTF8" {
            return unusable(format!("the database has the encoding {encoding}; create one with UTF8"));
        }
        for (column, name) in [(2, "synchronous_commit"), (3, "fsync")] {
            if &*row.text(column)? == "off" && !may_lose {
                return unusable(format!(
                    "{name} is off in PostgreSQL, so a crash of its machine would lose acknowledged jobs; turn it on, or \
                     accept that with --ledger-may-lose"
                ));
            }
        }
        Ok(())
    }

    async fn lock_schema(&mut self) -> Result<(), Fault> {
        // Before the transaction begins: one that has begun may not see tables that were made since.
        let lock = format!("SET statement_timeout = 0; SET lock_timeout = 0; SELECT pg_advisory_lock({LOCK})");
        self.send(&lock).await
    }
}
