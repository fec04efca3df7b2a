//! Types of jobs.

use duetime_core::Retry;
use duetime_core::limits::PRIORITY_DEFAULT;
use duetime_core::model::name::QUEUE_DEFAULT;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A type of jobs: a payload, which is serialized as JSON, and what a push of it has unless the push says otherwise.
///
/// With the feature `derive`, which is on by default, `#[derive(Job)]` implements it:
///
/// ```
/// # #[cfg(feature = "derive")]
/// # mod example {
/// use duetime::prelude::*;
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// #[job(kind = "invoice.send", queue = "mail", retry = "15s,1m,10m", timeout = "2m", unique = "order", expires = "1d")]
/// struct SendInvoice {
///     order: u64,
/// }
/// # }
/// ```
///
/// | setting | meaning |
/// |---|---|
/// | `kind = "…"` | [`KIND`](Self::KIND); it must be given |
/// | `queue = "…"` | [`QUEUE`](Self::QUEUE) |
/// | `was = "…"` | adds to [`WAS`](Self::WAS) |
/// | `retry = "15s,1m"`, `"none"`, `"default"` | the waits of [`retry`](Self::retry) |
/// | `jitter = 0.2` | its [jitter](Retry::jitter) |
/// | `max_attempts = 5`, `max_age = "2d"`, `max_crashes = 3` | its limits |
/// | `when_exhausted = "keep"`, `"drop"`, `"restart"`, `"move:QUEUE"` | what it does [in the end](Retry::when_exhausted) |
/// | `timeout = "2m"` | [`TIMEOUT`](Self::TIMEOUT) |
/// | `concurrency = 5` | [`CONCURRENCY`](Self::CONCURRENCY) |
/// | `expires = "1d"` | [`EXPIRES`](Self::EXPIRES) |
/// | `lease = "90s"` | [`LEASE`](Self::LEASE) |
/// | `priority = 10` | [`PRIORITY`](Self::PRIORITY) |
/// | `unique = "order, item"` | [`key`](Self::key): the kind and the values of these fields, such as `invoice.send:7:1`. Their types implement `Display` |
/// | `tags = "customer"` | [`tags`](Self::tags): name and value of each of these fields, such as `customer:12` |
///
/// By hand it is as long as it needs to be:
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct CancelOrder {
///     order: String,
/// }
///
/// impl duetime::JobType for CancelOrder {
///     const KIND: &'static str = "order.cancel";
///     const QUEUE: &'static str = "orders";
///
///     fn key(&self) -> Option<String> {
///         Some(self.order.clone())
///     }
/// }
/// ```
pub trait JobType: Serialize + DeserializeOwned + Send + 'static {
    /// The kind, which selects the handler: 1 to 128 bytes.
    const KIND: &'static str;
    /// The queue; `default` by default.
    const QUEUE: &'static str = QUEUE_DEFAULT;
    /// Former kinds. A handler of this type also runs the jobs that were pushed under them; their payloads must be readable
    /// as this type.
    const WAS: &'static [&'static str] = &[];
    /// How long an attempt may take; by default there is no limit. See [`Worker::time_limit`](crate::Worker::time_limit).
    const TIMEOUT: Option<Duration> = None;
    /// How many jobs of this type one worker runs at the same time; by default as many as it has [handlers](crate::Worker::concurrency).
    ///
    /// A worker reserves jobs before it knows their kinds. One over the limit waits for at most 0.1 s, and is then released for a
    /// second, without counting the attempt; another worker may run it. Jobs of other types behind it are slowed down meanwhile.
    /// So put a type with many waiting jobs in a separate queue. A limit over all workers is
    /// [`max_running`](crate::queue::QueueSettings::max_running) of a queue.
    const CONCURRENCY: Option<usize> = None;
    /// How long after its due time a job must start, otherwise it fails; by default there is no limit.
    const EXPIRES: Option<Duration> = None;
    /// The lease, 1 s to 12 h; by default the worker's, else the queue's, else 60 s.
    const LEASE: Option<Duration> = None;
    /// The priority among the due jobs of the queue; 0 is the most urgent.
    const PRIORITY: u32 = PRIORITY_DEFAULT;

    /// The retry rule. What it does not say comes from the queue's settings, then from the defaults.
    fn retry() -> Retry {
        Retry::default()
    }

    /// The key of this job, 1 to 255 bytes, which is unique among the live jobs of its queue; by default it has none.
    fn key(&self) -> Option<String> {
        None
    }

    /// The tags of this job: at most 16, each of 1 to 255 bytes.
    fn tags(&self) -> Vec<String> {
        Vec::new()
    }
}
