// The driver of the conformance tests: `driver.mjs call` answers a call for each line; `driver.mjs work` runs a worker.
// clients/conformance says what goes in and out. It runs in a folder that build.sh has made.

import { appendFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import * as duetime from 'duetime'
import json from '../dist/json.js'

const { values: options, positionals: [mode] } = parseArgs({
  allowPositionals: true,
  options: Object.fromEntries(
    ['timeout', 'deadline', 'queues', 'concurrency', 'lease', 'log', 'stop-deadline'].map((name) => [name, { type: 'string' }])),
})
const ms = (name) => (options[name] === undefined ? undefined : Number(options[name]) * 1_000)
const print = (value) => process.stdout.write(`${json.encode(value, 'answer')}\n`)
// The server's names are given; those of the client are in camel case. Payloads and headers are as they are.
const camel = (value) => {
  if (Array.isArray(value)) return value.map(camel)
  if (typeof value !== 'object' || value === null) return value
  const verbatim = new Set(['payload', 'headers'])
  return Object.fromEntries(Object.entries(value).map(([name, member]) =>
    [name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()), verbatim.has(name) ? member : camel(member)]))
}
const job = (found) => found && {
  id: found.id, state: found.state, payload: shown(found.payload), result: shown(found.result), attempt: found.attempt, key: found.key,
  tags: found.tags, payload_text: found.payloadText ?? null, result_text: found.resultText ?? null,
}
const shown = (content) => {
  if (content instanceof Uint8Array) return { base64: Buffer.from(content).toString('base64') }
  try {
    json.encode(content ?? null, 'content')
    return content
  } catch {
    // A number that JavaScript does not hold.
    return undefined
  }
}

const client = new duetime.Client(undefined, { timeout: ms('timeout'), deadline: ms('deadline'), pushDeadline: ms('deadline') })

const CALLS = {
  async push({ queue, payload, payload_text: text, options }) {
    const { id, outcome, state } = await client.push(queue, text === undefined ? payload : Buffer.from(text), camel(options ?? {}))
    return { id, outcome, state }
  },
  async push_many({ jobs }) {
    const results = await client.pushMany(jobs.map(({ queue, payload, options }) => ({ queue, payload, ...camel(options ?? {}) })))
    return results.map((one) => (one instanceof Error ? { error: { code: one.code } } : { id: one.id, outcome: one.outcome }))
  },
  cancel_by_key: async ({ queue, key }) => ({ outcome: await client.cancelByKey(queue, key) }),
  cancel: async ({ id, ...options }) => ({ outcome: await client.cancel(id, camel(options)) }),
  run: async ({ id, ...options }) => job(await client.run(id, camel(options))),
  retry: async ({ id, ...options }) => job(await client.retry(id, camel(options))),
  delete: async ({ id, ...options }) => { await client.delete(id, camel(options)); return null },
  reschedule: async ({ id, delay, ...options }) => job(await client.reschedule(id, { delay }, camel(options))),
  get: async ({ id }) => job(await client.get(id)),
  find: async ({ queue, key }) => job(await client.find(queue, key)),
  async jobs(query) {
    const ids = []
    for await (const { id } of client.jobs(camel(query.query ?? query))) ids.push(id)
    return ids
  },
  async wait({ id, timeout }) {
    const { state, result } = await client.wait(id, typeof timeout === 'number' ? timeout * 1_000 : timeout)
    return { state, result: shown(result) }
  },
  cancel_all: ({ selection }) => client.request('POST', '/v1/jobs/cancel', camel(selection)),
  retry_all: ({ selection }) => client.request('POST', '/v1/jobs/retry', camel(selection)),
  queue_set: ({ queue, settings }) => client.queues.set(queue, camel(settings)),
  queue_pause: ({ queue }) => client.queues.pause(queue),
  queue_resume: ({ queue }) => client.queues.resume(queue),
  queue_purge: async ({ queue }) => ({ purged: await client.queues.purge(queue) }),
  queue_delete: ({ queue, force }) => client.queues.delete(queue, { force }),
  queue_get: ({ queue }) => client.queues.get(queue),
  schedule_set: ({ name, schedule }) => client.schedules.set(name, camel(schedule)),
  schedule_delete: async ({ name }) => { await client.schedules.delete(name); return null },
  async lock({ name, ttl, hold }) {
    const seconds = (value) => (typeof value === 'number' ? value * 1_000 : value)
    const lock = await client.lock(name, { ttl: seconds(ttl), wait: '10s' })
    await sleep(typeof hold === 'number' ? hold * 1_000 : Number.parseFloat(hold ?? '0') * 1_000)
    if (lock.lost) throw new duetime.LockLost({ code: 'lock_lost', status: 409, detail: 'lost while it was held' })
    await lock.release()
    return { fence: lock.fence }
  },
  async events({ query, count }) {
    const events = []
    for await (const { id, ...event } of client.events(camel(query ?? {}))) {
      events.push({ ...event, job: id })
      if (events.length === count) return events
    }
  },
}

async function call() {
  for await (const line of createInterface(process.stdin)) {
    if (line.trim() === '') continue
    try {
      const { call, args } = json.parse(line)
      print({ ok: (await CALLS[call](args ?? {})) ?? null })
    } catch (error) {
      const { code, status, field } = error
      print({ error: { code, status, field, type: error.constructor.name, detail: error.message } })
    }
  }
  await client.close()
}

async function work() {
  const log = (entry) => appendFileSync(options.log, `${JSON.stringify(entry)}\n`)
  const worker = new duetime.Worker(client, {
    queues: options.queues.split(','), concurrency: Number(options.concurrency ?? 1), lease: ms('lease'), stopDeadline: ms('stop-deadline'),
  })
  const DO = {
    succeed: ({ result }) => result,
    fail: ({ message }) => { throw new Error(message) },
    // The nearest that a string of JavaScript has: half a surrogate pair.
    raise_bytes: () => { throw new Error('bad \ud800 text') },
    fatal: ({ message }) => { throw new duetime.Fatal(message) },
    retry_after: ({ delay }) => { throw new duetime.RetryAfter(delay) },
    release: ({ delay, priority }) => { throw new duetime.Release(delay, { priority }) },
    park: ({ message, priority }) => { throw new duetime.Park(message, { priority }) },
    sleep: ({ ms }, job) => sleep(ms, undefined, { signal: job.signal }).then(() => undefined),
    block: ({ ms }) => {
      const end = performance.now() + ms
      while (performance.now() < end);
    },
    progress: async (_, job) => { await job.progress(50, 'half') },
    bad_result: () => () => 'a function',
    wait_for_cancel: async ({ ms }, job) => {
      await sleep(ms, undefined, { signal: job.signal }).catch(() => {
        log({ event: 'cancelled', id: job.id, attempt: job.attempt, ms: Date.now() })
      })
    },
    echo: (payload) => payload,
    echo_text: (_, job) => Buffer.from(job.payloadText),
    die: () => process.kill(process.pid, 'SIGKILL'),
  }
  worker.use(async (job, next) => {
    log({ event: 'start', id: job.id, attempt: job.attempt, ms: Date.now() })
    try {
      return await next()
    } finally {
      log({ event: 'end', id: job.id, attempt: job.attempt, ms: Date.now() })
    }
  })
  worker.handle('*', (job) => DO[job.payload.do](job.payload, job))
  const running = worker.run()
  log({ event: 'ready', pid: process.pid })
  await running
}

if (mode === 'call') await call()
else if (mode === 'work') await work()
else throw new Error('usage: driver.mjs call|work …')
