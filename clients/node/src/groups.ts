/** Queues and schedules of a client. */

import { randomUUID } from 'node:crypto'
import { odd, type Transport } from './transport.js'
import type { Duration, Instant, Pushed, Queue, QueueChanges, QueueSettings, Schedule, ScheduleShown } from './types.js'
import { objectJson, queryOf, shownAs } from './wire.js'

/** Until when a pause lasts; without either until it is ended. */
export interface Pause {
  for?: Duration
  until?: Instant
}

/** A queue's settings after a change. */
export interface Configured {
  queue: string
  paused: boolean
  pausedUntil?: Date
  settings: QueueSettings
}

interface Run {
  at: Date
  local: string
  clockChange: 'gap' | 'fold' | null
}

/** What queues and schedules have in common: `Shown` is one of them, `Changed` the answer to a change. */
class Group<Shown, Changed> {
  protected readonly transport: Transport
  readonly #what: string

  constructor(transport: Transport, what: 'queues' | 'schedules') {
    this.transport = transport
    this.#what = what
  }

  /** All of them, by name; of the queues those with jobs or settings. */
  async *list(): AsyncGenerator<Shown, void, undefined> {
    let cursor: string | null | undefined
    do {
      const answer = await this.transport.call({ method: 'GET', path: `/v1/${this.#what}${queryOf({ limit: 1_000, cursor })}` })
      const page = shownAs(answer.body) as Record<string, unknown>
      const items = page[this.#what]
      if (!Array.isArray(items)) throw odd(answer, `\`${this.#what}\``)
      yield* items as Shown[]
      cursor = (page['nextCursor'] ?? null) as string | null
    } while (cursor !== null)
  }

  /** A queue that nobody has used is empty. Throws `NotFound` if there is no such schedule. */
  get(name: string): Promise<Shown> {
    return this.call('GET', this.path(name))
  }

  /** Hands out no jobs of a queue, pushes none of a schedule, until `resume` or the end of the pause. */
  pause(name: string, pause: Pause = {}): Promise<Changed> {
    return this.call('POST', `${this.path(name)}/pause`, pause)
  }

  /** Ends a pause. */
  resume(name: string): Promise<Changed> {
    return this.call('POST', `${this.path(name)}/resume`, {})
  }

  protected path(name: string): string {
    return `/v1/${this.#what}/${encodeURIComponent(name)}`
  }

  protected async call<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: object): Promise<T> {
    return shownAs((await this.transport.call({ method, path, body: body === undefined ? undefined : objectJson(body) })).body) as T
  }
}

/** `client.queues` */
export class Queues extends Group<Queue, Configured> {
  /** Changes the settings that are given; `null` resets one to its default. */
  set(queue: string, changes: QueueChanges): Promise<Configured> {
    return this.call('PUT', this.path(queue), changes)
  }

  /** Cancels all waiting jobs; returns their number. */
  async purge(queue: string): Promise<number> {
    return (await this.call<{ purged: number }>('POST', `${this.path(queue)}/purge`, {})).purged
  }

  /**
   * Deletes a queue with its settings and the records of its jobs. With `force` waiting jobs are cancelled first, and running
   * ones are asked to stop. Throws `Conflict` (`queue_in_use`) while jobs wait or run, or a schedule pushes to it. After a
   * lost answer it is repeated, and the counts are those of the repeat.
   */
  delete(queue: string, options: { force?: boolean } = {}): Promise<{ existed: boolean; cancelled: number; deleted: number }> {
    return this.call('DELETE', this.path(queue) + queryOf({ force: options.force }))
  }
}

/** `client.schedules`: recurring jobs. */
export class Schedules extends Group<ScheduleShown, ScheduleShown> {
  /** Makes or replaces it. With `dryRun` nothing is saved, and the answer has the next runs. */
  set(name: string, schedule: Schedule, options: { dryRun?: boolean } = {}): Promise<ScheduleShown> {
    return this.call('PUT', this.path(name) + queryOf({ dryRun: options.dryRun }), schedule)
  }

  /** Throws `NotFound`. */
  async delete(name: string): Promise<void> {
    await this.transport.call({ method: 'DELETE', path: this.path(name), doneIf: ['schedule_not_found'] })
  }

  /** Pushes its job once, now. `origin` identifies this push; a random one by default. */
  async run(name: string, origin: string = randomUUID()): Promise<Pushed> {
    const path = `${this.path(name)}/run`
    return shownAs((await this.transport.call({ method: 'POST', path, body: '{}', headers: { 'idempotency-key': origin } })).body) as Pushed
  }

  /** The next runs; `clockChange` marks those that a clock change moves or repeats. */
  async next(name: string, limit = 10): Promise<Run[]> {
    return (await this.call<{ runs: Run[] }>('GET', `${this.path(name)}/next${queryOf({ limit })}`)).runs
  }
}
