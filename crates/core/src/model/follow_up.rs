//! Jobs that begin when another job ends.

use crate::invalid::Invalid;
use crate::json::{Base64, RawJson, show_bytes};
use crate::limits::{FOLLOW_UPS_BYTES_MAX, FOLLOW_UPS_MAX};
use crate::model::id::JobId;
use crate::model::job::{Job, Payload, State};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// A job that is pushed when another one ends: JSON with the fields of a push. [`From<&NewJob>`](crate::NewJob) makes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FollowUp(RawJson);

impl FollowUp {
    pub(crate) fn of_json(json: RawJson) -> Self {
        Self(json)
    }

    /// The JSON.
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

/// What a job leads to.
pub type FollowUps = Option<Arc<[FollowUp]>>;

/// Whether such a list keeps its limits. `name` is the name of the field.
pub(super) fn check(name: &'static str, list: &FollowUps) -> Result<(), Invalid> {
    let list = list.as_deref().unwrap_or_default();
    if list.len() > FOLLOW_UPS_MAX {
        return Err(Invalid::new(name, format!("at most {FOLLOW_UPS_MAX} jobs"), list.len()));
    }
    let bytes = bytes(list);
    if bytes > FOLLOW_UPS_BYTES_MAX {
        return Err(Invalid::new(name, format!("at most {FOLLOW_UPS_BYTES_MAX} bytes of JSON in all"), bytes));
    }
    Ok(())
}

/// The bytes of a list.
pub(super) fn bytes(list: &[FollowUp]) -> usize {
    list.iter().map(|follow_up| follow_up.get().len()).sum()
}

/// The job whose end began this one, as it ended.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Previous {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::schema::QueueName))]
    pub queue: Arc<str>,
    /// How it ended.
    pub state: State,
    /// Its result, if that is JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    #[serde(default)]
    pub result: Option<RawJson>,
    /// Its result in base64, if it is not JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default)]
    pub result_base64: Option<Base64<'static>>,
    /// Why it failed or was cancelled.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::schema::Message>))]
    #[serde(default)]
    pub message: Option<Arc<str>>,
}

impl Previous {
    /// A job that ends in this state, with this result or message.
    pub(crate) fn new(job: &Job, state: State, result: Option<&Payload>, message: Option<Arc<str>>) -> Self {
        let (json, base64) = result.map_or((None, None), |result| show_bytes(result));
        Self {
            id: job.id,
            queue: job.queue.clone(),
            state,
            result: json.map(RawJson::from),
            result_base64: base64.map(|Base64(bytes)| Base64(Cow::Owned(bytes.into_owned()))),
            message,
        }
    }

    /// Its result, as its worker sent it.
    pub fn result_bytes(&self) -> Option<&[u8]> {
        let json = self.result.as_ref().map(|json| json.get().as_bytes());
        json.or(self.result_base64.as_ref().map(|Base64(bytes)| &**bytes))
    }

    /// As JSON for a place that holds no more than so many bytes, such as a header: a longer one leaves out the result, and then the
    /// message.
    pub fn within(&self, bytes_max: usize) -> String {
        let without_result = Self { result: None, result_base64: None, ..self.clone() };
        let briefest = Self { message: None, ..without_result.clone() };
        let print = |all: &Self| serde_json::to_string(all).expect("its names are text");
        let longer = [self, &without_result].map(print).into_iter().find(|json| json.len() <= bytes_max);
        longer.unwrap_or_else(|| print(&briefest))
    }

    /// About how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let result = self.result_bytes().map_or(0, |result| result.len());
        size_of::<Self>() + result + self.message.as_ref().map_or(0, |message| message.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn what_is_too_long_is_left_out() {
        let result: Payload = br#"{"a":1}"#[..].into();
        let previous = Previous::new(&fixtures::job(7), State::Failed, Some(&result), Some("no".into()));
        let whole = previous.within(1_000);
        assert!(whole.contains(r#""result":{"a":1},"message":"no""#), "{whole}");
        let short = previous.within(whole.len() - 1);
        assert!(!short.contains("result") && short.contains(r#""message":"no""#), "{short}");
        let shortest = previous.within(1);
        assert!(!shortest.contains("message") && shortest.contains(r#""state":"failed""#), "{shortest}");
    }
}
