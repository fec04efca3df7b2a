// A small client of Duetime's HTTP API: Node 18 or later, no packages. Copy this file.
//
// The environment names the server (DUETIME_SERVER) and, where it asks for one, the token (DUETIME_TOKEN).

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

const TRIES = 6
// Errors of the server's state. Any other refusal would be the same at a retry.
const LATER = new Set([408, 429, 502, 503, 504])

/** The server refused. `code` is stable; the text is for people. Code `unreachable`: there was no answer. */
export class Problem extends Error {
  constructor(status, code, detail, document = {}) {
    super(`${code}: ${detail}`)
    Object.assign(this, { status, code, document })
  }

  /** Whether it may be otherwise in a while. */
  get passes() {
    return this.code === 'unreachable' || LATER.has(this.status)
  }
}

/** Thrown by a handler: the job has failed for good, and is not tried again. */
export class Final extends Error {}

export class Client {
  constructor(server = process.env.DUETIME_SERVER, token = process.env.DUETIME_TOKEN) {
    this.server = (server || 'http://127.0.0.1:7300').replace(/\/+$/, '')
    this.token = token
  }

  /** Once this resolves the job is recorded. Its origin identifies the push: a repeat finds the job that the first try made. */
  push(queue, job) {
    return this.call('POST', `/v1/queues/${encodeURIComponent(queue)}/jobs`, { origin: randomUUID(), ...job })
  }

  async cancel(id) {
    return (await this.call('POST', `/v1/jobs/${id}/cancel`)).outcome
  }

  /** Leases due jobs, waiting for some where none is due; a repeat gets what the first try got. */
  async reserve(queue, { limit = 1, lease = '60s', wait = '5s' } = {}) {
    const request = { limit, lease, wait, request_id: randomUUID() }
    return (await this.call('POST', `/v1/queues/${encodeURIComponent(queue)}/reserve`, request)).leases
  }

  /** `complete` (result), `fail` (message, final, retry_after), `release` (delay) or `extend` (lease). */
  settle(receipt, verb, body = {}) {
    return this.call('POST', `/v1/leases/${receipt}/${verb}`, body)
  }

  /** Acquires (ttl, wait); with the fence it renews. Answers `fence` and `expires_at`. */
  lock(name, owner, options = {}) {
    return this.call('PUT', `/v1/locks/${encodeURIComponent(name)}`, { owner, ...options })
  }

  unlock(name, owner, fence) {
    return this.call('DELETE', `/v1/locks/${encodeURIComponent(name)}?${new URLSearchParams({ owner, fence })}`)
  }

  /** Calls the API, and repeats the call for some seconds while the server is unavailable: every call may be repeated. */
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
      // Longer than any wait that this client asks for.
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
      // Not of the server: a proxy's page, perhaps.
    }
    if (status < 400) return document
    throw new Problem(status, document?.code ?? `http_${status}`, document?.detail ?? text.slice(0, 200), document ?? {})
  }
}

/**
 * Runs jobs one after the other until `stop` (an AbortSignal); leases of so many seconds are extended while they run.
 * A handler is given the job, and an AbortSignal that says when it should stop.
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

/** What was pushed. JSON that some decoders refuse comes in base64, as do bytes that are not JSON. */
export function payloadOf(job) {
  if ('payload' in job) return job.payload
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(job.payload_base64, 'base64')))
  } catch (error) {
    throw new Final(`the payload cannot be read: ${error.message}`)
  }
}

/** Settles; a result that the server does not take fails the job, so that it is not run again and again. */
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
    outcome = ['fail', { message: String(error?.message ?? error), final: error instanceof Final }]
  }
  clearInterval(keeper)
  try {
    await settle(client, job, ...outcome)
  } catch (problem) {
    // `lease_lost`: somebody else has the job by now, or an answer was lost that had settled it.
    console.log(`job ${job.id}: ${problem.message}`)
  }
}
