//! Typed payloads.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A payload type that names the kind of its jobs. The payload is serialized as JSON.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct CancelOrder {
///     order: String,
/// }
///
/// impl duetime::Kind for CancelOrder {
///     const KIND: &'static str = "order.cancel";
///     const QUEUE: &'static str = "orders";
/// }
/// ```
pub trait Kind: Serialize + DeserializeOwned + Send + 'static {
    /// The kind, which selects the handler: 1 to 128 bytes.
    const KIND: &'static str;
    /// The queue of its jobs, unless a push names one; `default` by default.
    const QUEUE: &'static str = duetime_core::model::name::QUEUE_DEFAULT;
}
