/** A lock that is held: renews itself until it is released. */

import { DuetimeError, messageOf } from './errors.js'
import type { Transport } from './transport.js'
import { objectJson, queryOf } from './wire.js'

/** Which lock, for whom, and for how long it stays after its last renewal. */
export interface Hold {
  name: string
  owner: string
  ttlMs: number
  fence: number
}

/**
 * A lock that `client.lock` acquired. Leave its block (`await using`), or call `release()`.
 *
 * It is renewed each third of its ttl by a timer. A program that computes for longer than the ttl cannot renew it: then
 * `signal` is aborted as soon as the program lets timers run, and writes with an old `fence` must be refused.
 */
export class Lock implements AsyncDisposable {
  readonly name: string
  /** Grows with each holder. Store it with what you write under the lock, and refuse a smaller one. */
  readonly fence: number
  readonly #hold: Hold
  readonly #transport: Transport
  readonly #lost = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #held = performance.now()
  #isReleased = false

  constructor(transport: Transport, hold: Hold, askedAt: number) {
    this.name = hold.name
    this.fence = hold.fence
    this.#hold = hold
    this.#transport = transport
    this.#held = askedAt
    this.#schedule()
  }

  /** Aborted as soon as the lock may be lost. */
  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** Whether the lock may be lost. */
  get lost(): boolean {
    return this.#lost.signal.aborted || (!this.#isReleased && performance.now() - this.#held >= this.#hold.ttlMs)
  }

  /** Gives the lock to the next. Does nothing if it was released or lost. */
  async release(): Promise<void> {
    if (this.#isReleased) return
    this.#isReleased = true
    clearTimeout(this.#timer)
    const { owner, fence } = this.#hold
    const path = `/v1/locks/${encodeURIComponent(this.name)}${queryOf({ owner, fence })}`
    try {
      await this.#transport.call({ method: 'DELETE', path })
    } catch (error) {
      if (!(error instanceof DuetimeError) || error.code !== 'lock_lost') throw error
    }
  }

  /** Releases it. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.#renew(), this.#hold.ttlMs / 3)
    this.#timer.unref()
  }

  async #renew(): Promise<void> {
    const leftMs = this.#hold.ttlMs - (performance.now() - this.#held)
    try {
      if (leftMs <= 0) throw new Error('it was not renewed in time')
      const { owner, fence, ttlMs } = this.#hold
      const askedAt = performance.now()
      const body = objectJson({ owner, fence, ttl: ttlMs })
      await this.#transport.call({ method: 'PUT', path: `/v1/locks/${encodeURIComponent(this.name)}`, body, deadlineMs: leftMs })
      this.#held = askedAt
      if (!this.#isReleased) this.#schedule()
    } catch (error) {
      if (!this.#isReleased) this.#lost.abort(new Error(`the lock ${this.name} is lost: ${messageOf(error)}`, { cause: error }))
    }
  }
}
