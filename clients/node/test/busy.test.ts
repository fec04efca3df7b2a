/** Handlers that compute, on the main thread and in others. */

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Client, Worker, type WorkerOptions } from 'duetime'
import { once, runUntil, startServer } from './server.js'

const busy = (ms: number): void => {
  const end = performance.now() + ms
  while (performance.now() < end);
}

describe('handlers that compute', () => {
  let server: Awaited<ReturnType<typeof startServer>>
  let client: Client
  before(async () => {
    server = await startServer()
    client = new Client(server.url)
  })
  after(async () => {
    await server[Symbol.asyncDispose]()
  })

  const worker = (queues: WorkerOptions['queues'], options: Partial<WorkerOptions> = {}): Worker =>
    new Worker(client, { queues, concurrency: 10, logger: null, ...options })

  it('keeps the lease of a handler that computes', async () => {
    const { id } = await client.push('computes', 1)
    let runs = 0
    const it = worker('computes', { lease: '2s' })
    it.handle('*', () => { runs += 1; busy(3_500) })
    const job = await runUntil(client, it, id)
    assert.deepEqual([job.state, job.attempt, job.crashes, runs], ['succeeded', 1, 0, 1])
  })

  it('gives back jobs that arrive while a handler computes', async () => {
    const [first, second] = ['first', 'second'].map((kind) => ({ queue: 'blocked', kind, payload: 1 }))
    const it = worker('blocked', { lease: '1s' })
    let id = ''
    it.handle('first', async () => {
      // It becomes due while the thread computes, and nobody else is there.
      id = (await client.push('blocked', 1, { ...second, delay: 300 })).id
      busy(2_500)
    })
    it.handle('second', () => 'ran')
    await client.push('blocked', 1, { kind: first?.kind })
    const running = it.run({ signals: false })
    for await (const { type } of client.events({ queue: 'blocked', what: 'succeeded' })) if (type === 'succeeded' && (await client.get(id)).state === 'succeeded') break
    await it.stop()
    await running
    const job = await client.get(id)
    assert.deepEqual([job.result, job.attempt, job.crashes, job.releases], ['ran', 1, 0, 1])
  })

  it('runs handlers in threads', async () => {
    const it = worker('threads', { lease: '2s', concurrency: 8 })
    const thread = new URL(`file://${join(__dirname, 'thread-handler.js')}`)
    it.handle('default', { thread, graceMs: 20_000 })
    it.handle('forever', { thread, threads: 1, graceMs: 1 })
    it.handle('missing', { thread: new URL('file:///no/such.js'), threads: 1 })
    const push = async (payload: object, kind = 'default'): Promise<string> => (await client.push('threads', payload, { kind })).id
    const ids = {
      compute: await push({ do: 'compute', ms: 3_500 }), forever: await push({ do: 'compute forever' }, 'forever'), wait: await push({ do: 'wait' }), calls: await push({ do: 'calls' }),
      fatal: await push({ do: 'fatal' }), exit: await push({ do: 'exit' }), function: await push({ do: 'function' }), missing: await push({}, 'missing'),
      park: await push({ do: 'park' }),
    }
    const running = it.run({ signals: false })
    await once(client, ids.forever, 'running')
    await once(client, ids.wait, 'running')
    await client.cancel(ids.forever)
    await client.cancel(ids.wait)
    const jobs = await Promise.all([
      once(client, ids.compute, 'succeeded'), once(client, ids.forever, 'cancelled'), once(client, ids.wait, 'succeeded'), once(client, ids.calls, 'succeeded'), once(client, ids.fatal, 'failed'),
      once(client, ids.exit, 'scheduled'), once(client, ids.function, 'failed'), once(client, ids.missing, 'scheduled'), once(client, ids.park, 'failed'),
    ])
    await it.stop()
    await running
    const [compute, , wait, calls, , exit, fn, missing, park] = jobs
    assert.deepEqual([compute.result, compute.attempt], [{ isMainThread: false, fee: 12345678901234567890n, text: '{"do":"compute","ms":3500}' }, 1])
    assert.equal(wait.state, 'succeeded')
    assert.equal((await client.find('from-threads', 'aborted'))?.payload, 'aborted: Cancelled, true')
    assert.deepEqual([calls.progress?.note, (await client.get(calls.result as string)).queue], ['from a thread', 'from-threads'])
    const added: unknown[] = []
    for await (const { payload, previous } of client.jobs({ queue: 'from-threads', kind: 'added' })) added.push([payload, previous?.id])
    assert.deepEqual(added, [['after', calls.id]])
    assert.equal(exit.message, "the handler's thread ended: exit code 3")
    assert.match(fn.message ?? '', /^the result cannot be taken from the thread: /)
    assert.deepEqual([park.message, park.priority], ['by hand', 7])
    assert.match(missing.message ?? '', /no\/such\.js/)
  })
  it('runs one job after the other in a thread', async () => {
    const it = worker('one-thread', { concurrency: 4 })
    it.handle('*', { thread: new URL(`file://${join(__dirname, 'thread-handler.js')}`), threads: 1 })
    const kinds = ['calls', 'fatal', 'exit', 'calls', 'park', 'calls']
    const ids = []
    for (const kind of kinds) ids.push((await client.push('one-thread', { do: kind }, { maxAttempts: 1 })).id)
    const running = it.run({ signals: false })
    const states = await Promise.all(ids.map((id, n) => once(client, id, kinds[n] === 'calls' ? 'succeeded' : 'failed')))
    await it.stop()
    await running
    assert.deepEqual(states.map(({ attempt, crashes }) => [attempt, crashes]), ids.map(() => [1, 0]))
  })
})
