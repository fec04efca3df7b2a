//! Typed payloads.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A payload type that names the kind of its jobs. The payload is its JSON.
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
    /// Which handler its jobs are for: 1 to 128 bytes.
    const KIND: &'static str;
    /// The queue of its jobs where a push names none; by default `default`.
    const QUEUE: &'static str = duetime_core::model::name::QUEUE_DEFAULT;
}
