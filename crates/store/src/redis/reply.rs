//! Parses answers of scripts.

use super::codec::{Decoder, Record};
use duetime_core::{Error, JobId};
use redis::Value;

/// The values of an answer, one after the other.
#[derive(Debug)]
pub(super) struct Reply {
    values: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(super) fn new(value: Value) -> Result<Self, Error> {
        match value {
            Value::Array(values) => Ok(Self { values: values.into_iter() }),
            other => Err(unexpected("a list", &other)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    fn value(&mut self) -> Result<Value, Error> {
        self.values.next().ok_or_else(|| Error::Damaged("an answer of Redis is incomplete".into()))
    }

    pub(super) fn list(&mut self) -> Result<Self, Error> {
        Self::new(self.value()?)
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes),
            other => Err(unexpected("bytes", &other)),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        String::from_utf8(self.bytes()?)
            .map_err(|_| Error::Damaged("unexpected answer from Redis: bytes instead of text".into()))
    }

    /// A whole number, as an integer or as digits.
    pub(super) fn number(&mut self) -> Result<i64, Error> {
        number(&self.value()?)
    }

    /// A whole number as digits; `None` if empty.
    pub(super) fn optional(&mut self) -> Result<Option<u64>, Error> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| not_a_number(&text))
    }

    /// A score: a number that may come as a decimal fraction.
    fn score(&mut self) -> Result<u64, Error> {
        let text = self.text()?;
        let score: Result<f64, _> = text.parse();
        score.map(|score| score as u64).map_err(|_| not_a_number(&text))
    }

    /// A number, or bytes.
    pub(super) fn number_or_bytes(&mut self) -> Result<Result<i64, Vec<u8>>, Error> {
        match self.value()? {
            Value::Int(number) => Ok(Ok(number)),
            Value::BulkString(bytes) => Ok(Err(bytes)),
            other => Err(unexpected("a number or bytes", &other)),
        }
    }

    /// A number, or an id of a job.
    pub(super) fn number_or_id(&mut self) -> Result<Result<i64, JobId>, Error> {
        Ok(match self.number_or_bytes()? {
            Ok(number) => Ok(number),
            Err(bytes) => Err(id(&bytes)?),
        })
    }

    /// A number, or a list.
    pub(super) fn number_or_list(&mut self) -> Result<Result<i64, Self>, Error> {
        match self.value()? {
            Value::Int(number) => Ok(Ok(number)),
            list => Self::new(list).map(Err),
        }
    }

    pub(super) fn id(&mut self) -> Result<JobId, Error> {
        id(&self.bytes()?)
    }

    /// Ids, each with its score.
    pub(super) fn scored(mut self) -> Result<Vec<(u64, JobId)>, Error> {
        let mut scored = Vec::with_capacity(self.len() / 2);
        while self.len() > 0 {
            let id = self.id()?;
            scored.push((self.score()?, id));
        }
        Ok(scored)
    }

    /// Jobs, each as id, body, meta and result; `None` for a missing one.
    pub(super) fn records(mut self) -> Result<Vec<(JobId, Option<Record>)>, Error> {
        let mut decoder = Decoder::default();
        let mut records = Vec::with_capacity(self.len() / 4);
        while self.len() > 0 {
            let (id, body, meta, result) = (self.id()?, self.bytes()?, self.bytes()?, self.bytes()?);
            let record = if body.is_empty() { None } else { Some(decoder.record(id, &body, &meta, &result)?) };
            records.push((id, record));
        }
        Ok(records)
    }
}

pub(super) fn id(bytes: &[u8]) -> Result<JobId, Error> {
    let number = bytes.try_into().ok().map(u64::from_be_bytes);
    number.and_then(JobId::new).ok_or_else(|| Error::Damaged("Redis contains an invalid id".into()))
}

pub(super) fn number(value: &Value) -> Result<i64, Error> {
    let parsed = match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(digits) => std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
        _ => None,
    };
    parsed.ok_or_else(|| unexpected("a number", value))
}

fn not_a_number(text: &str) -> Error {
    Error::Damaged(format!("unexpected answer from Redis: {text:?} instead of a number"))
}

fn unexpected(expected: &str, got: &Value) -> Error {
    Error::Damaged(format!("unexpected answer from Redis: {got:?} instead of {expected}"))
}
