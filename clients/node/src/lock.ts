/** A lock that is held: a thread renews it until it is released, also while the program computes. */

import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, parentPort, Worker as Thread, workerData } from 'node:worker_threads'
import { DuetimeError, messageOf } from './errors.js'
import { Transport, type Settings } from './transport.js'
import { objectJson, queryOf } from './wire.js'

/** Which lock, for whom, and how long it stays after its last renewal. */
export interface Hold {
  name: string
  owner: string
  ttlMs: number
  fence: number
}

type ToKeeper = { type: 'keep'; id: number; settings: Settings; hold: Hold; ageMs: number; cell: Int32Array } | { type: 'drop'; id: number }

interface FromKeeper {
  id: number
  why: string
}

/** A lock that `client.lock` acquired. Leave its block (`await using`), or call `release()`. */
export class Lock implements AsyncDisposable {
  readonly name: string
  /** Grows with each holder. Store it with what you write under the lock, and refuse a smaller one. */
  readonly fence: number
  readonly #hold: Hold
  readonly #transport: Transport
  readonly #lost = new AbortController()
  readonly #cell = new Int32Array(new SharedArrayBuffer(4))
  readonly #keeper: Keeper
  readonly #id: number
  #isReleased = false

  /** @internal */
  constructor(transport: Transport, settings: Settings, hold: Hold, ageMs: number) {
    this.name = hold.name
    this.fence = hold.fence
    this.#hold = hold
    this.#transport = transport
    this.#keeper = Keeper.ofProcess()
    this.#id = this.#keeper.keep({ settings, hold, ageMs, cell: this.#cell }, (why) => {
      if (!this.#isReleased) this.#lost.abort(new Error(`the lock ${this.name} is lost: ${why}`))
    })
  }

  /** Aborted as soon as the lock may be lost. */
  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** Whether the lock may be lost; also true before `signal` could be aborted, in a program that computes. */
  get lost(): boolean {
    return !this.#isReleased && Atomics.load(this.#cell, 0) === 1
  }

  /** Gives the lock to the next. Does nothing if it was released or lost. */
  async release(): Promise<void> {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#keeper.drop(this.#id)
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
}

/** Starts the thread for locks, if it does not run yet. */
export async function startKeeper(): Promise<void> {
  await Keeper.ofProcess().ready
}

/** The thread that renews the locks of this process. It does not keep the process alive. */
class Keeper {
  static #current: Keeper | undefined
  readonly #thread: Thread
  readonly #lost = new Map<number, { cell: Int32Array; tell: (why: string) => void }>()
  #last = 0

  static ofProcess(): Keeper {
    return (Keeper.#current ??= new Keeper())
  }

  /** Resolves once the thread runs: only then is there time enough for a short ttl. */
  readonly ready: Promise<unknown>

  constructor() {
    this.#thread = new Thread(__filename, { workerData: { duetime: 'keeper' } })
    this.#thread.on('message', (message: FromKeeper | 'ready') => {
      if (message !== 'ready') this.#end(message.id, message.why)
    })
    this.ready = once(this.#thread, 'message').finally(() => { this.#thread.unref() })
    this.#thread.on('error', (error) => {
      Keeper.#current = undefined
      for (const id of [...this.#lost.keys()]) this.#end(id, `its thread has failed: ${messageOf(error)}`)
    })
  }

  keep(lock: { settings: Settings; hold: Hold; ageMs: number; cell: Int32Array }, tell: (why: string) => void): number {
    this.#last += 1
    this.#lost.set(this.#last, { cell: lock.cell, tell })
    this.#thread.postMessage({ type: 'keep', id: this.#last, ...lock } satisfies ToKeeper)
    return this.#last
  }

  drop(id: number): void {
    this.#lost.delete(id)
    this.#thread.postMessage({ type: 'drop', id } satisfies ToKeeper)
  }

  #end(id: number, why: string): void {
    const lost = this.#lost.get(id)
    if (lost === undefined) return
    this.#lost.delete(id)
    Atomics.store(lost.cell, 0, 1)
    lost.tell(why)
  }
}

/** Renews each third of the ttl. Returns why the lock may be lost; `undefined` once it was dropped. */
async function renewed({ settings, hold, ageMs }: Extract<ToKeeper, { type: 'keep' }>, signal: AbortSignal): Promise<string | undefined> {
  const transport = new Transport(settings)
  const { name, owner, fence, ttlMs } = hold
  let held = performance.now() - ageMs
  try {
    for (;;) {
      await sleep(Math.max(0, held + ttlMs / 3 - performance.now()), undefined, { signal })
      const askedAt = performance.now()
      const leftMs = held + ttlMs - askedAt
      if (leftMs <= 0) return 'it could not be renewed in time'
      const body = objectJson({ owner, fence, ttl: ttlMs })
      await transport.call({ method: 'PUT', path: `/v1/locks/${encodeURIComponent(name)}`, body, deadlineMs: leftMs, signal })
      held = askedAt
    }
  } catch (error) {
    return signal.aborted ? undefined : messageOf(error)
  } finally {
    transport.close()
  }
}

if (!isMainThread && parentPort !== null && (workerData as { duetime?: string } | null)?.duetime === 'keeper') {
  const port = parentPort
  const kept = new Map<number, AbortController>()
  port.postMessage('ready')
  port.on('message', (message: ToKeeper) => {
    if (message.type === 'drop') {
      kept.get(message.id)?.abort()
      kept.delete(message.id)
      return
    }
    const drop = new AbortController()
    kept.set(message.id, drop)
    void renewed(message, drop.signal).then((why) => {
      kept.delete(message.id)
      if (why === undefined) return
      Atomics.store(message.cell, 0, 1)
      port.postMessage({ id: message.id, why } satisfies FromKeeper)
    })
  })
}
