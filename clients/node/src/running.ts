/** A job while its handler runs. */

import type { Client } from './client.js'
import { Conflict, LeaseLost } from './errors.js'
import { Cancelled } from './outcomes.js'
import type { CallOptions, JobOptions, NewJob, Previous, Pushed } from './types.js'
import { objectJson, shownAs } from './wire.js'
import { contentOf, type Exact } from './json.js'

/** What a job's line to the server does for it. */
export interface Calls {
  progress(receipt: string, body: string): Promise<void>
  client: Pick<Client, 'push' | 'get'>
}

/** The job that a handler gets. */
export class RunningJob<Payload = unknown> {
  readonly id: string
  readonly queue: string
  readonly kind: string
  /** The JSON that was pushed, integers beyond 2^53 as `bigint`; a `Uint8Array` if it is not JSON. */
  payload: Payload
  /** 1 for the first one. */
  readonly attempt: number
  readonly key: string | undefined
  readonly tags: readonly string[]
  readonly dueAt: Date
  readonly createdAt: Date
  /** The W3C `traceparent` that the job was pushed with. */
  readonly trace: string | undefined
  /** What the push said of its tenant, its user … */
  readonly meta: Readonly<Record<string, string>>
  /** The job whose end pushed this one (`then`, `otherwise`). */
  readonly previous: Previous | undefined
  /** Proves the lease. Its part after the dot grows with each lease: store it to fence off writes of earlier attempts. */
  readonly receipt: string
  readonly #calls: Calls
  readonly #payloadText: () => string | undefined
  #abort: AbortController | undefined
  #pushes = 0
  readonly #added: NewJob[] = []

  constructor(lease: Record<string, unknown>, exact: Exact, calls: Calls) {
    this.id = lease['id'] as string
    this.queue = lease['queue'] as string
    this.kind = lease['kind'] as string
    this.payload = contentOf(lease, 'payload') as Payload
    this.attempt = lease['attempt'] as number
    this.key = lease['key'] as string | undefined
    this.tags = (lease['tags'] as string[] | undefined) ?? []
    this.dueAt = new Date(lease['due_at'] as string)
    this.createdAt = new Date(lease['created_at'] as string)
    this.trace = lease['trace'] as string | undefined
    this.meta = (lease['meta'] as Record<string, string> | undefined) ?? {}
    this.previous = shownAs(lease['previous']) as Previous | undefined
    this.receipt = lease['receipt'] as string
    this.#calls = calls
    this.#payloadText = () => exact.value(lease, 'payload')
  }

  /**
   * The payload as it was pushed, to the character, also numbers that JavaScript does not hold. `Buffer.from(payloadText)` as a result is
   * the same. `undefined` for bytes that are not UTF-8.
   */
  get payloadText(): string | undefined {
    return this.#payloadText()
  }

  /**
   * Aborted when the handler should stop; its `reason` is `Cancelled`, `LeaseLost` or `Stopping`. A cancel arrives when the
   * lease is extended next: at most a third of the lease later.
   */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Whether somebody cancelled the job. */
  get cancelled(): boolean {
    return this.#abort?.signal.reason instanceof Cancelled
  }

  /** Whether another worker may have the job. */
  get lost(): boolean {
    return this.#abort?.signal.reason instanceof LeaseLost
  }

  /** Shows how far the job is: 0 to 100, and a note of at most 1,024 bytes. */
  progress(percent: number, note?: string): Promise<void> {
    return this.#calls.progress(this.receipt, objectJson({ percent, note }))
  }

  /**
   * Pushes another job, once, however often this one runs: pushes are told apart by their order. What the first attempt has pushed stands,
   * also if a later one pushes something else.
   */
  async push(queue: string, payload: unknown, options: JobOptions & CallOptions = {}): Promise<Pushed> {
    this.#pushes += 1
    const { client } = this.#calls
    try {
      return await client.push(queue, payload, { origin: `job-${this.id}-${this.#pushes}`, ...options })
    } catch (error) {
      const reused = error instanceof Conflict && error.code === 'origin_reused' && options.origin === undefined
      const first = reused ? error.problem['id'] : undefined
      if (typeof first !== 'string') throw error
      const { id, queue: of, state, dueAt } = await client.get(first)
      return { id, queue: of, state, dueAt, outcome: 'repeated' }
    }
  }

  /**
   * Adds a job that is pushed in the same step in which this one succeeds, beside those of its own `then`: at most 16. If this attempt
   * fails, it is dropped.
   */
  followWith(job: NewJob): void {
    this.#added.push(job)
  }

  /** The jobs that it has added. */
  get added(): readonly NewJob[] {
    return this.#added
  }

  /** Asks the handler to stop. */
  abort(reason: Error): void {
    this.#controller.abort(reason)
  }

  get #controller(): AbortController {
    return (this.#abort ??= new AbortController())
  }
}
