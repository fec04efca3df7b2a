//! A connection, and how it runs statements.

use crate::sql::connection::{Answer, Connection};
use crate::sql::fault::Fault;
use crate::sql::statements::{Bulk, numbered};
use crate::sql::value::{Row, Rows, Value};
use async_trait::async_trait;
use bytes::BytesMut;
use deadpool_postgres::Object;
use duetime_core::Error;
use futures_util::TryStreamExt;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

/// The advisory lock for migrations: "duetime" in bytes.
const LOCK: i64 = 0x64_7565_7469_6d65;
/// The oldest supported version.
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

    /// `values` are row after row, for a statement that takes columns.
    async fn execute(&self, statement: &str, values: &[Value<'_>]) -> Result<Answer, Fault> {
        let client = self.client()?;
        let statement = client.prepare_cached(statement).await?;
        let width = statement.params().len();
        let columns: Vec<Vec<&Value<'_>>> =
            (0..width).map(|column| values.iter().skip(column).step_by(width).collect()).collect();
        let places = columns.iter().zip(statement.params()).map(place);
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
            // Taken out of the pool, which closes it.
            drop(Object::take(client));
        }
    }
}

/// A parameter for a placeholder of this type: a value, or a column of values.
fn place<'a>((column, ty): (&'a Vec<&'a Value<'a>>, &Type)) -> &'a (dyn ToSql + Sync) {
    match (ty.kind(), &column[..]) {
        (Kind::Simple, [value]) => value,
        _ => column,
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (self, ty) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Int(number), &Type::INT8) => number.to_sql(ty, out),
            (Self::Int(number), &Type::INT2) => i16::try_from(*number)?.to_sql(ty, out),
            (Self::Int(number), &Type::BOOL) => (*number != 0).to_sql(ty, out),
            (Self::Bytes(bytes), &Type::TEXT | &Type::BYTEA) => (&**bytes).to_sql(ty, out),
            (Self::Int(_) | Self::Bytes(_), _) => Err(format!("a value that is no {ty}").into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        <Value<'static> as FromSql>::accepts(ty)
    }

    to_sql_checked!();
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
        self.execute(&numbered(statement), &values).await
    }

    async fn run_for(&mut self, statement: &'static Bulk, rows: Rows<'_>) -> Result<Answer, Fault> {
        self.execute(&numbered(statement.text), &rows.values).await
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
        // Before the transaction begins: a transaction may not see tables that were created after its start.
        let lock = format!("SET statement_timeout = 0; SET lock_timeout = 0; SELECT pg_advisory_lock({LOCK})");
        self.send(&lock).await
    }
}
