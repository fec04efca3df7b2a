//! Settling and extending leases, and cancelling jobs.

use super::{Object, Span};
#[cfg(feature = "openapi")]
use crate::json::schema::Note;
use crate::json::{Base64, bytes_of, raw, show_bytes};
use crate::model::follow_up::FollowUps;
use crate::model::job::check_lease;
use crate::request::{CancelOutcome, Outcome};
use crate::rules::{Failure, Park, Release};
use crate::{Error, Receipt};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// The job is done.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Complete<'a> {
    /// JSON of at most 1 MiB, kept with the job.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    #[serde(default, borrow, deserialize_with = "raw")]
    pub result: Option<&'a RawValue>,
    /// The result in base64, if it is not JSON.
    #[serde(default, borrow)]
    pub result_base64: Option<Base64<'a>>,
    /// Jobs that are pushed in the same step, beside those that the job names itself: at most 16. Their queue is that of the job by
    /// default, and their delay begins now.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<crate::json::schema::FollowUp>>, max_items = 16))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: FollowUps,
}

/// The lease continues.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Extend {
    /// The lease from now, 1 s to 12 h; by default its original length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
}

impl TryFrom<Complete<'_>> for Outcome {
    type Error = Error;

    fn try_from(body: Complete<'_>) -> Result<Self, Error> {
        let Complete { result, result_base64, then } = body;
        Ok(Self::Complete { result: bytes_of("result", result, result_base64)?, then })
    }
}

/// One of many settles.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Settle<'a> {
    /// The receipt of the lease.
    pub receipt: Receipt,
    /// It is done.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Complete<'a>>))]
    #[serde(default, borrow)]
    pub complete: Option<Object<Complete<'a>>>,
    /// It failed.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Failure>))]
    pub fail: Option<Object<Failure>>,
    /// It is given back.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Release>))]
    pub release: Option<Object<Release>>,
    /// It is set aside.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Park>))]
    pub park: Option<Object<Park>>,
}

impl TryFrom<Settle<'_>> for (Receipt, Outcome) {
    type Error = Error;

    fn try_from(body: Settle<'_>) -> Result<Self, Error> {
        let Settle { receipt, complete, fail, release, park } = body;
        let outcome = match (complete, fail, release, park) {
            (Some(Object(complete)), None, None, None) => complete.try_into()?,
            (None, Some(Object(failure)), None, None) => Outcome::Fail(failure),
            (None, None, Some(Object(release)), None) => Outcome::Release(release),
            (None, None, None, Some(Object(park))) => Outcome::Park(park),
            (None, None, None, None) => {
                return Err(Error::invalid(
                    "complete",
                    "given, or `fail`, `release` or `park` instead",
                    "none of them",
                ));
            }
            _ => {
                let expected = "the only one of `complete`, `fail`, `release` and `park`";
                return Err(Error::invalid("complete", expected, "several"));
            }
        };
        Ok((receipt, outcome))
    }
}

impl<'a> Settle<'a> {
    /// The body that settles a lease.
    pub fn new(receipt: Receipt, outcome: &'a Outcome) -> Self {
        let mut body = Self { receipt, complete: None, fail: None, release: None, park: None };
        match outcome {
            Outcome::Complete { result, then } => {
                let (result, result_base64) = result.as_deref().map_or((None, None), show_bytes);
                body.complete = Some(Object(Complete { result, result_base64, then: then.clone() }));
            }
            Outcome::Fail(failure) => body.fail = Some(Object(failure.clone())),
            Outcome::Release(release) => body.release = Some(Object(*release)),
            Outcome::Park(park) => body.park = Some(Object(park.clone())),
        }
        body
    }
}

/// One lease of many to extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExtendOne {
    /// The receipt of the lease.
    pub receipt: Receipt,
    /// The lease from now, 1 s to 12 h; by default its original length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
}

impl TryFrom<ExtendOne> for (Receipt, Option<u64>) {
    type Error = Error;

    fn try_from(ExtendOne { receipt, lease }: ExtendOne) -> Result<Self, Error> {
        lease.map_or(Ok(()), check_lease)?;
        Ok((receipt, lease.map(|Span(ms)| ms)))
    }
}

/// The progress of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// The progress in percent: 0 to 100.
    #[cfg_attr(feature = "openapi", schema(maximum = 100))]
    pub percent: u8,
    /// A note about the current step.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Note>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
}

/// The body of a cancel, a retry or a run of one job: empty.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// The result of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cancelled {
    /// The outcome.
    pub outcome: CancelOutcome,
}
