/**
 * Handlers in threads. A thread runs one job at a time, and is kept for the next. One that does not end after its job was
 * cancelled, or whose handler ends the thread, is replaced.
 */

import { isMainThread, parentPort, Worker as Thread, workerData } from 'node:worker_threads'
import { DuetimeError, errorOf, LeaseLost, messageOf } from './errors.js'
import { Cancelled, Fatal, Park, Release, RetryAfter, Stopping } from './outcomes.js'
import type { RunningJob } from './running.js'
import type { Duration, NewJob } from './types.js'

/** What a job is in a thread: all but its methods can be copied. */
type Copied = Pick<RunningJob, 'id' | 'queue' | 'kind' | 'payload' | 'payloadText' | 'attempt' | 'key' | 'tags' | 'dueAt' | 'createdAt' | 'trace' | 'meta' | 'receipt'>

interface CopiedError {
  name: string
  message: string
  stack: string | undefined
  delay: Duration | undefined
  priority: number | undefined
  problem: DuetimeError['problem'] | undefined
}

type ToThread =
  | { type: 'run'; job: Copied }
  | { type: 'abort'; reason: CopiedError }
  | { type: 'called'; call: number; value: unknown; error?: CopiedError }

type FromThread =
  | { type: 'ended'; result: unknown; error?: CopiedError }
  | { type: 'call'; call: number; method: 'progress' | 'push'; args: unknown[] }
  | { type: 'add'; job: NewJob }

const GRACE_MS = 5_000

export class HandlerThreads {
  readonly #module: URL
  readonly #max: number
  readonly #graceMs: number
  readonly #idle: Thread[] = []
  readonly #waiting: (() => void)[] = []
  #count = 0

  constructor(module: URL, max: number, graceMs = GRACE_MS) {
    this.#module = module
    this.#max = max
    this.#graceMs = graceMs
  }

