/** A client without a server: it keeps jobs in an array, and runs the handlers of a worker inline. */

import { randomInt } from 'node:crypto'
import { Client } from '../client.js'
import { errorOf } from '../errors.js'
import { contentOf, parse } from '../json.js'
import { RunningJob } from '../running.js'
import { exactOf, type Answer, type Request } from '../transport.js'
import type { Duration, Job } from '../types.js'
import { jobOf, milliseconds } from '../wire.js'
import type { Worker } from '../worker.js'

/** What became of a job that `work` ran. */
export interface Ended {
  id: string
  kind: string
  payload: unknown
  /** `scheduled`: the attempt failed or the job was released, and would run again. */
  state: 'succeeded' | 'failed' | 'scheduled'
  result?: unknown
  error?: unknown
}

type Document = Record<string, unknown>

const LIVE = new Set<unknown>(['scheduled', 'ready', 'running'])
const RETRY_MS = 15_000

/** The server's part, so that all of the client's own code runs. */
class Memory {
  readonly jobs: Document[] = []
  nowMs = Date.now()
  #last = randomInt(1_000, 1_000_000)

  call(request: Request): Promise<Answer> {
    return Promise.resolve().then(() => {
      const body = this.#answer(`${request.method} ${request.path}`, request.body === undefined ? {} : (parse(request.body) as Document))
      return { status: 200, body, headers: {}, tries: 1 }
    })
  }

  close(): void {
    // There is nothing to close.
  }

  iso(ms = this.nowMs): string {
    return new Date(ms).toISOString()
  }

  #answer(call: string, body: Document): unknown {
    const [, queue] = /^POST \/v1\/queues\/([^/]+)\/jobs$/.exec(call) ?? []
    if (queue !== undefined) return this.#push({ ...body, queue: decodeURIComponent(queue) })
    if (call === 'POST /v1/jobs') {
      return (body as unknown as Document[]).map((one) => {
        try {
          return this.#push(one)
        } catch (error) {
          return (error as { problem: unknown }).problem
        }
      })
    }
    if (call === 'POST /v1/jobs/cancel') {
      const found = this.#select(body).filter(({ state }) => LIVE.has(state))
      for (const job of found) this.#end(job, 'cancelled')
      return found.length === 0 ? {} : { cancelled: found.length }
    }
    if (call.startsWith('GET /v1/jobs?')) {
      const query = new URLSearchParams(call.slice(call.indexOf('?')))
      const selection: Document = Object.fromEntries(query)
      if (query.has('state')) selection['state'] = query.getAll('state')
      return { jobs: this.#select(selection), next_cursor: null }
    }
    const [, method, id, verb] = /^(GET|POST|DELETE) \/v1\/jobs\/(\d+)(?:\/(cancel))?(?:\?.*)?$/.exec(call) ?? []
    const job = this.jobs.find((one) => one['id'] === id)
    if (method === undefined) throw new Error(`the fake client has no ${call}: use a server, see startServer`)
    if (job === undefined) throw errorOf({ code: 'not_found', status: 404, detail: `there is no job with the id ${id ?? ''}` })
    if (method === 'GET') return job
    if (verb === undefined) return void this.jobs.splice(this.jobs.indexOf(job), 1)
    if (!LIVE.has(job['state'])) return { outcome: 'already_finished' }
    this.#end(job, 'cancelled')
    return { outcome: 'cancelled' }
  }

