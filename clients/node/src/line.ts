/**
 * A worker's line to the server: reserves, extends leases, and settles. It lives in a thread of its own, so a handler that
 * computes on the main thread does not keep leases from being extended.
 *
 * Jobs are *offered* to the main thread. If it does not take an offer within a second, it is blocked: the jobs are given
 * back for other workers, and no more are reserved until it answers. A shared cell decides between the two sides.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import { Aborted, DuetimeError, errorOf, messageOf } from './errors.js'
import { odd, pauseAfter, Transport, type Answer, type Request, type Settings } from './transport.js'
import { milliseconds, objectJson } from './wire.js'

export interface LineOptions {
  settings: Settings
  /** Each with its weight; in strict order if none has one. */
  queues: [name: string, weight: number | undefined][]
  name: string
  leaseMs: number | undefined
  waitMs: number
  /** Ends when nothing is due. */
  isDrain: boolean
}

/** What the main thread says. */
export type ToLine =
  | { type: 'work'; free: number; outcomes: Outcome[]; hasOffer: boolean }
  | { type: 'progress'; call: number; receipt: string; body: string }
  | { type: 'stop' }
  | { type: 'finish'; withinMs: number }

/** What the line says. */
export type FromLine =
  /** The answer to a reserve as text: to parse it twice takes less time than to copy its objects between threads. */
  | { type: 'jobs'; answer: string; cell: Int32Array }
  | { type: 'ended'; receipts: string[]; why: 'cancelled' | 'lost' }
  | { type: 'progressed'; call: number; problem?: DuetimeError['problem'] }
  | { type: 'log'; level: 'info' | 'warn' | 'error'; text: string }
  | { type: 'contact'; isReachable: boolean }
  | { type: 'refused'; problem: DuetimeError['problem'] }
  | { type: 'idle' }

/** A receipt, and the member of `/v1/settle` that says what became of its job. */
export type Outcome = [receipt: string, json: string]

/** States of an offer's cell. */
export const OFFERED = 0
export const TAKEN = 1
export const WITHDRAWN = 2

/** What the line needs to know of a job. */
interface Lease {
  receipt: string
  lease: string
}

interface Held {
  leaseMs: number
  extendAt: number
  isCancelled: boolean
}

interface Settling {
  receipt: string
  json: string
  tries: number
  isRefusal: boolean
}

const OFFER_MS = 1_000
const TICK_MS = 100
const EXTEND_MS_MIN = 500
const RESERVE_JOBS_MAX = 1_000
const SETTLE_JOBS_MAX = 2_000
const SETTLE_BYTES_MAX = 16 << 20
// Outcomes that wait for the server; beyond that no more jobs are reserved.
const UNSETTLED_MAX = 10_000
const REFUSED_PAUSE_MS = 5_000
// How many jobs a line of the log names.
const IDS_SHOWN = 20
// The longest pause that a server can ask for: a worker looks again soon.
const PAUSE_MS_MAX = 30_000

export class Line {
  readonly #options: LineOptions
  readonly #post: (message: FromLine) => void
  readonly #transport: Transport
  readonly #held = new Map<string, Held>()
  readonly #outbox: Settling[] = []
  readonly #failing = new Set<string>()
  readonly #stop = new AbortController()
  readonly #over = new AbortController()
  #settling: Promise<void> | undefined
  #offer: { cell: Int32Array; receipts: string[]; at: number } | undefined
  #free = 0
  #wake: (() => void) | undefined
  #ticks: NodeJS.Timeout | undefined
  #isExtending = false
  #wasReached = false
  readonly #reserving: Promise<void>

  constructor(options: LineOptions, post: (message: FromLine) => void) {
    this.#options = options
    this.#post = post
    this.#transport = new Transport(options.settings)
    this.#reserving = this.#reserveJobs()
  }

