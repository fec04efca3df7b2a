//! One of many answers.

use super::Problem;
use serde::{Deserialize, Serialize};

/// The answer to one request, or the problem that prevented it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer<T> {
    /// It was not done. Tried first when reading: a problem may carry every field of an answer.
    Problem(Box<Problem>),
    /// It was done.
    Done(T),
}

impl<T, E: Into<Problem>> From<Result<T, E>> for Answer<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(done) => Self::Done(done),
            Err(error) => Self::Problem(Box::new(error.into())),
        }
    }
}
