// A small client of Duetime's HTTP API: Node 18 or later, no packages. Copy this file.
//
// The environment has the server's address (DUETIME_SERVER) and, if it requires one, the token (DUETIME_TOKEN).

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const TRIES = 6
// The name in the server's list of workers.
const WORKER = `${hostname()}:${process.pid}`
// Errors of the server's state. A retry does not help with any other refusal.
const LATER = new Set([408, 429, 502, 503, 504])

/** The server refused. `code` is stable; the text is for people. Code `unreachable`: there was no answer. */
export class Problem extends Error {
  constructor(status, code, detail, document = {}) {
    super(`${code}: ${detail}`)
    Object.assign(this, { status, code, document })
  }

  /** Whether a retry may succeed. */
  get passes() {
    return this.code === 'unreachable' || LATER.has(this.status)
  }
}

/** Thrown by a handler: the job has failed for good and is not retried. */
export class Final extends Error {}

export class Client {
  constructor(server = process.env.DUETIME_SERVER, token = process.env.DUETIME_TOKEN) {
    this.server = (server || 'http://127.0.0.1:7300').replace(/\/+$/, '')
    this.token = token
  }

  /** When this resolves, the job is recorded. Its origin identifies the push, so a repeat makes no second job. */
  push(queue, job) {
    return this.call('POST', `/v1/queues/${encodeURIComponent(queue)}/jobs`, { origin: randomUUID(), ...job })
  }

  async cancel(id) {
    return (await this.call('POST', `/v1/jobs/${id}/cancel`)).outcome
  }

  /** Leases due jobs, or waits if none is due. A repeat gets the same jobs. */
  async reserve(queue, { limit = 1, lease = '60s', wait = '5s' } = {}) {
    const request = { limit, lease, wait, worker: WORKER, request_id: randomUUID() }
    return (await this.call('POST', `/v1/queues/${encodeURIComponent(queue)}/reserve`, request)).leases
  }

  /** `complete` (result), `fail` (message, final, retry_after), `release` (delay) or `extend` (lease). */
  settle(receipt, verb, body = {}) {
    return this.call('POST', `/v1/leases/${receipt}/${verb}`, body)
  }

  /** Acquires (ttl, wait); with a fence it renews. Returns `fence` and `expires_at`. */
  lock(name, owner, options = {}) {
    return this.call('PUT', `/v1/locks/${encodeURIComponent(name)}`, { owner, ...options })
  }

  unlock(name, owner, fence) {
    return this.call('DELETE', `/v1/locks/${encodeURIComponent(name)}?${new URLSearchParams({ owner, fence })}`)
  }

  /** Calls the API, and repeats the call for some seconds while the server is unavailable. Every call is safe to repeat. */
  async call(method, path, body) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(method, path, body)
      } catch (problem) {
        if (!(problem instanceof Problem) || attempt === TRIES || !problem.passes) throw problem
        await sleep(Math.min(100 * 2 ** attempt, 5_000) * (0.5 + Math.random() / 2))
      }
    }
  }

  async #once(method, path, body) {
    const headers = { 'content-type': 'application/json' }
    if (this.token) headers.authorization = `Bearer ${this.token}`
    let status, text
    try {
      // Longer than any wait that this client requests.
      const signal = AbortSignal.timeout(60_000)
      const response = await fetch(this.server + path, { method, headers, body: JSON.stringify(body), signal })
      status = response.status
      text = await response.text()
    } catch (error) {
      throw new Problem(0, 'unreachable', `${this.server}: ${error.cause?.code ?? error.message}`)
    }
    let document = null
    try {
      document = text === '' ? null : JSON.parse(text)
    } catch {
      // Not from the server: a proxy's page, perhaps.
    }
    if (status < 400) return document
    throw new Problem(status, document?.code ?? `http_${status}`, document?.detail ?? text.slice(0, 200), document ?? {})
  }
}

/**
 * Runs jobs one after the other until `stop` (an AbortSignal); their leases, of this many seconds, are extended meanwhile.
 * A handler gets the job, and an AbortSignal that fires when it should stop.
 */
export async function work(client, queue, handler, stop, { seconds = 60 } = {}) {
  while (!stop.aborted) {
    let jobs
    try {
      jobs = await client.reserve(queue, { lease: `${seconds}s` })
    } catch (problem) {
      if (!problem.passes) throw problem
      console.log(problem.message)
      continue
    }
    for (const job of jobs) await run(client, job, handler, seconds)
  }
}

/** The pushed payload. JSON that some decoders refuse comes in base64, as do bytes that are not JSON. */
export function payloadOf(job) {
  if ('payload' in job) return job.payload
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(job.payload_base64, 'base64')))
  } catch (error) {
    throw new Final(`the payload cannot be read: ${error.message}`)
  }
}

/** Settles; a result that the server refuses fails the job, so that it does not run again and again. */
async function settle(client, job, verb, body) {
  try {
    await client.settle(job.receipt, verb, body)
  } catch (error) {
    if (error instanceof Problem && error.status !== 400 && error.status !== 413) throw error
    await client.settle(job.receipt, 'fail', { message: `the outcome was refused: ${error.message}`, final: true })
  }
}

async function run(client, job, handler, seconds) {
  const lost = new AbortController()
  const keeper = setInterval(async () => {
    try {
      if ((await client.settle(job.receipt, 'extend')).cancel_requested) lost.abort()
    } catch (problem) {
      if (problem.code === 'lease_lost') lost.abort()
    }
  }, seconds * 1000 / 3)
  let outcome
  try {
    job.payload = payloadOf(job)
    outcome = ['complete', { result: (await handler(job, lost.signal)) ?? null }]
  } catch (error) {
    // What the server takes: UTF-8 of at most 64 KiB.
    const message = Buffer.from(String(error?.message ?? error).slice(0, 16_000)).toString()
    outcome = ['fail', { message, final: error instanceof Final }]
  }
  clearInterval(keeper)
  try {
    await settle(client, job, ...outcome)
  } catch (problem) {
    // `lease_lost`: another worker has the job, or the answer to an earlier settle was lost.
    console.log(`job ${job.id}: ${problem.message}`)
  }
}