  async receive(message: ToLine): Promise<void> {
    if (message.type === 'work') {
      if (message.hasOffer) this.#offer = undefined
      this.#free += message.free
      for (const [receipt, json] of message.outcomes) {
        if (this.#held.has(receipt)) this.#outbox.push({ receipt, json, tries: 0, isRefusal: false })
      }
      this.#settle()
      this.#wake?.()
    } else if (message.type === 'progress') {
      await this.#progress(message)
    } else if (message.type === 'stop') {
      this.#stop.abort()
      this.#wake?.()
    } else {
      this.#stop.abort()
      this.#wake?.()
      const time = setTimeout(() => { this.#over.abort() }, message.withinMs)
      await this.#reserving
      while (this.#settling !== undefined) await this.#settling
      clearTimeout(time)
      this.#over.abort()
      if (this.#outbox.length > 0) {
        const ids = this.#outbox.map(({ receipt }) => idOf(receipt))
        const shown = ids.slice(0, IDS_SHOWN).join(', ') + (ids.length > IDS_SHOWN ? ' …' : '')
        this.#log('warn', `stopped with ${ids.length} outcomes that were not acknowledged; these jobs run again: ${shown}`)
      }
      clearInterval(this.#ticks)
      this.#transport.close()
    }
  }

  async #reserveJobs(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      if (this.#free === 0 || this.#offer !== undefined || this.#outbox.length > UNSETTLED_MAX) {
        await new Promise<void>((resolve) => { this.#wake = resolve })
        continue
      }
      const answer = await this.#reserve()
      const leases = answer === undefined ? [] : leasesOf(answer)
      if (answer !== undefined && leases.length > 0) this.#offerJobs(leases, answer.text ?? '')
      else if (this.#options.isDrain && this.#held.size > 0) await new Promise<void>((resolve) => { this.#wake = resolve })
      else if (this.#options.isDrain) break
    }
    if (this.#options.isDrain) this.#post({ type: 'idle' })
  }

  async #reserve(): Promise<Answer | undefined> {
    const { name, leaseMs, isDrain } = this.#options
    const limit = Math.min(this.#free, RESERVE_JOBS_MAX)
    const asked = { queues: this.#order(), limit, lease: leaseMs, worker: name, requestId: randomUUID() }
    const request = (wait: number): Request => ({ method: 'POST', path: '/v1/reserve', body: objectJson({ ...asked, wait }), waitMs: wait })
    try {
      // A repeat gets the jobs of an answer that was lost. It does not wait: if they are gone, the next request does.
      return await this.#call('reserve', (tries) => request(isDrain || tries > 1 ? 0 : this.#options.waitMs), this.#stop.signal, leasesOf)
    } catch (error) {
      if (error instanceof Aborted) {
        // The server may have answered just now. The repeat gets the same jobs, to give them back.
        const leases = await this.#transport.call({ ...request(0), repeats: false, signal: this.#over.signal }).then(leasesOf).catch(() => [])
        this.#hold(leases)
        this.#giveBack(leases.map(({ receipt }) => receipt))
        return undefined
      }
      this.#post({ type: 'refused', problem: (error as DuetimeError).problem })
      this.#stop.abort()
      return undefined
    }
  }

  /** The queues in the order for one reserve: as given, or by chance so that each is first as often as its weight says. */
  #order(): string[] {
    const { queues } = this.#options
    const keyed = queues.map(([name, weight], place): [string, number] => [name, weight === undefined ? place : -Math.log(1 - Math.random()) / weight])
    return keyed.sort(([, one], [, other]) => one - other).map(([name]) => name)
  }

  #offerJobs(leases: Lease[], answer: string): void {
    this.#hold(leases)
    this.#free -= leases.length
    const cell = new Int32Array(new SharedArrayBuffer(4))
    this.#offer = { cell, receipts: leases.map((lease) => lease.receipt), at: performance.now() }
    this.#post({ type: 'jobs', answer, cell })
  }

  #hold(leases: Lease[]): void {
    const now = performance.now()
    for (const lease of leases) {
      const leaseMs = milliseconds(lease.lease, 'lease')
      this.#held.set(lease.receipt, { leaseMs, extendAt: now + leaseMs / 3, isCancelled: false })
    }
    if (this.#held.size > 0) this.#ticks ??= setInterval(() => { this.#tick() }, TICK_MS)
  }

  #drop(receipt: string): void {
    this.#held.delete(receipt)
    if (this.#held.size > 0) return
    clearInterval(this.#ticks)
    this.#ticks = undefined
    this.#wake?.()
  }

  #tick(): void {
    const now = performance.now()
    const offer = this.#offer
    if (offer !== undefined && now - offer.at >= OFFER_MS && Atomics.compareExchange(offer.cell, 0, OFFERED, WITHDRAWN) === OFFERED) {
      // `#offer` stays: the main thread has not answered yet.
      this.#giveBack(offer.receipts)
    }
    if (this.#isExtending) return
    const due = [...this.#held].filter(([, held]) => held.extendAt <= now).slice(0, RESERVE_JOBS_MAX)
    if (due.length > 0) void this.#extend(due)
  }

  async #extend(due: [string, Held][]): Promise<void> {
    this.#isExtending = true
    try {
      const lease = this.#options.leaseMs
      const body = `[${due.map(([receipt]) => objectJson({ receipt, lease })).join(',')}]`
      const thirdMs = Math.min(...due.map(([, held]) => held.leaseMs / 3))
      const request: Request = { method: 'POST', path: '/v1/extend', body, timeoutMs: Math.max(EXTEND_MS_MIN, thirdMs) }
      const { body: answers } = await this.#call('extend', () => request, this.#over.signal, (answer) => listOf(answer, due.length), thirdMs / 2)
      const now = performance.now()
      const lost: string[] = []
      for (const [index, [receipt, held]] of due.entries()) {
        const answer = (answers as ({ code?: string; cancel_requested?: boolean } | undefined)[])[index]
        held.extendAt = now + held.leaseMs / 3
        // One that was settled meanwhile is not lost.
        if (answer?.code === 'lease_lost' && this.#held.has(receipt) && !this.#outbox.some((one) => one.receipt === receipt)) {
          lost.push(receipt)
          this.#drop(receipt)
          this.#log('warn', `the lease of job ${idOf(receipt)} is lost: another worker may have the job`)
        }
        if (answer?.cancel_requested === true) this.#cancelled(receipt)
      }
      if (lost.length > 0) this.#post({ type: 'ended', receipts: lost, why: 'lost' })
    } catch (error) {
      if (!(error instanceof Aborted)) this.#log('error', `leases could not be extended: ${messageOf(error)}`)
      for (const [, held] of due) held.extendAt = performance.now() + REFUSED_PAUSE_MS
    } finally {
      this.#isExtending = false
    }
  }

  #cancelled(receipt: string): void {
    const held = this.#held.get(receipt)
    if (held === undefined || held.isCancelled) return
    held.isCancelled = true
    this.#post({ type: 'ended', receipts: [receipt], why: 'cancelled' })
  }

  async #progress({ call, receipt, body }: Extract<ToLine, { type: 'progress' }>): Promise<void> {
    try {
      const answer = await this.#transport.call({ method: 'POST', path: `/v1/leases/${receipt}/progress`, body, signal: this.#over.signal })
      if ((answer.body as { cancel_requested?: boolean }).cancel_requested === true) this.#cancelled(receipt)
      this.#post({ type: 'progressed', call })
    } catch (error) {
      this.#post({ type: 'progressed', call, problem: (error as DuetimeError).problem })
    }
  }

  #giveBack(receipts: readonly string[]): void {
    for (const receipt of receipts) this.#outbox.push({ receipt, json: '"release":{}', tries: 0, isRefusal: false })
    this.#settle()
  }

  /** Sends outcomes, one request at a time; those that come meanwhile go together in the next. */
  #settle(): void {
    if (this.#outbox.length === 0) return
    this.#settling ??= this.#settleAll().finally(() => {
      this.#settling = undefined
      this.#wake?.()
    })
  }

  async #settleAll(): Promise<void> {
    while (this.#outbox.length > 0 && !this.#over.signal.aborted) {
      let [count, bytes] = [0, 0]
      while (count < Math.min(this.#outbox.length, SETTLE_JOBS_MAX) && bytes < SETTLE_BYTES_MAX) bytes += this.#outbox[count++]?.json.length ?? 0
      const batch = this.#outbox.slice(0, count)
      const left = await this.#settleBatch(batch)
      this.#outbox.splice(0, count, ...left)
      for (const { receipt } of batch) if (!left.some((one) => one.receipt === receipt)) this.#drop(receipt)
    }
  }

  /** Returns the outcomes that are to be sent again. */
  async #settleBatch(batch: Settling[]): Promise<Settling[]> {
    const body = `[${batch.map(({ receipt, json }) => `{"receipt":"${receipt}",${json}}`).join(',')}]`
    let answers: { code?: string; status?: number; detail?: string }[]
    try {
      const answer = await this.#transport.call({ method: 'POST', path: '/v1/settle', body, repeats: false, signal: this.#over.signal })
      answers = listOf(answer, batch.length)
      this.#reached('settle')
    } catch (error) {
      if (!(error instanceof DuetimeError)) throw error
      if (error instanceof Aborted) return batch
      if (isOfOne(error) && batch.length > 1) {
        // One of them is too large for the server, perhaps, or displeases a proxy.
        const left: Settling[] = []
        for (const one of batch) left.push(...(await this.#settleBatch([one])))
        return left
      }
      if (isRefused(error)) return batch.flatMap((one) => this.#refused(one, error.message))
      await this.#pause('settle', error, (batch[0]?.tries ?? 0) + 1, this.#over.signal).catch(() => undefined)
      return batch.map((one) => ({ ...one, tries: one.tries + 1 }))
    }
    let failed: DuetimeError | undefined
    const left = batch.flatMap((one, index) => {
      const { code, status = 0, detail = '' } = answers[index] ?? {}
      const tries = one.tries + 1
      if (code === undefined) return []
      if (code === 'lease_lost') {
        // In a repeat, an earlier try has settled it.
        if (tries === 1) this.#log('warn', `the outcome of job ${idOf(one.receipt)} is dropped: its lease was lost`)
        return []
      }
      if (status < 500) return this.#refused(one, detail)
      failed = errorOf({ code, status, detail })
      return [{ ...one, tries }]
    })
    if (failed !== undefined) await this.#pause('settle', failed, 3, this.#over.signal).catch(() => undefined)
    return left
  }

  /** A result that the server does not accept fails the job for good: it would be refused again. Another outcome is a failed attempt. */
  #refused(one: Settling, detail: string): Settling[] {
    if (one.isRefusal) {
      this.#log('error', `job ${one.receipt}: its outcome was refused: ${detail}`)
      return []
    }
    const final = one.json.startsWith('"complete"')
    const json = `"fail":${JSON.stringify({ message: `the outcome was refused: ${detail}`, final })}`
    return [{ ...one, json, isRefusal: true }]
  }

  /** Calls until there is an answer; throws what the server refuses, and `Aborted`. */
  async #call(kind: string, request: (tries: number) => Request, signal: AbortSignal, check: (answer: Answer) => unknown, pauseMsMax = PAUSE_MS_MAX): Promise<Answer> {
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.#transport.call({ ...request(tries), repeats: false, signal })
        check(answer)
        this.#reached(kind)
        return { ...answer, tries }
      } catch (error) {
        if (!(error instanceof DuetimeError) || error instanceof Aborted) throw error
        // A token or a name that is wrong from the start is for the developer. Later, an operator repairs it.
        const isWrong = isRefused(error) || (!this.#wasReached && [401, 403].includes(error.status))
        if (isWrong && !(kind === 'reserve' && this.#wasReached)) throw error
        await this.#pause(kind, error, tries, signal, pauseMsMax)
      }
    }
  }

  /** Waits before the next try. Throws `Aborted`. */
  async #pause(kind: string, error: DuetimeError, tries: number, signal: AbortSignal, pauseMsMax = PAUSE_MS_MAX): Promise<void> {
    this.#unreached(kind, error.message)
    await sleep(Math.min(pauseAfter(error, tries), pauseMsMax), undefined, { signal }).catch(() => {
      throw new Aborted({ code: 'aborted', status: 0, detail: 'the worker stops' })
    })
  }

  #reached(kind: string): void {
    this.#wasReached = true
    if (!this.#failing.delete(kind) || this.#failing.size > 0) return
    this.#log('info', 'the server answers again')
    this.#post({ type: 'contact', isReachable: true })
  }

  #unreached(kind: string, why: string): void {
    const isFirst = this.#failing.size === 0
    this.#failing.add(kind)
    if (!isFirst) return
    this.#log('warn', `the server does not answer as it should, trying on: ${why}`)
    this.#post({ type: 'contact', isReachable: false })
  }

  #log(level: 'info' | 'warn' | 'error', text: string): void {
    this.#post({ type: 'log', level, text })
  }
}

function idOf(receipt: string): string {
  return receipt.split('.', 1)[0] ?? ''
}

function leasesOf(answer: Answer): Lease[] {
  const { leases } = answer.body as { leases?: (Partial<Lease> | null)[] }
  if (!Array.isArray(leases) || !leases.every((lease) => typeof lease?.receipt === 'string' && typeof lease.lease === 'string')) throw odd(answer, '`leases`')
  return leases as Lease[]
}

function listOf<T>(answer: Answer, length: number): T[] {
  const list = answer.body
  if (!Array.isArray(list) || list.length !== length || !list.every((one) => typeof one === 'object' && one !== null)) throw odd(answer, `${length} answers`)
  return list as T[]
}

/** Whether a repeat would be refused, too. */
function isRefused({ code, status }: DuetimeError): boolean {
  return status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status) && code !== 'protocol'
}

/** Whether one outcome of several may be to blame. */
function isOfOne({ status }: DuetimeError): boolean {
  return status >= 400 && status < 500 && ![401, 408, 429].includes(status)
}

/** In the thread that `Worker` starts. */
if (!isMainThread && (workerData as { duetime?: string } | null)?.duetime === 'line') {
  const port = parentPort
  if (port !== null) {
    const line = new Line((workerData as { options: LineOptions }).options, (message) => { port.postMessage(message) })
    port.on('message', (message: ToLine) => {
      void line.receive(message).then(() => {
        if (message.type === 'finish') port.close()
      })
    })
  }
}
