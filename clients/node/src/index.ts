/** Client and worker for Duetime, a delayed job queue. */

export { Client } from './client.js'
export type { Change, ClientOptions, Spread, When } from './client.js'
export {
  Aborted, Conflict, DuetimeError, Forbidden, Invalid, LeaseLost, LockHeld, LockLost, NotFound, Protocol, RateLimited, TimedOut, Unauthorized,
  Unavailable,
} from './errors.js'
export type { Problem } from './errors.js'
export type { Configured, Pause, Queues, Schedules } from './groups.js'
export type { Handler, Middleware, Schema, ThreadHandler } from './handlers.js'
export type { Lock } from './lock.js'
export { Cancelled, Fatal, Park, Release, RetryAfter, Stopping } from './outcomes.js'
export type { RunningJob } from './running.js'
export type {
  CallOptions, CancelByKeyOutcome, CancelOutcome, Counts, Duration, IfVersion, Instant, Job, JobEvent, JobOptions, NewJob, Previous, Pushed, Queue, QueueChanges,
  QueueSettings, Retry, RetryRules, Schedule, ScheduleShown, Selection, State, Target, Transition, WhenExhausted, Why,
} from './types.js'
export { Worker } from './worker.js'
export type { Health, Logger, WorkerOptions } from './worker.js'
