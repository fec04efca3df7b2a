/** Which code runs a job, and what its end means. */

import { Invalid, messageOf } from './errors.js'
import { contentJson } from './json.js'
import { Fatal, Park, Release, RetryAfter } from './outcomes.js'
import { HandlerThreads } from './threads.js'
import { within } from './trace.js'
import type { RunningJob } from './running.js'
import type { NewJob } from './types.js'
import { milliseconds, objectJson } from './wire.js'

/** Runs a job. What it returns is the job's result; `undefined` is none. What it throws is a failed attempt. */
export type Handler<Payload = unknown, Result = unknown> = (job: RunningJob<Payload>) => Result | Promise<Result>

/** Code around each handler: call `next`, once, and return what it returns. */
export type Middleware = (job: RunningJob, next: () => Promise<unknown>) => Promise<unknown>

/** A validator such as those of Zod, Valibot or ArkType: https://standardschema.dev */
export interface Schema<Output = unknown> {
  readonly '~standard': {
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly output: Output } | undefined
  }
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined }[] }

/** A handler in threads: for work that computes. */
export interface ThreadHandler {
  /** The module whose default export is the handler, such as `new URL('./report.js', import.meta.url)`. */
  thread: URL
  /** At most this many threads, each of which runs one job at a time; as the worker's concurrency by default. */
  threads?: number | undefined
  /** After a cancel or a lost lease the handler has this long to end; then its thread is. 5 s by default. */
  graceMs?: number | undefined
}

// A job of a kind that this worker does not know is given back for this long: during a deployment another worker has it.
const UNKNOWN_KIND_DELAY = '5s'
// The server keeps 64 KiB.
const MESSAGE_BYTES_MAX = 60_000
// The server keeps a result of 1 MiB, and refuses more. What is far beyond is not sent: on a slow connection no try would end in time, and
// all other outcomes would wait.
const RESULT_LENGTH_MAX = 4 << 20

interface Entry {
  run: (job: RunningJob) => unknown
  schema: Schema | undefined
}

export class Handlers {
  readonly #entries = new Map<string, Entry>()
  readonly #middleware: Middleware[] = []
  readonly #threads: HandlerThreads[] = []

  add(kind: string, handler: Handler<never> | ThreadHandler, schema: Schema | undefined, concurrency: number): void {
    if (typeof handler === 'function') {
      this.#entries.set(kind, { run: handler as Handler, schema })
      return
    }
    const threads = new HandlerThreads(handler.thread, handler.threads ?? concurrency, handler.graceMs)
    this.#threads.push(threads)
    this.#entries.set(kind, { run: (job) => threads.run(job), schema })
  }

  use(middleware: Middleware): void {
    this.#middleware.push(middleware)
  }

  /** Runs a job; returns the member of a settle that says what became of it, and the error if it failed. */
  async run(job: RunningJob): Promise<{ json: string; error?: unknown }> {
    try {
      const result = await within(job.trace, () => this.#next(job, 0))
      const members = result === undefined ? [] : [resultJson(result)]
      if (job.added.length > 0) members.push(thenJson(job.added))
      return { json: `"complete":{${members.join(',')}}` }
    } catch (error) {
      return { json: outcomeJson(error), error }
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((threads) => threads.close()))
  }

  async #next(job: RunningJob, depth: number): Promise<unknown> {
    const middleware = this.#middleware[depth]
    if (middleware !== undefined) return middleware(job, () => this.#next(job, depth + 1))
    const entry = this.#entries.get(job.kind) ?? this.#entries.get('*')
    if (entry === undefined) throw new Release(UNKNOWN_KIND_DELAY)
    if (entry.schema !== undefined) job.payload = await checked(entry.schema, job.payload)
    return entry.run(job)
  }
}

async function checked(schema: Schema, payload: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(payload)
  if (result.issues === undefined) return result.value
  const issues = result.issues.map(({ message, path = [] }) => {
    const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
    return `\`${['payload', ...keys].join('.')}\`: ${message}`
  })
  throw new Fatal(issues.join('; '))
}

function thenJson(then: readonly NewJob[]): string {
  try {
    return objectJson({ then }).slice(1, -1)
  } catch (error) {
    throw new Fatal(messageOf(error), { cause: error })
  }
}

function resultJson(result: unknown): string {
  let json: string
  try {
    json = contentJson(result, 'result')
  } catch (error) {
    throw new Fatal(messageOf(error), { cause: error })
  }
  if (json.length > RESULT_LENGTH_MAX) throw new Fatal(`the result was not sent: expected at most 1 MiB, got ${json.length} characters`)
  return json
}

function outcomeJson(error: unknown): string {
  try {
    if (error instanceof Release) return `"release":${objectJson({ delay: milliseconds(error.delay, 'delay'), priority: error.priority })}`
    if (error instanceof Park) return `"park":${objectJson({ message: bounded(messageOf(error)), priority: error.priority })}`
    const retryAfter = error instanceof RetryAfter ? milliseconds(error.delay, 'delay') : undefined
    const final = error instanceof Fatal ? true : undefined
    return `"fail":${objectJson({ message: bounded(messageOf(error)), final, retryAfter })}`
  } catch (wrong) {
    // A delay that is none.
    if (!(wrong instanceof Invalid)) throw wrong
    return `"fail":${objectJson({ message: bounded(`${messageOf(error)} (${wrong.message})`) })}`
  }
}

/** As the server takes it: valid Unicode, and not too long. */
function bounded(message: string): string {
  const bytes = Buffer.from(message)
  if (bytes.length <= MESSAGE_BYTES_MAX) return bytes.toString()
  return `${bytes.subarray(0, MESSAGE_BYTES_MAX).toString()}… (${bytes.length} bytes)`
}
