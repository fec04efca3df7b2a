/** The client: pushes, finds and changes jobs. */

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { DuetimeError, errorOf, invalid, messageOf, shown, TimedOut, type Problem } from './errors.js'
import { eventsOf } from './events.js'
import { Queues, Schedules } from './groups.js'
import { Lock, startKeeper } from './lock.js'
import { activeTrace } from './trace.js'
import { exactOf, odd, settingsOf, Transport, type Answer, type Request, type Settings, type TransportOptions } from './transport.js'
import type {
  CallOptions, CancelByKeyOutcome, CancelOutcome, Counts, Duration, IfVersion, Instant, Job, JobEvent, JobOptions, NewJob, Pushed, Selection, Transition, Why,
} from './types.js'
import { jobOf, milliseconds, objectJson, queryOf, shownAs, timeOf } from './wire.js'

/** Options of a client, besides its server. */
export type ClientOptions = TransportOptions

/** When a job is due instead. */
export type When = { delay: Duration; dueAt?: undefined } | { dueAt: Instant; delay?: undefined }

/** Over which time many jobs are distributed. */
export interface Spread {
  spread?: Duration | undefined
}

/** What to change about a waiting job. */
export interface Change {
  payload?: unknown
  priority?: number
  delay?: Duration
  dueAt?: Instant
}

// The server takes 10,000; a busy one answers fewer within the time of a try.
const BATCH_JOBS_MAX = 1_000
// The server accepts 64 MiB of payloads; a body has more around them.
const BATCH_BYTES_MAX = 48 << 20
// The longest that the server waits in one request.
const WAIT_MS_MAX = 60_000
const JOB_WAIT_MS = 30_000
const EARLY_MS = 100
// The `date` of an answer has whole seconds.
const CLOCK_MS = 1_500
const LIVE = ['scheduled', 'ready', 'running'] as const

/**
 * A client of one Duetime, over one or several servers that are tried in turn.
 *
 * All calls are repeated by themselves after lost answers and while the server is unavailable, until their deadline; a
 * repeat never pushes a second job. They throw a `DuetimeError`.
 */
export class Client implements AsyncDisposable {
  readonly queues: Queues
  readonly schedules: Schedules
  readonly #settings: Settings
  readonly #transport: Transport
  readonly #origin = randomUUID()
  #pushes = 0

