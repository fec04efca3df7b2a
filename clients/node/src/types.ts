/** What goes in and comes out. Field by field it is docs/reference/http.md, with names in camel case. */

/** A number of milliseconds, or the server's text: `"250ms"`, `"30s"`, `"1h30m"`, `"7d"`. */
export type Duration = number | string
/** An instant; text is RFC 3339, such as `"2027-01-31T08:00:00Z"`. */
export type Instant = Date | string

/** `scheduled` until it is due, then `ready`, `running`, and one of the other three. */
export type State = 'scheduled' | 'ready' | 'running' | 'succeeded' | 'failed' | 'cancelled'

/** When the next attempt of a failed job is due. */
export type Retry =
  | 'default'
  | 'none'
  | { steps: Duration[] }
  | { fixed: { delay: Duration } }
  | { exponential: { first: Duration; factor: number; max: Duration; jitter?: number } }

/** What becomes of a job after its last attempt. */
export type WhenExhausted = 'keep' | 'drop' | 'restart' | { move: string }

/** What happens after a failed attempt. */
export interface RetryRules {
  retry?: Retry | undefined
  /** Each wait is longer by up to this part of it; 0.1 by default, 0 for exact waits. */
  jitter?: number | undefined
  /** 16 by default, 0 for no limit. */
  maxAttempts?: number | undefined
  maxAge?: Duration | undefined
  /** How often its worker may die; 5 by default. */
  maxCrashes?: number | undefined
  /** `keep` by default: as a dead letter. */
  whenExhausted?: WhenExhausted | undefined
}

/** Where the server itself delivers a job, instead of a worker. */
export type Target =
  | { url: string; method?: string; headers?: Record<string, string>; timeout?: Duration; finalStatuses?: number[]; key?: string }
  | { redisList: { url: string; key: string; as: 'list' | 'laravel' | 'sidekiq' | 'bullmq' } }
  | { queue: string }

/** Options of a job; all are optional. */
export interface JobOptions extends RetryRules {
  /** Which handler runs it; `default` by default. */
  kind?: string | undefined
  /** Unique among the live jobs of the queue. */
  key?: string | undefined
  /**
   * What a push does if the key is held; `keep` by default. With `debounce`, pushes with one key become one job, which is due so long after
   * the last of them, and no later than `atLatest` after the first.
   */
  onConflict?: 'keep' | 'replace' | 'reject' | { debounce: Duration; atLatest?: Duration | undefined } | undefined
  /** Until when the job holds its key; `finished` by default. */
  keyUntil?: 'finished' | 'started' | undefined
  /** How long until it is due; 0 by default, at most 10 years. */
  delay?: Duration | undefined
  /** When it is due, instead of `delay`. */
  dueAt?: Instant | undefined
  /** At most 16 labels. */
  tags?: readonly string[] | undefined
  /** 0 is the most urgent; 1024 by default. */
  priority?: number | undefined
  /** How long a worker holds the job before it extends; 60 s by default, at least 1 s. */
  lease?: Duration | undefined
  /** How long after it is due the job may still start; no limit by default. */
  expires?: Duration | undefined
  /** Identifies this push: a repeat makes no second job. A random one by default. */
  origin?: string | undefined
  target?: Target | undefined
  /** A W3C `traceparent`; by default that of the running handler, or of OpenTelemetry if it is installed. */
  trace?: string | undefined
  /** What workers, webhooks and the dashboard get, such as `{ tenant: '7' }`; at most 16 entries and 2 KiB. */
  meta?: Readonly<Record<string, string>> | undefined
  /** At most 16 jobs that are pushed when it succeeds, in the same step. Their handlers have its result: `job.previous`. */
  then?: readonly NewJob[] | undefined
  /** The same when it has failed for good, was cancelled, or has expired. */
  otherwise?: readonly NewJob[] | undefined
}

/** The job whose end pushed another one. */
export interface Previous {
  id: string
  queue: string
  state: State
  /** What its handler returned, decoded as a payload is. */
  result?: unknown
  /** Why it failed or was cancelled. */
  message?: string
}

/** A job of `pushMany`, `then` and `otherwise`. */
export interface NewJob extends JobOptions {
  queue: string
  payload: unknown
}

/** The answer to a push. */
export interface Pushed {
  id: string
  queue: string
  state: State
  dueAt: Date
  /**
   * `kept` and `replaced`: the key was held. `repeated`: this push had been recorded already. `dropped`: the queue was full, and the job
   * is not stored.
   */
  outcome: 'created' | 'kept' | 'replaced' | 'repeated' | 'dropped'
}

/** A job as the server has it. */
export interface Job<Payload = unknown, Result = unknown> {
  id: string
  queue: string
  kind: string
  state: State
  /** The JSON that was pushed, integers beyond 2^53 as `bigint`; a `Uint8Array` if it is not JSON. */
  payload: Payload
  /** What the handler returned; `undefined` if it returned nothing. */
  result?: Result
  /**
   * The payload as it was pushed, to the character, also numbers that JavaScript does not hold. `Buffer.from(payloadText)` pushes the
   * same again. `undefined` for bytes that are not UTF-8. Not enumerable: a copy of the job lacks it.
   */
  readonly payloadText: string | undefined
  /** The result in the same way; `undefined` also without one. */
  readonly resultText: string | undefined
  attempt: number
  crashes: number
  releases?: number
  key?: string
  tags: string[]
  priority: number
  createdAt: Date
  updatedAt: Date
  firstDueAt: Date
  dueAt: Date
  startedAt?: Date
  finishedAt?: Date
  leaseUntil?: Date
  /** The last failure. */
  message?: string
  /** Those of the last 20 attempts. */
  errors: { at: Date; attempt: number; crashed: boolean; message: string }[]
  progress?: { at: Date; percent: number; note?: string }
  cancelRequested: boolean
  version: number
  origin?: string
  trace?: string
  meta?: Record<string, string>
  previous?: Previous
}

