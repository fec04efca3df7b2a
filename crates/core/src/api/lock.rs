//! Locks: acquire, renew, release, inspect.

use super::{Span, Timestamp};
use crate::Error;
#[cfg(feature = "openapi")]
use crate::json::schema::{LockName, Owner};
use crate::limits::LOCK_TTL_MS_DEFAULT;
use crate::ports::{Grant, Holding};
use crate::request::LockRequest;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::sync::Arc;

/// Acquires a lock; with a fence, renews it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LockRequest))]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The owner: a name that no other holder uses.
    #[cfg_attr(feature = "openapi", schema(value_type = Owner))]
    pub owner: Arc<str>,
    /// The time to live: 100 ms to 24 h; 15 s by default.
    pub ttl: Option<Span>,
    /// The time to wait for the lock, at most 60 s; by default the request does not wait.
    pub wait: Option<Span>,
    /// Keeps the place in line for a moment after the wait, so that the next request continues the wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_place: bool,
    /// The fence of a grant; with it, the lock is renewed.
    pub fence: Option<u64>,
}

/// The operation that a [`Lock`] requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOperation {
    /// Acquire it.
    Acquire(LockRequest),
    /// Renew it.
    Renew {
        /// The holder.
        owner: Arc<str>,
        /// The fence.
        fence: u64,
        /// The time to live from now.
        ttl: Span,
    },
}

impl Lock {
    /// The requested operation on the lock with this name.
    ///
    /// # Errors
    /// If it asks both to renew and to wait.
    pub fn into_operation(self, name: Arc<str>) -> Result<LockOperation, Error> {
        let ttl = self.ttl.unwrap_or(Span(LOCK_TTL_MS_DEFAULT));
        let owner = self.owner;
        match self.fence {
            Some(_) if self.wait.is_some() || self.keep_place => {
                Err(Error::invalid("fence", "given without `wait` and `keep_place`: a renewal does not wait", "both"))
            }
            Some(fence) => Ok(LockOperation::Renew { owner, fence, ttl }),
            None => {
                let wait = self.wait.unwrap_or(Span(0));
                Ok(LockOperation::Acquire(LockRequest { name, owner, ttl, wait, keep_place: self.keep_place }))
            }
        }
    }

    /// The body of a renewal.
    pub fn renewal(owner: &Arc<str>, fence: u64, ttl: Span) -> Self {
        Self { owner: owner.clone(), ttl: Some(ttl), wait: None, keep_place: false, fence: Some(fence) }
    }
}

impl From<&LockRequest> for Lock {
    fn from(request: &LockRequest) -> Self {
        Self {
            owner: request.owner.clone(),
            ttl: Some(request.ttl),
            wait: Some(request.wait).filter(|wait| wait.0 > 0),
            keep_place: request.keep_place,
            fence: None,
        }
    }
}

/// A lock.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Lock))]
pub struct LockBody {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = LockName))]
    pub name: Arc<str>,
    /// True if the lock is held. The other fields exist only then.
    pub held: bool,
    /// The owner.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Owner>))]
    pub owner: Option<Arc<str>>,
    /// The fence.
    pub fence: Option<u64>,
    /// The time at which it expires unless renewed.
    pub expires_at: Option<Timestamp>,
    /// The number of owners that wait for it.
    pub waiting: Option<u32>,
}

impl LockBody {
    /// A lock that nobody holds.
    pub fn free(name: Arc<str>) -> Self {
        Self { name, held: false, owner: None, fence: None, expires_at: None, waiting: None }
    }

    /// The holder, if there is one.
    pub fn holding(self) -> Option<Holding> {
        let expires_at = self.expires_at?;
        let grant = Grant { fence: self.fence?, expires_at };
        let waiting = self.waiting.unwrap_or_default();
        Some(Holding { name: self.name, owner: self.owner?, grant, waiting }).filter(|_| self.held)
    }
}

impl From<&Holding> for LockBody {
    fn from(holding: &Holding) -> Self {
        Self {
            name: holding.name.clone(),
            held: true,
            owner: Some(holding.owner.clone()),
            fence: Some(holding.grant.fence),
            expires_at: Some(holding.grant.expires_at),
            waiting: Some(holding.waiting),
        }
    }
}

impl Serialize for Holding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        LockBody::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Holding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let holding = LockBody::deserialize(deserializer)?.holding();
        holding.ok_or_else(|| de::Error::custom("expected a lock that is held, got one that is free"))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Holding {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        LockBody::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Holding {
    fn name() -> std::borrow::Cow<'static, str> {
        LockBody::name()
    }

    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        LockBody::schemas(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Problem;
    use super::*;

    fn asked(text: &str) -> Result<LockOperation, Error> {
        serde_json::from_str::<Lock>(text).unwrap().into_operation("l".into())
    }

    #[test]
    fn a_lock_is_asked_for_or_renewed() {
        let request = LockRequest {
            name: "l".into(),
            owner: "worker-7-a81f".into(),
            ttl: Span(15_000),
            wait: Span(5_000),
            keep_place: false,
        };
        let text = r#"{"owner":"worker-7-a81f","ttl":"15s","wait":"5s"}"#;
        assert_eq!(asked(text).unwrap(), LockOperation::Acquire(request.clone()));
        assert_eq!(serde_json::to_string(&Lock::from(&request)).unwrap(), text);
        let least = LockRequest { wait: Span(0), ..request };
        assert_eq!(asked(r#"{"owner":"worker-7-a81f"}"#).unwrap(), LockOperation::Acquire(least));
        let renewal = Lock::renewal(&"o".into(), 7, Span(100));
        let text = r#"{"owner":"o","ttl":"100ms","fence":7}"#;
        assert_eq!(serde_json::to_string(&renewal).unwrap(), text);
        assert_eq!(asked(text).unwrap(), LockOperation::Renew { owner: "o".into(), fence: 7, ttl: Span(100) });
        assert_eq!(asked(r#"{"owner":"o","fence":7,"wait":"1s"}"#).unwrap_err().code(), "invalid");
        for wrong in [r#"{"owner":"o","time":"1s"}"#, "{}", r#"{"owner":"o","ttl":15}"#, r#"{"owner":"o","fence":-1}"#]
        {
            assert!(serde_json::from_str::<Lock>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_read_back_from_their_problems() {
        for error in [
            Error::LockHeld { name: "l".into(), expires_in: Span(3_200) },
            Error::LockLost { name: "l".into(), owner: "o".into(), fence: 7 },
            Error::invalid("ttl", "between 100 ms and 24 h", "99 ms"),
        ] {
            let text = serde_json::to_string(&Problem::of(&error, 423, "a title")).unwrap();
            assert_eq!(serde_json::from_str::<Problem>(&text).unwrap().error(), Some(error));
        }
    }
}
