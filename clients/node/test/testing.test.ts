import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Client, Conflict, Fatal, NotFound, Park, Release, RetryAfter, TimedOut, Worker } from 'duetime'
import { FakeClient, startServer } from 'duetime/testing'
import { propagation } from '@opentelemetry/api'

const quiet = { logger: null, concurrency: 3 } as const

it('moves the clock of a private server', async (t) => {
  const server = await startServer(t)
  const { client } = server
  const seen: unknown[] = []
  const worker = new Worker(client, { queues: 'orders', ...quiet }).handle('order.cancel', (job) => {
    seen.push(job.payload)
    if (job.attempt === 1) throw new RetryAfter('1d')
    return 'cancelled'
  })
  const { id } = await client.push('orders', 4711, { kind: 'order.cancel', delay: '30m' })
  await server.advance('29m')
  assert.equal(await worker.drain(), 0)
  const now = await server.advance('1m')
  assert.ok(now.getTime() - Date.now() > 1_700_000)
  assert.equal(await worker.drain(), 1)
  await server.advance('1d')
  assert.equal(await worker.drain(), 1)
  assert.deepEqual(seen, [4711, 4711])
  assert.equal((await client.wait<number, string>(id)).result, 'cancelled')
})

it('waits for a result', async (t) => {
  const { client } = await startServer(t)
  const { id } = await client.push('sums', [2, 3])
  await assert.rejects(client.wait(id, 20), TimedOut)
  const worker = new Worker(client, { queues: 'sums', ...quiet }).handle<[number, number], number>('*', ({ payload: [a, b] }) => a + b)
  const running = worker.run({ signals: false })
  const { state, result } = await client.wait(id)
  assert.deepEqual([state, result], ['succeeded', 5])
  await worker.stop()
  await running
  await assert.rejects(client.wait('7'), NotFound)
})

it('says why a server does not start', async () => {
  await assert.rejects(startServer(undefined, '/no/such/duetime'), /set DUETIME_BIN/)
  await assert.rejects(startServer(undefined, 'false'), /has ended with code 1 before it listened/)
})

it('records what is pushed, and runs handlers inline', async () => {
  const client = new FakeClient()
  const place = async (given: Client, order: bigint): Promise<void> => {
    await given.push('orders', { order }, { kind: 'order.cancel', key: `order-${String(order)}`, delay: '30m', tags: ['shop'] })
  }
  await place(client, 1n << 60n)
  await place(client, 2n)
  await place(client, 2n)
  assert.deepEqual(client.pushed.map(({ queue, kind, key, payload }) => [queue, kind, key, payload]), [
    ['orders', 'order.cancel', `order-${String(1n << 60n)}`, { order: 1n << 60n }], ['orders', 'order.cancel', 'order-2', { order: 2 }],
  ])
  await assert.rejects(client.push('orders', 1, { key: 'order-2', onConflict: 'reject' }), Conflict)
  assert.equal(await client.cancelByKey('orders', 'order-2'), 'cancelled')
  assert.equal(await client.cancelByKey('orders', 'order-2'), 'none')
  assert.equal((await client.find('orders', 'order-2'))?.state, 'cancelled')

  let tries = 0
  const worker = new Worker(client, { queues: 'orders', ...quiet })
    .handle('order.cancel', async (job) => {
      await job.progress(50)
      await job.push('mail', 1, { kind: 'mail' })
      job.followWith({ queue: 'bills', payload: 7, kind: 'bill.void', delay: '1d' })
      return new Uint8Array([1, 0xff])
    })
    .handle('mail', () => {
      tries += 1
      if (tries === 1) throw new RetryAfter('1h', 'busy')
      throw tries === 2 ? new Release('1h', { priority: 9 }) : tries === 3 ? new Fatal('no address') : new Park('check it', { priority: 7 })
    })
  assert.deepEqual(await client.work(worker), [])
  client.advance('30m')
  const ended = await client.work(worker)
  assert.deepEqual(ended.map(({ kind, state, result }) => [kind, state, result]), [['order.cancel', 'succeeded', new Uint8Array([1, 0xff])], ['mail', 'scheduled', undefined]])
  assert.deepEqual(client.pushed.filter(({ queue }) => queue === 'bills').map(({ payload, previous }) => [payload, previous?.state]), [[7, 'succeeded']])
  client.advance('1h')
  assert.deepEqual((await client.work(worker)).map(({ state }) => state), ['scheduled'])
  client.advance('1h')
  assert.equal(client.pushed.find(({ queue }) => queue === 'mail')?.priority, 9)
  assert.deepEqual((await client.work(worker)).map(({ state, error }) => [state, (error as Error).message]), [['failed', 'no address']])
  const { id } = await client.push('mail', 2, { kind: 'mail' })
  assert.deepEqual((await client.work(worker)).map(({ state }) => state), ['failed'])
  assert.deepEqual(await client.get(id).then(({ message, priority }) => [message, priority]), ['check it', 7])
  assert.equal((await client.find('orders', `order-${String(1n << 60n)}`))?.progress?.percent, 50)
  await assert.rejects(client.queues.pause('orders'), /the fake client has no POST \/v1\/queues\/orders\/pause/)
})

it('passes on the trace of OpenTelemetry', async (t) => {
  const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const extracted: unknown[] = []
  propagation.setGlobalPropagator({
    fields: () => ['traceparent'],
    inject: (_, carrier, setter) => { setter.set(carrier, 'traceparent', trace) },
    extract: (context, carrier, getter) => {
      extracted.push(getter.get(carrier, 'traceparent'))
      return context
    },
  })
  t.after(() => { propagation.disable() })
  const client = new FakeClient()
  await client.push('q', 1)
  assert.equal(client.pushed[0]?.trace, trace)
  await client.work(new Worker(client, { queues: 'q', ...quiet }).handle('*', () => undefined))
  assert.deepEqual(extracted, [trace])
})
