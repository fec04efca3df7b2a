/** The worker: handlers on the main thread or in threads, and a line to the server in a thread of its own. */

import { existsSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { Worker as Thread } from 'node:worker_threads'
import type { Client } from './client.js'
import { Aborted, errorOf, invalid, LeaseLost, messageOf, shown } from './errors.js'
import { Handlers, type Handler, type Middleware, type Schema, type ThreadHandler } from './handlers.js'
import { Exact, parse } from './json.js'
import { OFFERED, TAKEN, type FromLine, type LineOptions, type Outcome, type ToLine } from './line.js'
import { Cancelled, Fatal, Park, Release, RetryAfter, Stopping } from './outcomes.js'
import { RunningJob } from './running.js'
import type { Duration } from './types.js'
import { milliseconds, timeOf } from './wire.js'

/** Where a worker writes what an operator should know. */
export interface Logger {
  /** What is as it should be. */
  info(text: string): void
  /** A failed attempt, a server that is unavailable. */
  warn(text: string): void
  /** What needs an operator. */
  error(text: string): void
}

/** Options of a worker. */
export interface WorkerOptions {
  /** Served in this order: a queue only if nothing is due in those before it. As an object, each gets its share by weight. At most 64. */
  queues: string | readonly string[] | Readonly<Record<string, number>>
  /** How many handlers run at once; 1 by default. */
  concurrency?: number | undefined
  /** How long the server leaves a job with a worker that no longer extends it; as the job or queue says by default, 60 s if they say nothing. */
  lease?: Duration | undefined
  /** How long a request for jobs waits at the server; 20 s by default, at most 60 s. */
  wait?: Duration | undefined
  /** How long running handlers have to end when the worker stops; 25 s by default. */
  stopDeadline?: Duration | undefined
  /** The name in the list of workers; host and process id by default. */
  name?: string | undefined
  /** Standard error by default; `null` for silence. */
  logger?: Logger | null | undefined
  /** A file that is written every 5 s while the main thread of the worker is responsive, for a supervisor. */
  healthFile?: string | undefined
}

/** What a supervisor wants to know of a worker. */
export interface Health {
  state: 'new' | 'running' | 'stopping' | 'stopped'
  /** Whether the server answers. */
  isReachable: boolean
  running: number
  /** Handlers that have ended since the start, and how many of them failed. */
  ended: number
  failed: number
}

// Standard output belongs to the program.
const write = (text: string): void => { console.error(text) }
const STDERR: Logger = { info: write, warn: write, error: write }
const QUEUES_MAX = 64
const HEALTH_EVERY_MS = 5_000
// For handlers that end because their signal was aborted.
const GRACE_MS = 100
const EXIT_MS = 1_000
// For outcomes that are not sent yet when the worker stops.
const FINISH_MS = 5_000

/**
 * Runs the jobs of queues with your handlers.
 *
 *     const worker = new Worker(client, { queues: ['mail'], concurrency: 10 })
 *     worker.handle('welcome', async (job) => send(job.payload.to))
 *     await worker.run()
 */
export class Worker implements AsyncDisposable {
  readonly #client: Client
  readonly #options: Omit<LineOptions, 'isDrain'>
  readonly #concurrency: number
  readonly #stopDeadlineMs: number
  readonly #logger: Logger | null
  readonly #healthFile: string | undefined
  readonly #handlers = new Handlers()
  readonly #running = new Map<string, RunningJob>()
  readonly #progress = new Map<number, { resolve: () => void; reject: (error: Error) => void }>()
  readonly #health: Health = { state: 'new', isReachable: true, running: 0, ended: 0, failed: 0 }
  #line: Thread | undefined
  #outcomes: Outcome[] = []
  #free = 0
  #isFlushing = false
  #calls = 0
  #stopping: Promise<void> | undefined
  #hurry = (): void => undefined
  #whenIdle = (): void => undefined
  #ended: { resolve: () => void; reject: (error: Error) => void } | undefined

  /** The worker connects with the settings of the client. Throws `Invalid`. */
  constructor(client: Client, options: WorkerOptions) {
    const { queues, concurrency = 1 } = options
    const named = typeof queues === 'string' ? [queues] : queues
    const listed = Array.isArray(named) ? (named as string[]).map((name): [string, undefined] => [name, undefined]) : Object.entries(named as Record<string, number>)
    if (listed.length < 1 || listed.length > QUEUES_MAX) throw invalid('queues', `1 to ${QUEUES_MAX} queues`, `${listed.length}`)
    for (const [name, weight] of listed) {
      if (weight !== undefined && !(weight > 0 && weight < Infinity)) throw invalid(`queues.${name}`, 'a weight above 0', shown(weight))
    }
    if (!Number.isInteger(concurrency) || concurrency < 1) throw invalid('concurrency', 'a whole number, 1 or more', shown(concurrency))
    this.#client = client
    this.#options = {
      settings: client.settings,
      queues: listed,
      name: options.name ?? `${hostname()}-${process.pid}`,
      leaseMs: options.lease === undefined ? undefined : milliseconds(options.lease, 'lease'),
      waitMs: timeOf(options.wait ?? 20_000, 'wait'),
    }
    this.#concurrency = concurrency
    this.#stopDeadlineMs = timeOf(options.stopDeadline ?? 25_000, 'stopDeadline')
    this.#logger = options.logger === undefined ? STDERR : options.logger
    this.#healthFile = options.healthFile
  }

  /** Runs jobs of this kind with this handler, `*` those of all other kinds. With a schema, a payload that does not fit fails the job for good. */
  handle<Payload, Result>(kind: string, options: { schema: Schema<Payload> }, handler: Handler<Payload, Result>): this
  handle<Payload = unknown, Result = unknown>(kind: string, handler: Handler<Payload, Result> | ThreadHandler): this
  handle(kind: string, first: { schema: Schema } | Handler<never> | ThreadHandler, second?: Handler<never>): this {
    if ('schema' in first && second !== undefined) this.#handlers.add(kind, second, first.schema, this.#concurrency)
    else this.#handlers.add(kind, first as Handler<never> | ThreadHandler, undefined, this.#concurrency)
    return this
  }

  /** Runs code around each handler, those added first outermost: for logs, metrics, transactions. */
  use(middleware: Middleware): this {
    this.#handlers.use(middleware)
    return this
  }

  /** What a supervisor wants to know. */
  health(): Health {
    return { ...this.#health, running: this.#running.size }
  }

  /**
   * Works until `stop` is called, `signal` is aborted, or SIGTERM or SIGINT comes; a second one stops at once. With
   * `signals: false` the worker does not listen to the process. Rejects if the server refuses the worker at its first try.
   */
  async run(options: { signal?: AbortSignal; signals?: boolean } = {}): Promise<void> {
    let received: NodeJS.Signals | undefined
    const onSignal = (name: NodeJS.Signals): void => {
      if (received === undefined) this.#log('info', `${name}: no more jobs are taken; ${this.#running.size} are running`)
      else this.#hurry()
      received = name
      void this.stop()
    }
    const stop = (): void => void this.stop()
    options.signal?.addEventListener('abort', stop, { once: true })
    const signals: NodeJS.Signals[] = options.signals === false ? [] : ['SIGTERM', 'SIGINT']
    for (const name of signals) process.on(name, onSignal)
    try {
      const running = this.#start(false)
      this.#log('info', `working on ${this.#options.queues.map(([name]) => name).join(', ')}, ${this.#concurrency} at once`)
      if (options.signal?.aborted === true) stop()
      await running
    } finally {
      options.signal?.removeEventListener('abort', stop)
      for (const name of signals) process.off(name, onSignal)
    }
    // A handler that did not end would keep the process alive; the program has a second for an end of its own.
    if (received !== undefined && this.#running.size > 0) setTimeout(() => process.exit(), EXIT_MS).unref()
  }

  /** Runs what is due, then ends: for tests and for cron. Returns how many handlers ended. */
  async drain(): Promise<number> {
    const before = this.#health.ended
    await this.#start(true)
    return this.#health.ended - before
  }

  /** For tests: runs the handler of this job, and returns what would be settled. Never rejects. */
  execute(job: RunningJob): Promise<{ json: string; error?: unknown }> {
    return this.#handlers.run(job)
  }

  /** Takes no more jobs, lets handlers end until the deadline, and gives back what has not ended. */
  async stop(options: { deadline?: Duration } = {}): Promise<void> {
    const deadlineMs = options.deadline === undefined ? this.#stopDeadlineMs : timeOf(options.deadline, 'deadline')
    if (this.#line !== undefined) await (this.#stopping ??= this.#stop(this.#line, deadlineMs))
  }

  /** Stops it. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #start(isDrain: boolean): Promise<void> {
    if (this.#line !== undefined) throw new Error('the worker runs already')
    const file = `${__dirname}/line.js`
    if (!existsSync(file)) throw new Error(`expected ${file}, a part of the package duetime; leave the package out of your bundle`)
    const line = new Thread(file, { workerData: { duetime: 'line', options: { ...this.#options, isDrain } } })
    this.#line = line
    this.#stopping = undefined
    this.#outcomes = []
    this.#free = this.#concurrency
    this.#health.state = 'running'
    const beat = this.#healthFile === undefined ? undefined : setInterval(() => { this.#beat() }, HEALTH_EVERY_MS)
    this.#beat()
    const onExit = (): void => { this.#log('error', `the process ends while ${this.#running.size} handlers run; their jobs run again once their leases end`) }
    process.on('exit', onExit)
    try {
      await new Promise<void>((resolve, reject) => {
        this.#ended = { resolve, reject }
        line.on('message', (message: FromLine) => { this.#receive(message) })
        line.on('error', reject)
        line.on('exit', () => {
          if (this.#health.state === 'stopping') resolve()
          else reject(new Error('the thread of the worker has ended; its jobs run again once their leases end'))
        })
        this.#flush(false)
      })
    } finally {
      process.off('exit', onExit)
      clearInterval(beat)
      this.#line = undefined
      this.#health.state = 'stopped'
      for (const { reject } of this.#progress.values()) reject(stopped())
      this.#progress.clear()
      await this.#handlers.close()
      await line.terminate()
    }
  }

  async #stop(line: Thread, deadlineMs: number): Promise<void> {
    this.#health.state = 'stopping'
    this.#post({ type: 'stop' })
    await this.#idleWithin(deadlineMs)
    const isLeft = this.#running.size > 0
    for (const job of this.#running.values()) job.abort(new Stopping('the worker stops'))
    if (isLeft) await this.#idleWithin(GRACE_MS)
    for (const receipt of this.#running.keys()) this.#outcomes.push([receipt, '"release":{}'])
    if (this.#running.size > 0) this.#log('warn', `${this.#running.size} handlers have not ended in time; their jobs are given back`)
    this.#flush(false)
    const exit = new Promise((resolve) => line.once('exit', resolve))
    this.#post({ type: 'finish', withinMs: FINISH_MS })
    await exit
  }

  /** Resolves when nothing runs, after this time, or when there is a hurry. */
  async #idleWithin(ms: number): Promise<void> {
    if (this.#running.size === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#whenIdle = this.#hurry = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #receive(message: FromLine): void {
    switch (message.type) {
      case 'jobs': {
        const isTaken = Atomics.compareExchange(message.cell, 0, OFFERED, TAKEN) === OFFERED
        const { leases } = parse(message.answer) as { leases: Record<string, unknown>[] }
        if (!isTaken) this.#free += leases.length
        this.#flush(true)
        const exact = new Exact(() => message.answer).part('leases')
        if (isTaken) for (const [place, lease] of leases.entries()) void this.#runJob(lease, exact.part(place))
        break
      }
      case 'ended':
        for (const receipt of message.receipts) this.#abort(receipt, message.why)
        break
      case 'progressed': {
        const waiting = this.#progress.get(message.call)
        this.#progress.delete(message.call)
        if (message.problem === undefined) waiting?.resolve()
        else waiting?.reject(errorOf(message.problem))
        break
      }
      case 'log':
        this.#log(message.level, message.text)
        break
      case 'contact':
        this.#health.isReachable = message.isReachable
        break
      case 'refused':
        this.#ended?.reject(errorOf(message.problem))
        break
      case 'idle':
        void this.stop()
    }
  }

  #abort(receipt: string, why: 'cancelled' | 'lost'): void {
    const job = this.#running.get(receipt)
    if (job === undefined) return
    job.abort(why === 'cancelled' ? new Cancelled('the job was cancelled') : new LeaseLost({ code: 'lease_lost', status: 409, detail: 'another worker may have the job' }))
  }

  async #runJob(lease: Record<string, unknown>, exact: Exact): Promise<void> {
    const job = new RunningJob(lease, exact, { client: this.#client, progress: (receipt, body) => this.#report(receipt, body) })
    this.#running.set(job.receipt, job)
    const { json, error } = await this.#handlers.run(job)
    this.#running.delete(job.receipt)
    this.#health.ended += 1
    // What ends because the worker stops has not failed.
    const isStopped = error !== undefined && job.signal.reason instanceof Stopping && !(error instanceof Fatal || error instanceof RetryAfter || error instanceof Park)
    if (error !== undefined && !isStopped && !(error instanceof Release)) {
      this.#health.failed += 1
      const stack = error instanceof Error ? (error.stack ?? messageOf(error)) : messageOf(error)
      if (!job.lost && !job.cancelled) this.#log('warn', `job ${job.id} (${job.kind}, attempt ${job.attempt}) failed: ${stack}`)
    }
    this.#outcomes.push([job.receipt, isStopped ? '"release":{}' : json])
    this.#free += 1
    if (this.#running.size === 0) this.#whenIdle()
    if (this.#isFlushing) return
    // Handlers that end in the same turn of the event loop are settled together.
    this.#isFlushing = true
    setImmediate(() => {
      this.#isFlushing = false
      this.#flush(false)
    })
  }

  #report(receipt: string, body: string): Promise<void> {
    if (this.#line === undefined) return Promise.reject(stopped())
    return new Promise((resolve, reject) => {
      this.#calls += 1
      this.#progress.set(this.#calls, { resolve, reject })
      this.#post({ type: 'progress', call: this.#calls, receipt, body })
    })
  }

  /** Tells the line which handlers have ended, and how many more may begin. */
  #flush(hasOffer: boolean): void {
    this.#post({ type: 'work', free: this.#free, outcomes: this.#outcomes, hasOffer })
    this.#outcomes = []
    this.#free = 0
  }

  #post(message: ToLine): void {
    this.#line?.postMessage(message)
  }

  #beat(): void {
    if (this.#healthFile === undefined) return
    try {
      writeFileSync(this.#healthFile, `${JSON.stringify(this.health())}\n`)
    } catch (error) {
      this.#log('error', `the health file cannot be written: ${messageOf(error)}`)
    }
  }

  #log(level: 'info' | 'warn' | 'error', text: string): void {
    this.#logger?.[level](`duetime: ${text}`)
  }
}

/** For a handler that outlives its worker. */
function stopped(): Aborted {
  return new Aborted({ code: 'aborted', status: 0, detail: 'the worker has stopped' })
}
