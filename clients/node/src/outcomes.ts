/** What a handler throws to end its job in another way than by success or a failed attempt. */

import type { Duration } from './types.js'

/** The job has failed for good and is not retried. */
export class Fatal extends Error {
  override readonly name = 'Fatal'
}

/** The attempt failed. The next one is due after `delay` (text, or milliseconds), whatever the retry rule says. */
export class RetryAfter extends Error {
  override readonly name = 'RetryAfter'
  readonly delay: Duration

  constructor(delay: Duration, message = `retry after ${typeof delay === 'number' ? `${String(delay)} ms` : delay}`, options?: ErrorOptions) {
    super(message, options)
    this.delay = delay
  }
}

/** Gives the job back: it is due after `delay` (0 by default), with another `priority` if it is given, and the attempt does not count. */
export class Release extends Error {
  override readonly name = 'Release'
  readonly delay: Duration
  readonly priority: number | undefined

  constructor(delay: Duration = 0, options?: ErrorOptions & { priority?: number | undefined }) {
    super('released', options)
    this.delay = delay
    this.priority = options?.priority
  }
}

/** Sets the job aside, failed, until somebody retries or deletes it, whatever its retry rules say. With another `priority` if it is given. */
export class Park extends Error {
  override readonly name = 'Park'
  readonly priority: number | undefined

  constructor(message = 'parked', options?: ErrorOptions & { priority?: number | undefined }) {
    super(message, options)
    this.priority = options?.priority
  }
}

/** Why `job.signal` was aborted: somebody cancelled the job. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled'
}

/** Why `job.signal` was aborted: the worker stops, and its deadline has passed. */
export class Stopping extends Error {
  override readonly name = 'Stopping'
}
