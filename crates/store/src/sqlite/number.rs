//! Numbers that are never negative. SQLite knows only signed ones, and rusqlite converts them with a feature that its older
//! versions do not have.

use duetime_core::json::{Span, Timestamp};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Error, Result, Row, ToSql};

/// Such a number, as a parameter.
pub(super) struct Number(pub(super) u64);

impl From<Timestamp> for Number {
    fn from(Timestamp(ms): Timestamp) -> Self {
        Self(ms)
    }
}

impl From<Span> for Number {
    fn from(Span(ms): Span) -> Self {
        Self(ms)
    }
}

impl ToSql for Number {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        let number = i64::try_from(self.0).map_err(|error| Error::ToSqlConversionFailure(error.into()))?;
        Ok(number.into())
    }
}

/// Such numbers in a row.
pub(super) trait Numbers {
    /// The number in this column.
    fn number(&self, column: usize) -> Result<u64>;

    /// The same, or NULL.
    fn optional_number(&self, column: usize) -> Result<Option<u64>>;
}

impl Numbers for Row<'_> {
    fn number(&self, column: usize) -> Result<u64> {
        unsigned(column, self.get(column)?)
    }

    fn optional_number(&self, column: usize) -> Result<Option<u64>> {
        let number: Option<i64> = self.get(column)?;
        number.map(|number| unsigned(column, number)).transpose()
    }
}

fn unsigned(column: usize, number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| Error::IntegralValueOutOfRange(column, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn a_number_without_a_sign_fits_or_is_an_error() {
        let connection = Connection::open_in_memory().unwrap();
        let read = |number| {
            connection.query_row("SELECT ?1, NULL", [number], |row| Ok((row.number(0)?, row.optional_number(1)?)))
        };
        assert_eq!(read(Number(i64::MAX as u64)), Ok((i64::MAX as u64, None)));
        assert!(matches!(read(Number(1 << 63)), Err(Error::ToSqlConversionFailure(_))));
        let negative = connection.query_row("SELECT 1, -1", [], |row| row.optional_number(1));
        assert_eq!(negative, Err(Error::IntegralValueOutOfRange(1, -1)));
    }
}