  /** Runs a job in a thread, once one is free. */
  async run(job: RunningJob): Promise<unknown> {
    while (this.#idle.length === 0 && this.#count >= this.#max) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    if (job.signal.aborted) throw job.signal.reason
    const thread = this.#idle.pop() ?? this.#start()
    thread.ref()
    try {
      return await this.#runIn(thread, job)
    } finally {
      // It may have ended.
      if (thread.threadId === -1) this.#count -= 1
      else {
        thread.unref()
        this.#idle.push(thread)
      }
      this.#waiting.shift()?.()
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#idle.map((thread) => thread.terminate()))
  }

  #start(): Thread {
    this.#count += 1
    const thread = new Thread(__filename, { workerData: { duetime: 'handler', module: this.#module.href } })
    // While a job runs in it, that job is told, too.
    thread.on('error', () => undefined)
    thread.on('exit', () => { this.#gone(thread) })
    return thread
  }

  #gone(thread: Thread): void {
    const place = this.#idle.indexOf(thread)
    if (place === -1) return
    this.#idle.splice(place, 1)
    this.#count -= 1
  }

  #runIn(thread: Thread, job: RunningJob): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let grace: NodeJS.Timeout | undefined
      const abort = (): void => {
        thread.postMessage({ type: 'abort', reason: copied(job.signal.reason) } satisfies ToThread)
        grace = setTimeout(() => void thread.terminate(), this.#graceMs)
      }
      const end = (settle: () => void): void => {
        clearTimeout(grace)
        job.signal.removeEventListener('abort', abort)
        // One by one: Node listens to the thread, too, and without its own listeners no other job would be heard.
        thread.off('message', hear).off('error', fail).off('exit', exit)
        settle()
      }
      const hear = (message: FromThread): void => {
        if (message.type === 'ended') {
          end(() => { if (message.error === undefined) resolve(message.result); else reject(restored(message.error)) })
          return
        }
        if (message.type === 'add') {
          job.followWith(message.job)
          return
        }
        const call = message.method === 'progress' ? job.progress(...(message.args as [number])) : job.push(...(message.args as [string, unknown]))
        call.then(
          (value) => { thread.postMessage({ type: 'called', call: message.call, value } satisfies ToThread) },
          (error: unknown) => { thread.postMessage({ type: 'called', call: message.call, value: undefined, error: copied(error) } satisfies ToThread) })
      }
      // Out of memory, or an error that nobody caught; `exit` follows.
      let failed: unknown
      const fail = (error: unknown): void => { failed = error }
      const exit = (code: number): void => {
        end(() => { reject(job.signal.aborted ? (job.signal.reason as Error) : new Error(`the handler's thread ended: ${failed === undefined ? `exit code ${code}` : messageOf(failed)}`)) })
      }
      thread.on('message', hear).on('error', fail).on('exit', exit)
      job.signal.addEventListener('abort', abort, { once: true })
      const { id, queue, kind, payload, payloadText, attempt, key, tags, dueAt, createdAt, trace, meta, receipt } = job
      thread.postMessage({ type: 'run', job: { id, queue, kind, payload, payloadText, attempt, key, tags, dueAt, createdAt, trace, meta, receipt } } satisfies ToThread)
    })
  }
}

function copied(error: unknown): CopiedError {
  const { name, stack } = error instanceof Error ? error : { name: 'Error', stack: undefined }
  const delay = error instanceof RetryAfter || error instanceof Release ? error.delay : undefined
  const priority = error instanceof Release || error instanceof Park ? error.priority : undefined
  return { name, message: messageOf(error), stack, delay, priority, problem: error instanceof DuetimeError ? error.problem : undefined }
}

function restored({ name, message, stack, delay, priority, problem }: CopiedError): Error {
  const make: Record<string, () => Error> = {
    Fatal: () => new Fatal(message),
    RetryAfter: () => new RetryAfter(delay ?? 0, message),
    Release: () => new Release(delay, { priority }),
    Park: () => new Park(message, { priority }),
    Cancelled: () => new Cancelled(message),
    Stopping: () => new Stopping(message),
  }
  const error = problem !== undefined ? errorOf(problem) : (make[name] ?? (() => Object.assign(new Error(message), { name })))()
  if (stack !== undefined) error.stack = stack
  return error
}

/** In a thread: the default export of the module runs one job after the other. */
function serve(port: NonNullable<typeof parentPort>, module: string): void {
  const load = import(module) as Promise<{ default: unknown }>
  // Every job says so.
  load.catch(() => undefined)
  const calls = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>()
  let abort = new AbortController()
  let last = 0
  const call = (method: 'progress' | 'push', args: unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      calls.set(++last, { resolve, reject })
      port.postMessage({ type: 'call', call: last, method, args } satisfies FromThread)
    })
  const run = async (job: Copied): Promise<unknown> => {
    // Before anything else: the job may be cancelled while the module is loaded.
    abort = new AbortController()
    const { signal } = abort
    const loaded = (await load).default
    // A CommonJS module that was compiled from one with a default export has it once more.
    const handler = typeof loaded === 'function' ? loaded : (loaded as { default?: unknown } | undefined)?.default
    if (typeof handler !== 'function') throw new Fatal(`expected ${module} to export a function as default`)
    const given = {
      ...job,
      signal,
      get cancelled() { return signal.reason instanceof Cancelled },
      get lost() { return signal.reason instanceof LeaseLost },
      progress: (...args: unknown[]) => call('progress', args),
      push: (...args: unknown[]) => call('push', args),
      followWith: (job: NewJob) => { port.postMessage({ type: 'add', job } satisfies FromThread) },
    }
    return (handler as (job: unknown) => unknown)(given)
  }
  port.on('message', (message: ToThread) => {
    if (message.type === 'abort') abort.abort(restored(message.reason))
    else if (message.type === 'called') {
      const waiting = calls.get(message.call)
      calls.delete(message.call)
      if (message.error === undefined) waiting?.resolve(message.value)
      else waiting?.reject(restored(message.error))
    } else {
      run(message.job)
        .then((result) => {
          try {
            port.postMessage({ type: 'ended', result } satisfies FromThread)
          } catch (error) {
            throw new Fatal(`the result cannot be taken from the thread: ${messageOf(error)}`, { cause: error })
          }
        })
        .catch((error: unknown) => { port.postMessage({ type: 'ended', result: undefined, error: copied(error) } satisfies FromThread) })
    }
  })
}

const data = workerData as { duetime?: string; module: string } | null
if (!isMainThread && parentPort !== null && data?.duetime === 'handler') serve(parentPort, data.module)
