//! The limits of the edge. Those of jobs are the engine's.

use std::time::Duration;

/// File descriptors that are kept for other things than connections and deliveries: stores, files.
pub(crate) const DESCRIPTORS_KEPT: usize = 512;
/// Most connections of deliveries of a process, of all queues; a quarter of them may be kept while they are not used.
pub(crate) const DELIVERIES_MAX: usize = 4_096;
/// Time to agree on how a connection is encrypted.
pub(crate) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long sent data may stay unacknowledged, in milliseconds; then the connection is closed.
pub(crate) const UNACKNOWLEDGED_MS_MAX: u32 = 60_000;
/// Time to read a head; also how long a connection may idle between requests.
pub(crate) const HEAD_TIME_MAX: Duration = Duration::from_secs(60);
/// Time to read a body.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(60);
/// Largest head: its path and the names and values of its header fields.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most header fields.
pub(crate) const HEADERS_MAX: usize = 64;
/// Longer heads are cut off without a problem document; also the buffer size of a connection.
pub(crate) const BUFFER_BYTES_MAX: usize = 64 << 10;
/// While more connections than this are open, one that has carried a large body is closed after the answer: the body has made its
/// buffer grow to [`BUFFER_BYTES_MAX`].
pub(crate) const LARGE_BUFFERS_MAX: usize = 512;
/// Most header fields that are parsed at all.
pub(crate) const HEADERS_PARSED_MAX: usize = 256;
/// Largest body of a request about one thing: a result of 1 MiB, in base64, and what stands around it.
pub(crate) const BODY_BYTES_MAX: usize = 2 << 20;
/// Largest body of a batch: 64 MiB of payloads, in base64, and what stands around them.
pub(crate) const BATCH_BODY_BYTES_MAX: usize = 96 << 20;
/// Largest form of the dashboard: a payload of 1 MiB, each byte in three.
pub(crate) const FORM_BYTES_MAX: usize = 4 << 20;
/// Largest form of a visitor without a session: a sign-in.
pub(crate) const GUEST_FORM_BYTES_MAX: usize = 16 << 10;
/// Most fields of a form.
pub(crate) const FORM_FIELDS_MAX: usize = 1_000;
/// Answers from this size on are sent in gzip to who takes it.
pub(crate) const GZIP_BYTES_MIN: u64 = 1 << 10;
/// Bytes that a body is counted as for each of its own: its text, and what is parsed from it.
pub(crate) const BODY_PARTS: usize = 2;
/// A body of at most so many bytes needs no share, so it never waits for room.
pub(crate) const BODY_FREE_BYTES: usize = 4 << 10;
/// Room in the budget of answers that is taken for a page of jobs before it is made: 16 MiB of payloads and
/// results, in base64, and what stands around them.
pub(crate) const PAGE_ANSWER_BYTES: usize = 24 << 20;
/// The same for one job; a larger one takes more when it is made.
pub(crate) const JOB_ANSWER_BYTES: usize = 2 << 20;
/// A body that has come this far in a second, or in the seconds since it last did, makes progress.
pub(crate) const BODY_PROGRESS_BYTES: usize = 16 << 10;
/// While others wait for room, a body must grow each second by one part in this many.
pub(crate) const BODY_PROGRESS_PART: usize = 32;
/// Seconds without enough progress after which a body is given up.
pub(crate) const BODY_STALL_SECONDS_MAX: u32 = 10;
/// The same for each element of a batch.
pub(crate) const ELEMENT_ANSWER_BYTES: usize = 512;
/// The same for an entry of a list of queues, workers or locks: a list of large ones takes more when it is made.
pub(crate) const ENTRY_ANSWER_BYTES: usize = 1 << 10;
/// Bytes of a head that each connection may hold without a share.
pub(crate) const HEAD_FREE_BYTES: usize = 8 << 10;
/// How long a body that is too large is read and discarded, so that its sender sees the answer.
pub(crate) const DISCARD_TIME_MAX: Duration = Duration::from_secs(2);
/// The longest remainder of a body that is read after its request was answered, so that the connection can carry the next one.
pub(crate) const REMAINDER_BYTES_MAX: u64 = 64 << 10;
/// How long it may take to come.
pub(crate) const REMAINDER_TIME_MAX: Duration = Duration::from_millis(100);
/// How long running requests may continue once the server is stopping.
pub(crate) const STOP_TIME_MAX: Duration = Duration::from_secs(10);
/// Most streams of events at once; a token has at most a quarter of them.
pub(crate) const EVENT_STREAMS_MAX: usize = 4_096;
/// Events that are there together are sent together up to this.
pub(crate) const EVENT_CHUNK_BYTES: usize = 1 << 10;
/// Such texts of a stream that are in memory at once.
pub(crate) const EVENT_TEXTS_MAX: usize = 2;
/// Events that happen within this time after others are sent together.
pub(crate) const EVENTS_TOGETHER: Duration = Duration::from_millis(20);
/// The minimum time between two notices to readers that only learn that something happened: each of them may read a page
/// again.
pub(crate) const ACTIVITY_EVERY: Duration = Duration::from_millis(100);
/// How often a stream of events sends a heartbeat while nothing happens.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
/// Pause after a connection could not be accepted, for example for lack of file descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