/** Which jobs; what is left out does not matter. */
export interface Selection {
  queue?: string | undefined
  /** `retrying`: waiting after a failed attempt; alone. */
  state?: State | 'retrying' | readonly State[] | undefined
  tag?: string | undefined
  /** Needs `queue`. */
  key?: string | undefined
  kind?: string | undefined
  dueFrom?: Instant | undefined
  dueTo?: Instant | undefined
}

/** What a cancel by id did. `cancel_requested`: it runs, and its worker is asked to stop. */
export type CancelOutcome = 'cancelled' | 'cancel_requested' | 'already_finished'
/** What a cancel by key did. `none`: there is no live job with this key. */
export type CancelByKeyOutcome = 'cancelled' | 'cancel_requested' | 'none'

/** Numbers of jobs by outcome, such as `{ cancelled: 3, cancelRequested: 1 }`; 0 is left out. */
export type Counts = Partial<Record<string, number>>

/** What keeps a job from running. */
export interface Why {
  id: string
  queue: string
  state: State
  reasons: { code: string; detail: string; until: Date | null; since?: Date; worker?: string; count?: number; limit?: number }[]
}

/** What jobs of a queue have that say nothing else, and how they are handed out. */
export interface QueueSettings extends RetryRules {
  lease?: Duration | undefined
  maxRunning?: number | undefined
  /** Jobs that may wait, for their time or for a worker. */
  maxWaiting?: number | undefined
  /** What becomes of a push while `maxWaiting` jobs wait: it fails with the code `queue_full` by default, or its outcome is `dropped`. */
  whenFull?: 'refuse' | 'drop' | undefined
  rate?: { perSecond: number; burst?: number } | undefined
  /** How long records are kept: a day, failed jobs 30 days by default. */
  retention?: { succeeded?: Duration; failed?: Duration } | undefined
  target?: Target | undefined
}

/** Settings to change; `null` resets one to its default. */
export type QueueChanges = { [Name in keyof QueueSettings]: QueueSettings[Name] | null }

/** A queue: counts of its jobs by state, and its settings. */
export interface Queue {
  queue: string
  scheduled: number
  ready: number
  running: number
  pending: number
  succeeded: number
  failed: number
  cancelled: number
  oldestDueAt: Date | null
  paused: boolean
  pausedUntil?: Date
  settings: QueueSettings
  totals?: { pushed: number; succeeded: number; failed: number; cancelled: number }
}

/** A recurring job: `cron` with `timeZone` (UTC by default), or `every`. */
export interface Schedule {
  cron?: string | undefined
  timeZone?: string | undefined
  /** At least 1 s. */
  every?: Duration | undefined
  job: Omit<NewJob, 'delay' | 'dueAt' | 'queue'> & { queue?: string }
  start?: Instant | undefined
  end?: Instant | undefined
  /** Runs that came due while no server ran: `once` (default) makes up for one of them. */
  missed?: 'skip' | 'once' | undefined
  /** `skip` omits a run while the previous job is live; `allow` by default. */
  overlap?: 'allow' | 'skip' | undefined
  paused?: boolean | undefined
  pausedUntil?: Instant | undefined
  /** Each run is later by a part of this, which the name of the schedule decides; 1 s to 24 h. */
  spread?: Duration | undefined
}

/** A schedule as the server has it. */
export interface ScheduleShown {
  name: string
  schedule: Schedule
  /** The next runs, at most 10. */
  next: Date[]
  last?: { at: Date; outcome: string; job?: string }
  version: number
}

/** What happened to a job. */
export type Transition =
  | 'pushed' | 'imported' | 'started' | 'succeeded' | 'taken' | 'retrying' | 'crashed' | 'released' | 'failed' | 'expired'
  | 'cancelled' | 'changed' | 'retried' | 'deleted'

/**
 * An event of the server. `subscribed` is the first, and comes again after each reconnect: events in between were missed.
 * `lost`: this reader was too slow. `activity`: something happened, if `every` was asked for.
 */
export type JobEvent =
  | { type: 'subscribed'; at: Date }
  | { type: 'lost' }
  | { type: 'activity'; at: Date }
  | { type: Transition; at: Date; id: string; queue: string; kind: string; state: State; attempt: number; dueAt?: Date }

/** Changes a job only if it still has this version; else throws `Conflict` (`version_mismatch`). */
export interface IfVersion {
  /** The job's `version`. Throws `Unavailable` if an answer was lost, so that nobody knows which change was made. */
  ifVersion?: number | undefined
}

/** Options of a single call. */
export interface CallOptions {
  /** Ends the call with `Aborted`. */
  signal?: AbortSignal | undefined
  /** For the whole call with its repeats; that of the client by default. */
  deadline?: Duration | undefined
}