  #push(body: Document): unknown {
    const repeated = this.jobs.find(({ origin }) => origin === body['origin'])
    if (repeated !== undefined) return { ...repeated, outcome: 'repeated' }
    const holder = body['key'] === undefined ? undefined : this.#select({ queue: body['queue'], key: body['key'] }).find(({ state }) => LIVE.has(state))
    if (holder !== undefined && body['on_conflict'] === 'reject') {
      throw errorOf({ code: 'key_conflict', status: 409, detail: 'another live job holds the key', holder: holder['id'] as string })
    }
    if (holder !== undefined && body['on_conflict'] !== 'replace') return { ...holder, outcome: 'kept' }
    const dueMs = typeof body['due_at'] === 'string' ? Date.parse(body['due_at']) : this.nowMs + milliseconds((body['delay'] as Duration | undefined) ?? 0, 'delay')
    const job: Document = {
      kind: 'default', tags: [], priority: 1_024, attempt: 0, crashes: 0, errors: [], cancel_requested: false, version: 1, ...body,
      id: holder?.['id'] ?? String((this.#last += 1)), state: dueMs > this.nowMs ? 'scheduled' : 'ready',
      due_at: this.iso(dueMs), first_due_at: this.iso(dueMs), created_at: this.iso(), updated_at: this.iso(),
    }
    delete job['delay']
    delete job['on_conflict']
    if (holder === undefined) this.jobs.push(job)
    else this.jobs[this.jobs.indexOf(holder)] = job
    return { ...job, outcome: holder === undefined ? 'created' : 'replaced' }
  }

  /** A job has succeeded, and its handler has added these. */
  follow(job: Document, added: Document[]): void {
    const { id, queue, state, result, result_base64 } = job
    const then = [...((job['then'] as Document[] | undefined) ?? []), ...added]
    then.forEach((next, n) => this.#push({ queue, origin: `after-${id as string}-${n}`, ...next, previous: { id, queue, state, result, result_base64 } }))
  }

  #select({ queue, key, tag, kind, state }: Document): Document[] {
    const states = state === undefined ? undefined : new Set<unknown>([state].flat())
    return this.jobs.filter((job) =>
      (queue === undefined || job['queue'] === queue) && (key === undefined || job['key'] === key) && (kind === undefined || job['kind'] === kind)
      && (tag === undefined || (job['tags'] as unknown[]).includes(tag)) && (states === undefined || states.has(job['state'])))
  }

  #end(job: Document, state: string): void {
    Object.assign(job, { state, updated_at: this.iso(), finished_at: this.iso() })
  }
}

/**
 * Takes the place of a `Client` in a unit test: it records what is pushed, and `work` runs handlers inline. It pushes, finds,
 * cancels and deletes jobs; other calls throw. Retry rules, schedules and locks need a real server: `startServer`.
 */
export class FakeClient extends Client {
  readonly #memory: Memory

  constructor() {
    const memory = new Memory()
    super('http://fake.invalid', { transport: memory } as object)
    this.#memory = memory
  }

  /** All jobs, in the order of their pushes. */
  get pushed(): Job[] {
    return this.#memory.jobs.map((job) => jobOf(job, exactOf({ body: job })))
  }

  /** Moves the clock of this client forward. */
  advance(by: Duration): void {
    this.#memory.nowMs += milliseconds(by, 'by')
  }

  /** Runs the handlers of this worker for all jobs that are due, in the order of their due times, until none is left. */
  async work(worker: Worker): Promise<Ended[]> {
    const ended: Ended[] = []
    const isDue = (job: Document): boolean => ['scheduled', 'ready'].includes(job['state'] as string) && Date.parse(job['due_at'] as string) <= this.#memory.nowMs
    const next = (): Document | undefined =>
      this.#memory.jobs.filter(isDue).sort((one, other) => (one['due_at'] as string).localeCompare(other['due_at'] as string))[0]
    for (let job = next(); job !== undefined; job = next()) ended.push(await this.#run(worker, job))
    return ended
  }

  async #run(worker: Worker, job: Document): Promise<Ended> {
    const attempt = (job['attempt'] as number) + 1
    Object.assign(job, { state: 'running', attempt })
    const progress = (_: string, body: string): Promise<void> => {
      job['progress'] = { ...(parse(body) as object), at: this.#memory.iso() }
      return Promise.resolve()
    }
    const lease = { ...job, receipt: `${job['id'] as string}.${attempt}` }
    const { json, error } = await worker.execute(new RunningJob(lease, exactOf({ body: lease }), { client: this, progress }))
    const { complete, fail, release, park } = parse(`{${json}}`) as {
      complete?: Document
      fail?: { message: string; final?: boolean; retry_after?: string }
      release?: { delay: string; priority?: number }
      park?: { message: string; priority?: number }
    }
    const state = complete !== undefined ? 'succeeded' : fail?.final === true || park !== undefined ? 'failed' : 'scheduled'
    const delay = fail?.retry_after ?? release?.delay ?? RETRY_MS
    const finished = state === 'scheduled' ? { due_at: this.#memory.iso(this.#memory.nowMs + Math.max(1, milliseconds(delay, 'delay'))) } : { finished_at: this.#memory.iso() }
    const { then: added = [], ...result } = complete ?? {}
    Object.assign(job, { state, updated_at: this.#memory.iso(), ...result, ...finished, ...(fail === undefined ? {} : { message: fail.message }), ...park })
    if (release !== undefined) Object.assign(job, { attempt: attempt - 1, priority: release.priority ?? job['priority'] })
    const { id, kind } = job as { id: string; kind: string }
    const base: Ended = { id, kind, payload: contentOf(job, 'payload'), state }
    if (complete !== undefined) this.#memory.follow(job, added as Document[])
    if (complete !== undefined) return { ...base, result: contentOf(complete, 'result') }
    return { ...base, error }
  }
}
