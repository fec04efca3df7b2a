//! Every limit of Duetime, with its unit. Beyond a limit there is an error; nothing is clamped.

/// One second in milliseconds.
pub const SECOND_MS: u64 = 1_000;
/// One minute in milliseconds.
pub const MINUTE_MS: u64 = 60 * SECOND_MS;
/// One hour in milliseconds.
pub const HOUR_MS: u64 = 60 * MINUTE_MS;
/// One day in milliseconds.
pub const DAY_MS: u64 = 24 * HOUR_MS;

/// Largest payload unless configured otherwise: 1 MiB.
pub const PAYLOAD_BYTES_DEFAULT: usize = 1 << 20;
/// Largest payload that can be configured: 64 MiB.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// Longest queue name.
pub const QUEUE_BYTES_MAX: usize = 200;
/// Longest kind.
pub const KIND_BYTES_MAX: usize = 128;
/// Longest key.
pub const KEY_BYTES_MAX: usize = 255;
/// The maximum length of an origin, in bytes.
pub const ORIGIN_BYTES_MAX: usize = 255;
/// Most tags of one job.
pub const TAGS_MAX: usize = 16;
/// Longest tag.
pub const TAG_BYTES_MAX: usize = 255;
/// Longest delay, and farthest `due_at` ahead of now: 10 years of 365.25 days.
pub const DELAY_MS_MAX: u64 = 3_652 * DAY_MS + DAY_MS / 2;
/// Most times that a job is forwarded from queue to queue, by targets or when its attempts are used up: beyond that the
/// queues form a circle. Our own choice; chains of a queue, a slower one and one for dead letters have two.
pub const MOVES_MAX: u32 = 8;
/// Most jobs that begin with one end of a job.
pub const FOLLOW_UPS_MAX: usize = 16;
/// Most jobs in a chain, each of which begins with the end of the one before it.
pub const CHAIN_JOBS_MAX: usize = 32;
/// Most bytes of JSON of the jobs that begin with one end of a job, with all that follow these: 256 KiB.
pub const FOLLOW_UPS_BYTES_MAX: usize = 256 << 10;
/// Shortest lease: 1 s.
pub const LEASE_MS_MIN: u64 = SECOND_MS;
/// Longest lease: 12 h.
pub const LEASE_MS_MAX: u64 = 12 * HOUR_MS;
/// Default lease: 60 s.
pub const LEASE_MS_DEFAULT: u64 = MINUTE_MS;
/// Most jobs in one batch.
pub const BATCH_JOBS_MAX: usize = 10_000;
/// Most payload bytes in one batch: 64 MiB.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Most jobs one reserve or take hands out.
pub const RESERVE_JOBS_MAX: usize = 1_000;
/// Most queues one reserve may name.
pub const RESERVE_QUEUES_MAX: usize = 64;
/// Bytes of jobs ([`Job::held_bytes`](crate::Job::held_bytes)) after which a reserve or take hands out no more, so one answer has about
/// this much: 16 MiB.
pub const RESERVE_BYTES_MAX: usize = 16 << 20;
/// Default number of jobs that a take hands out.
pub const TAKE_JOBS_DEFAULT: usize = 10;
/// Longest lock name.
pub const LOCK_NAME_BYTES_MAX: usize = 255;
/// Longest owner of a lock.
pub const LOCK_OWNER_BYTES_MAX: usize = 255;
/// Longest name of a worker.
pub const WORKER_BYTES_MAX: usize = 255;
/// Shortest time to live of a lock: 100 ms.
pub const LOCK_TTL_MS_MIN: u64 = 100;
/// Longest time to live of a lock: 24 h.
pub const LOCK_TTL_MS_MAX: u64 = DAY_MS;
/// Default time to live of a lock: 15 s.
pub const LOCK_TTL_MS_DEFAULT: u64 = 15 * SECOND_MS;
/// How long a ticket in the line for a lock lives unless it is refreshed: 3 s.
pub const LOCK_TICKET_MS: u64 = 3 * SECOND_MS;
/// When a waiter is to refresh its ticket at the latest: every second.
pub const LOCK_REFRESH_MS: u64 = LOCK_TICKET_MS / 3;
/// Most tickets in the line for one lock. Later callers wait too, but without a place.
pub const LOCK_TICKETS_MAX: usize = 1_000;
/// How long a grant that expired unreleased is counted as lost by a release of all locks: 60 s.
pub const LOCK_LOST_KEPT_MS: u64 = MINUTE_MS;
/// Most locks one page shows.
pub const PAGE_LOCKS_MAX: usize = 1_000;
/// Default size of a page of locks.
pub const PAGE_LOCKS_DEFAULT: usize = 100;
/// Most queues or schedules one page shows.
pub const PAGE_NAMES_MAX: usize = 1_000;
/// Default size of a page of queues or schedules.
pub const PAGE_NAMES_DEFAULT: usize = 100;
/// Longest wait of a reserve, and of one request for a lock: 60 s.
pub const WAIT_MS_MAX: u64 = 60 * SECOND_MS;
/// Longest message of an outcome: 64 KiB.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Longest result: 1 MiB.
pub const RESULT_BYTES_MAX: usize = 1 << 20;
/// Longest request id.
pub const REQUEST_ID_BYTES_MAX: usize = 64;
/// How many errors a job keeps: the last 20.
pub const ERRORS_KEPT: usize = 20;
/// Bytes of the messages of all kept errors of a job: beyond it the oldest are dropped, but never the newest.
pub const ERRORS_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// Most steps in a retry rule.
pub const RETRY_STEPS_MAX: usize = 100;
/// Slowest rate of a queue: a job in a thousand seconds.
pub const RATE_MIN: f64 = 0.001;
/// Fastest rate of a queue: a million jobs a second.
pub const RATE_MAX: f64 = 1_000_000.0;
/// Default priority; 0 is the most urgent.
pub const PRIORITY_DEFAULT: u32 = 1_024;
/// Crashes (leases that ended unsettled) after which a job is failed, by default.
pub const CRASHES_MAX_DEFAULT: u32 = 5;
/// Longest note on a progress.
pub const NOTE_BYTES_MAX: usize = 1_024;
/// Bytes of a `traceparent`: version, trace id, parent id and flags in hexadecimal, with dashes between them.
pub const TRACE_BYTES: usize = 55;
/// Most entries in the metadata of a job.
pub const META_ENTRIES_MAX: usize = 16;
/// Longest name in the metadata.
pub const META_NAME_BYTES_MAX: usize = 64;
/// Longest value in the metadata.
pub const META_VALUE_BYTES_MAX: usize = 256;
/// Most bytes of the metadata of a job, names and values together: 2 KiB, since brokers hold it with each live job.
pub const META_BYTES_MAX: usize = 2 << 10;
/// Most jobs one page of find or list shows.
pub const PAGE_JOBS_MAX: usize = 1_000;
/// Bytes of jobs after which a page ends.
pub const PAGE_BYTES_MAX: usize = 16 << 20;
/// Default size of a page of jobs.
pub const PAGE_JOBS_DEFAULT: usize = 100;
/// Most jobs that an atomic step of a broker touches.
pub const STEP_JOBS_MAX: usize = 1_000;
/// Most queues that are counted in one step.
pub const STEP_QUEUES_MAX: usize = 1_000;
/// A `due_at_ms` below this looks like seconds and is refused.
pub const INSTANT_MS_MIN: u64 = 100_000_000_000;
/// A `due_at_ms` of this or more, in the year 5138, looks like microseconds or nanoseconds and is refused.
pub const INSTANT_MS_END: u64 = 100_000_000_000_000;
/// Most schedules of a store.
pub const SCHEDULES_MAX: usize = 10_000;
/// Bytes of all schedules of a store together, as they are stored: 64 MiB, since every process reads them all.
pub const SCHEDULES_BYTES_MAX: usize = 64 << 20;
/// Bytes of the targets of all queues together: 256 MiB, since every process holds them, each with its worker. There may be some
/// 12,000 with few headers.
pub const TARGETS_BYTES_MAX: usize = 256 << 20;
/// Longest cron expression.
pub const CRON_BYTES_MAX: usize = 255;
/// Largest payload of a schedule's job: 64 KiB, since every process reads all schedules.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Shortest time from one tick to the next of an `@every`: 1 s.
pub const EVERY_MS_MIN: u64 = SECOND_MS;
/// How late a tick may be pushed and still count as on time, unless the next one is due before: 60 s, more than a restart or a
/// failover takes.
pub const TICK_LATE_MS_MAX: u64 = MINUTE_MS;
/// Longest span over which schedules, or the jobs of a bulk retry or reschedule, are spread: 24 h.
pub const SPREAD_MS_MAX: u64 = DAY_MS;
/// How far ahead of its time a tick is pushed at most: 2 s, so that it is as punctual as any job.
pub const TICK_AHEAD_MS_MAX: u64 = 2 * SECOND_MS;
/// How many of the next runs of a schedule are shown.
pub const NEXT_RUNS_SHOWN: usize = 10;
/// Most runs of a schedule that one request computes.
pub const RUNS_MAX: usize = 100;