  /** `server` is a URL or `unix:/path`, several as an array or separated by commas; `DUETIME_SERVER`, or `http://127.0.0.1:7300` by default. */
  constructor(server?: string | readonly string[], options: ClientOptions = {}) {
    this.#settings = settingsOf(server, options)
    this.#transport = (options as { transport?: Transport }).transport ?? new Transport(this.#settings)
    this.queues = new Queues(this.#transport, 'queues')
    this.schedules = new Schedules(this.#transport, 'schedules')
  }

  /** What this client was made with; a worker connects with the same. */
  get settings(): Readonly<Settings> {
    return this.#settings
  }

  /** Pushes a job. Once this resolves, the job is recorded. Throws `Conflict` with `onConflict: 'reject'` if the key is held. */
  async push(queue: string, payload: unknown, options: JobOptions & CallOptions = {}): Promise<Pushed> {
    const { signal, deadline, ...rest } = options
    const body = this.#jobJson({ ...rest, payload })
    const deadlineMs = deadline === undefined ? this.#settings.pushDeadlineMs : timeOf(deadline, 'deadline')
    const answer = await this.#transport.call({ method: 'POST', path: `/v1/queues/${segment(queue, 'queue')}/jobs`, body, deadlineMs, signal })
    const pushed = shownAs(answer.body) as Pushed
    // With an origin of its own, only an earlier try of this push can have recorded it.
    return answer.tries > 1 && rest.origin === undefined && pushed.outcome === 'repeated' ? { ...pushed, outcome: 'created' } : pushed
  }

  /**
   * Pushes many jobs, in batches of at most 1,000. The result has, in order, for each job what became of it: a `Pushed`, or
   * the error of this job. Throws only if the server answered none of the batches.
   */
  async pushMany(jobs: readonly NewJob[], options: CallOptions = {}): Promise<(Pushed | DuetimeError)[]> {
    const results: (Pushed | DuetimeError)[] = []
    let [batch, places, bytes]: [string[], number[], number] = [[], [], 0]
    let [answered, failed]: [number, unknown] = [0, undefined]
    const send = async (): Promise<void> => {
      const sent = places
      const body = `[${batch.join(',')}]`
      ;[batch, places, bytes] = [[], [], 0]
      try {
        const answers: unknown[] = await this.#raw({ method: 'POST', path: '/v1/jobs', body, ...callOf(options, this.#settings.pushDeadlineMs) })
        answered += 1
        sent.forEach((place, index) => { results[place] = pushedOf(answers[index]) })
      } catch (error) {
        if (!(error instanceof DuetimeError)) throw error
        failed = error
        for (const place of sent) results[place] = error
      }
    }
    for (const [place, job] of jobs.entries()) {
      let json: string
      try {
        json = this.#jobJson({ ...job, queue: name(job.queue, 'queue') })
      } catch (error) {
        if (!(error instanceof DuetimeError)) throw error
        results[place] = error
        answered += 1
        continue
      }
      if (batch.length === BATCH_JOBS_MAX || (batch.length > 0 && bytes + json.length * 2 > BATCH_BYTES_MAX)) await send()
      batch.push(json)
      places.push(place)
      bytes += json.length * 2
    }
    if (batch.length > 0) await send()
    if (answered === 0 && failed !== undefined) throw failed as DuetimeError
    return results
  }

  /** Throws `NotFound`, also once the record has expired. */
  async get<Payload = unknown, Result = unknown>(id: string, options: CallOptions = {}): Promise<Job<Payload, Result>> {
    return oneOf(await this.#transport.call({ method: 'GET', path: job(id), ...callOf(options) }))
  }

  /** The live job with this key, else the last one that had it, or `null`. */
  async find<Payload = unknown, Result = unknown>(queue: string, key: string): Promise<Job<Payload, Result> | null> {
    let found: Job<Payload, Result> | null = null
    for (const state of [LIVE, undefined]) {
      for await (const one of this.jobs<Payload, Result>({ queue: name(queue, 'queue'), key, state })) found = one
      if (found !== null) break
    }
    return found
  }

  /** All jobs of a selection, read in pages of `limit` (100 by default, at most 1,000) as the loop goes on. */
  async *jobs<Payload = unknown, Result = unknown>(
    selection: Selection & { limit?: number } = {}, options: CallOptions = {},
  ): AsyncGenerator<Job<Payload, Result>, void, undefined> {
    let cursor: string | null | undefined
    do {
      const answer = await this.#transport.call({ method: 'GET', path: `/v1/jobs${queryOf({ ...selection, cursor })}`, ...callOf(options) })
      const { jobs, next_cursor: next } = answer.body as { jobs?: Record<string, unknown>[]; next_cursor?: string | null }
      if (!Array.isArray(jobs) || !jobs.every((one) => typeof one === 'object')) throw odd(answer, '`jobs`')
      const exact = exactOf(answer).part('jobs')
      for (const [place, one] of jobs.entries()) yield jobOf(one, exact.part(place))
      cursor = next ?? null
    } while (cursor !== null)
  }

  /** What keeps a job from running. Throws `NotFound`. */
  async why(id: string): Promise<Why> {
    return this.#call({ method: 'GET', path: `${job(id)}/why` })
  }

  /** A waiting job is cancelled at once; a running one is asked to stop. Throws `NotFound`. */
  async cancel(id: string, options: IfVersion = {}): Promise<CancelOutcome> {
    const answer = await this.#transport.call({ method: 'POST', path: `${job(id)}/cancel`, body: '{}', headers: match(options) })
    const { outcome } = answer.body as { outcome: CancelOutcome }
    // In a repeat, because the first try cancelled it.
    const isDone = answer.tries > 1 && outcome === 'already_finished' && (await this.get(id)).state === 'cancelled'
    return isDone ? 'cancelled' : outcome
  }

  /** Cancels the live job with this key, such as the cancellation of an order that was paid. */
  async cancelByKey(queue: string, key: string): Promise<CancelByKeyOutcome> {
    const start = performance.now()
    const answer = await this.#transport.call({ method: 'POST', path: '/v1/jobs/cancel', body: objectJson({ queue: name(queue, 'queue'), key: name(key, 'key') }) })
    const counts = answer.body as { cancelled?: number; cancel_requested?: number }
    if (counts.cancelled !== undefined) return 'cancelled'
    if (counts.cancel_requested !== undefined) return 'cancel_requested'
    if (answer.tries > 1) {
      // An earlier try may have cancelled it, and its answer was lost.
      const since = Date.parse(answer.headers.date ?? '') - (performance.now() - start) - CLOCK_MS
      const last = await this.find(queue, key)
      if (last?.state === 'cancelled' && last.updatedAt.getTime() >= since) return 'cancelled'
    }
    return 'none'
  }

  /** Cancels all live jobs with this tag, of one queue or of all. */
  async cancelByTag(tag: string, queue?: string): Promise<Counts> {
    return this.cancelAll({ tag: name(tag, 'tag'), queue })
  }

  /** Cancels all jobs of a selection, which names at least one thing; by default those that have not finished. */
  async cancelAll(selection: Selection): Promise<Counts> {
    return this.#bulk('cancel', objectJson(selection))
  }

  /** Retries finished jobs of a selection; by default those that failed. `spread` distributes them over a time, at most 24 h. */
  async retryAll(selection: Selection, options: Spread = {}): Promise<Counts> {
    return this.#bulk(`retry${queryOf(options)}`, objectJson(selection))
  }

  /** Deletes jobs of a selection, but for running ones. */
  async deleteAll(selection: Selection): Promise<Counts> {
    return this.#bulk('delete', objectJson(selection))
  }

  /** Changes when waiting jobs of a selection are due; a delay of 0 runs them now. `spread` distributes them over a time from then on, at most 24 h. */
  async rescheduleAll(selection: Selection, when: When & Spread): Promise<Counts> {
    return this.#bulk('reschedule', objectJson({ selection, ...when }))
  }

  /** Changes when a waiting job is due. Throws `NotFound`, or `Conflict` if it runs or has finished. */
  async reschedule(id: string, when: When, options: IfVersion = {}): Promise<Job> {
    return this.change(id, when, options)
  }

  /** Changes a waiting job. Throws `NotFound`, or `Conflict` if it runs or has finished. */
  async change(id: string, change: Change, options: CallOptions & IfVersion = {}): Promise<Job> {
    return oneOf(await this.#transport.call({ method: 'PATCH', path: job(id), body: objectJson(change), headers: match(options), ...callOf(options) }))
  }

  /** A waiting job is due now. Throws `NotFound`, or `Conflict` if it runs or has finished. */
  run(id: string, options: IfVersion = {}): Promise<Job> {
    return this.#act(id, 'run', options, ['job_running', 'already_finished'])
  }

  /** A finished job runs again, now. Throws `NotFound`, or `Conflict` if it has not finished. */
  retry(id: string, options: IfVersion = {}): Promise<Job> {
    return this.#act(id, 'retry', options, ['job_live'])
  }

  /** Deletes a job and its record. Throws `NotFound`, or `Conflict` if it runs. */
  async delete(id: string, options: IfVersion = {}): Promise<void> {
    await this.#transport.call({ method: 'DELETE', path: job(id), headers: match(options), doneIf: ['not_found'] })
  }

  /** Waits until the job has ended, and returns it with its `result`. Throws `TimedOut` after `timeout`, 30 s by default. */
  async wait<Payload = unknown, Result = unknown>(id: string, timeout: Duration = JOB_WAIT_MS, options: { signal?: AbortSignal } = {}): Promise<Job<Payload, Result>> {
    const end = performance.now() + milliseconds(timeout, 'timeout')
    for (;;) {
      const waitMs = Math.max(0, Math.min(JOB_WAIT_MS, Math.ceil(end - performance.now())))
      const askedAt = performance.now()
      const now = oneOf<Payload, Result>(await this.#transport.call({ method: 'GET', path: job(id) + queryOf({ wait: waitMs }), waitMs, signal: options.signal }))
      if (!LIVE.includes(now.state as (typeof LIVE)[number])) return now
      if (performance.now() >= end) throw new TimedOut({ code: 'wait_timeout', status: 0, detail: `the job ${id} is still ${now.state}` })
      // A server that stops answers early.
      if (performance.now() - askedAt < EARLY_MS) await sleep(EARLY_MS, undefined, { signal: options.signal })
    }
  }

  /**
   * Acquires a lock, first come, first served; release it, or use `await using`. Throws `LockHeld` if another has it after
   * `wait` (0 by default). Without a renewal the lock ends after `ttl`: 15 s by default, 100 ms to 24 h.
   */
  async lock(lock: string, options: { ttl?: Duration; wait?: Duration; owner?: string; signal?: AbortSignal } = {}): Promise<Lock> {
    const ttlMs = milliseconds(options.ttl ?? 15_000, 'ttl')
    const owner = options.owner ?? `${hostname()}-${process.pid}-${randomUUID()}`
    const end = performance.now() + milliseconds(options.wait ?? 0, 'wait')
    const path = `/v1/locks/${segment(lock, 'name')}`
    await startKeeper()
    for (;;) {
      const askedAt = performance.now()
      const leftMs = Math.max(0, Math.ceil(end - askedAt))
      const waitMs = Math.min(leftMs, WAIT_MS_MAX)
      const body = objectJson({ owner, ttl: ttlMs, wait: waitMs, keepPlace: leftMs > waitMs ? true : undefined })
      try {
        const { fence } = await this.#raw<{ fence: number }>({ method: 'PUT', path, body, waitMs, signal: options.signal })
        return new Lock(this.#transport, this.#settings, { name: lock, owner, ttlMs, fence }, waitMs === 0 ? performance.now() - askedAt : 0)
      } catch (error) {
        if (!(error instanceof DuetimeError) || error.code !== 'lock_held' || performance.now() >= end || leftMs <= waitMs) throw error
      }
    }
  }

  /**
   * What happens to jobs, from now on. `queue` may end with `*`. With `every` (100 ms to 10 s) only an event `activity`, at most once in
   * this time, if anything of it happened. It reconnects by itself; `break`, or the signal, ends it. Events are for watching, not for
   * accounting: those of a lost connection are missed.
   */
  events(
    filter: { queue?: string | readonly string[]; what?: Transition | readonly Transition[]; every?: Duration; signal?: AbortSignal } = {},
  ): AsyncGenerator<JobEvent, void, undefined> {
    const { signal, ...query } = filter
    return eventsOf(this.#transport, `/v1/events${queryOf(query)}`, signal)
  }

  /** Any other call, such as `request('GET', '/v1/history?span=hour')`; the answer has the names of the HTTP API. */
  async request(method: Request['method'], path: string, body?: object, options: CallOptions = {}): Promise<unknown> {
    return this.#raw({ method, path, body: body === undefined ? undefined : objectJson(body), ...callOf(options) })
  }

  /** Closes idle connections. The client can still be used. */
  close(): Promise<void> {
    this.#transport.close()
    return Promise.resolve()
  }

  /** Closes it. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #jobJson(fields: JobOptions & { queue?: string; payload: unknown }): string {
    if (fields.payload === undefined) throw invalid('payload', 'given (`null` is a payload)', 'undefined')
    this.#pushes += 1
    return objectJson({ ...fields, origin: fields.origin ?? `${this.#origin}-${this.#pushes}`, trace: fields.trace ?? activeTrace() })
  }

  async #act(id: string, verb: 'run' | 'retry', options: IfVersion, doneIf: readonly string[]): Promise<Job> {
    const answer = await this.#transport.call({ method: 'POST', path: `${job(id)}/${verb}`, body: '{}', headers: match(options), doneIf })
    return answer.body === undefined ? this.get(id) : oneOf(answer)
  }

  #bulk(verb: string, body: string): Promise<Counts> {
    return this.#call({ method: 'POST', path: `/v1/jobs/${verb}`, body })
  }

  async #call<T>(request: Request): Promise<T> {
    return shownAs(await this.#raw(request)) as T
  }

  async #raw<T = unknown>(request: Request): Promise<T> {
    return (await this.#transport.call(request)).body as T
  }
}

function oneOf<Payload, Result>(answer: Answer): Job<Payload, Result> {
  return jobOf(answer.body as Record<string, unknown>, exactOf(answer))
}

function pushedOf(answer: unknown): Pushed | DuetimeError {
  if (typeof answer !== 'object' || answer === null) return errorOf({ code: 'protocol', status: 200, detail: 'the server answered for fewer jobs than were sent' })
  return 'code' in answer ? errorOf(answer as Problem) : (shownAs(answer) as Pushed)
}

function callOf(options: CallOptions, deadlineMs?: number): Pick<Request, 'signal' | 'deadlineMs'> {
  return { signal: options.signal, deadlineMs: options.deadline === undefined ? deadlineMs : timeOf(options.deadline, 'deadline') }
}

function match({ ifVersion }: IfVersion): Record<string, string> | undefined {
  return ifVersion === undefined ? undefined : { 'if-match': `"${ifVersion}"` }
}

function job(id: string): string {
  return `/v1/jobs/${segment(id, 'id')}`
}

function name(value: unknown, field: string): string {
  if (typeof value !== 'string' || value === '') throw invalid(field, 'a text that is not empty', shown(value))
  return value
}

function segment(value: unknown, field: string): string {
  try {
    return encodeURIComponent(name(value, field))
  } catch (error) {
    if (error instanceof DuetimeError) throw error
    throw invalid(field, 'valid Unicode', messageOf(error), error)
  }
}


