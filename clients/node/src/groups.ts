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

class Group {
  protected readonly transport: Transport
  readonly #path: string

  constructor(transport: Transport, path: string) {
    this.transport = transport
    this.#path = path
  }

  protected async call<T>(method: 'GET' | 'POST' | 'PUT', path: string, body?: object): Promise<T> {
    const json = body === undefined ? undefined : objectJson(body)
    return shownAs((await this.transport.call({ method, path: this.#path + path, body: json })).body) as T
  }

  protected async *pages<T>(name: string): AsyncGenerator<T, void, undefined> {
    let cursor: string | null | undefined
    do {
      const answer = await this.transport.call({ method: 'GET', path: this.#path + queryOf({ limit: 1_000, cursor }) })
      const page = shownAs(answer.body) as Record<string, unknown>
      if (!Array.isArray(page[name])) throw odd(answer, `\`${name}\``)
      yield* page[name] as T[]
      cursor = (page['nextCursor'] ?? null) as string | null
    } while (cursor !== null)
  }
}

const at = (name: string): string => `/${encodeURIComponent(name)}`

/** `client.queues` */
export class Queues extends Group {
  /** All queues with jobs or settings, by name. */
  list(): AsyncGenerator<Queue, void, undefined> {
    return this.pages('queues')
  }

  /** Counts and settings; a name that nobody has used is an empty queue. */
  get(queue: string): Promise<Queue> {
    return this.call('GET', at(queue))
  }

  /** Changes the settings that are given; `null` resets one to its default. */
  set(queue: string, changes: QueueChanges): Promise<Configured> {
    return this.call('PUT', at(queue), changes)
  }

  /** Hands out no jobs, until `resume` or the end of the pause. */
  pause(queue: string, pause: Pause = {}): Promise<Configured> {
    return this.call('POST', `${at(queue)}/pause`, pause)
  }

  /** Ends a pause. */
  resume(queue: string): Promise<Configured> {
    return this.call('POST', `${at(queue)}/resume`, {})
  }

  /** Deletes all waiting jobs; returns their number. */
  async purge(queue: string): Promise<number> {
    return (await this.call<{ purged: number }>('POST', `${at(queue)}/purge`, {})).purged
  }
}

/** `client.schedules`: recurring jobs. */
export class Schedules extends Group {
  /** All schedules, by name. */
  list(): AsyncGenerator<ScheduleShown, void, undefined> {
    return this.pages('schedules')
  }

  /** Throws `NotFound`. */
  get(name: string): Promise<ScheduleShown> {
    return this.call('GET', at(name))
  }

  /** Makes or replaces it. With `dryRun` nothing is saved, and the answer has the next runs. */
  set(name: string, schedule: Schedule, options: { dryRun?: boolean } = {}): Promise<ScheduleShown> {
    return this.call('PUT', at(name) + queryOf({ dryRun: options.dryRun }), schedule)
  }

  /** Throws `NotFound`. */
  async delete(name: string): Promise<void> {
    await this.transport.call({ method: 'DELETE', path: `/v1/schedules${at(name)}`, doneIf: ['schedule_not_found'] })
  }

  /** Pushes nothing, until `resume` or the end of the pause. Throws `NotFound`. */
  pause(name: string, pause: Pause = {}): Promise<ScheduleShown> {
    return this.call('POST', `${at(name)}/pause`, pause)
  }

  /** Ends a pause. Throws `NotFound`. */
  resume(name: string): Promise<ScheduleShown> {
    return this.call('POST', `${at(name)}/resume`, {})
  }

  /** Pushes its job once, now. `origin` identifies this push; a random one by default. */
  async run(name: string, origin: string = randomUUID()): Promise<Pushed> {
    const path = `/v1/schedules${at(name)}/run`
    return shownAs((await this.transport.call({ method: 'POST', path, body: '{}', headers: { 'idempotency-key': origin } })).body) as Pushed
  }

  /** The next runs; `clockChange` marks those that a clock change moves or repeats. */
  async next(name: string, limit = 10): Promise<{ at: Date; local: string; clockChange: 'gap' | 'fold' | null }[]> {
    return (await this.call<{ runs: { at: Date; local: string; clockChange: 'gap' | 'fold' | null }[] }>('GET', `${at(name)}/next${queryOf({ limit })}`)).runs
  }
}

