//! Values sent to and received from any kind of server.

use super::fault::Fault;
use duetime_core::json::{Span, Timestamp};
use std::borrow::Cow;
use std::sync::Arc;

/// A value. Text is its bytes, a condition is 0 or 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Null,
    Int(i64),
    Bytes(Cow<'a, [u8]>),
}

macro_rules! from {
    ($($type:ty: $value:ident => $made:expr;)*) => {
        $(
            impl<'a> From<$type> for Value<'a> {
                fn from($value: $type) -> Self {
                    $made
                }
            }
        )*
    };
}

from! {
    i64: number => Self::Int(number);
    u64: number => Self::Int(signed(number));
    Timestamp: at => Self::Int(signed(at.0));
    Span: span => Self::Int(signed(span.0));
    u32: number => Self::Int(number.into());
    u8: number => Self::Int(number.into());
    bool: condition => Self::Int(condition.into());
    usize: count => Self::Int(signed(count as u64));
    &'a str: text => Self::Bytes(Cow::Borrowed(text.as_bytes()));
    &'a Arc<str>: text => Self::Bytes(Cow::Borrowed(text.as_bytes()));
    &'a [u8]: bytes => Self::Bytes(Cow::Borrowed(bytes));
    String: text => Self::Bytes(Cow::Owned(text.into_bytes()));
    Vec<u8>: bytes => Self::Bytes(Cow::Owned(bytes));
}

impl<'a, T: Into<Self>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of a statement for many rows, row after row.
#[derive(Debug, Default)]
pub(super) struct Rows<'a> {
    pub(super) values: Vec<Value<'a>>,
    /// How many rows.
    pub(super) count: usize,
}

impl<'a> Rows<'a> {
    /// Rows of a fixed width.
    pub(super) fn of<const WIDTH: usize>(rows: impl IntoIterator<Item = [Value<'a>; WIDTH]>) -> Self {
        let values: Vec<_> = rows.into_iter().flatten().collect();
        Self { count: values.len() / WIDTH, values }
    }

    /// Values of one row.
    pub(super) fn width(&self) -> usize {
        self.values.len().checked_div(self.count).unwrap_or(0)
    }
}

/// A row of an answer.
#[derive(Debug)]
pub(super) struct Row(pub(super) Vec<Value<'static>>);

impl Row {
    fn value(&self, column: usize) -> Result<&Value<'static>, Fault> {
        self.0.get(column).ok_or_else(|| Fault::damaged("a row", "too few columns"))
    }

    /// A whole number, or NULL.
    pub(super) fn optional(&self, column: usize) -> Result<Option<i64>, Fault> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Int(number) => Ok(Some(*number)),
            // Without preparing, some servers return numbers as text.
            Value::Bytes(text) => {
                let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                parsed.map(Some).ok_or_else(|| Fault::damaged("a number", "text"))
            }
        }
    }

    /// A whole number.
    pub(super) fn whole(&self, column: usize) -> Result<i64, Fault> {
        self.optional(column)?.ok_or_else(|| Fault::damaged("a number", "NULL"))
    }

    /// A number that is never negative.
    pub(super) fn number(&self, column: usize) -> Result<u64, Fault> {
        let stored = self.whole(column)?;
        u64::try_from(stored).map_err(|_| Fault::damaged("a number", stored))
    }

    /// The same, or NULL.
    pub(super) fn optional_number(&self, column: usize) -> Result<Option<u64>, Fault> {
        self.optional(column)?.map(|_| self.number(column)).transpose()
    }

    /// A number of 32 bits.
    pub(super) fn small(&self, column: usize) -> Result<u32, Fault> {
        let stored = self.whole(column)?;
        u32::try_from(stored).map_err(|_| Fault::damaged("a small number", stored))
    }

    /// Bytes or text, or NULL.
    pub(super) fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Fault> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Bytes(bytes) => Ok(Some(bytes)),
            Value::Int(number) => Err(Fault::damaged("text", number)),
        }
    }

    /// Text, or NULL.
    pub(super) fn optional_text(&self, column: usize) -> Result<Option<Arc<str>>, Fault> {
        self.bytes(column)?.map(text).transpose()
    }

    /// Text.
    pub(super) fn text(&self, column: usize) -> Result<Arc<str>, Fault> {
        text(self.bytes(column)?.unwrap_or_default())
    }
}

/// A number in its stored form, after [`check`](super::row::check).
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Text.
pub(super) fn text(bytes: &[u8]) -> Result<Arc<str>, Fault> {
    std::str::from_utf8(bytes).map(Arc::from).map_err(|error| Fault::damaged("text", error))
}
