import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import {
  Client, Conflict, DuetimeError, Invalid, LockHeld, NotFound, Unavailable, Worker, type Change, type JobEvent, type JobOptions, type Pause, type QueueSettings,
  type Schedule, type Selection, type Spread, type When,
} from 'duetime'
import { startServer } from './server.js'

/** An object with every name of a type. */
type Names<T> = Record<keyof T, unknown>

describe('a client of a real server', () => {
  let server: Awaited<ReturnType<typeof startServer>>
  let client: Client
  before(async () => {
    server = await startServer()
    client = new Client(server.url)
  })
  after(async () => {
    await client[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  it('gives payloads back as they were pushed', async () => {
    const payloads: unknown[] = [
      null, 0, 'Zoë', '\ud800', ['\udfff', { '\ud800': 1 }], 9_007_199_254_740_993n, { a: [-123456789012345678901234567890n, 2] }, '9007199254740993',
      ['long-1-', '1234567890123456789', 1234567890123456789n], 1e300, 1.5, new Uint8Array([0xff, 0xfe]), '\u0000',
      // Nested too deeply for many decoders.
      JSON.parse('['.repeat(1_000) + ']'.repeat(1_000)),
    ]
    const pushed = await client.pushMany(payloads.map((payload) => ({ queue: 'exact', payload })))
    for (const [place, one] of pushed.entries()) {
      assert.ok(!(one instanceof Error))
      const { payload } = await client.get(one.id)
      if (place < payloads.length - 1) assert.deepEqual(payload, payloads[place])
      else assert.equal(JSON.stringify(payload), JSON.stringify(payloads[place]))
    }
  })

  it('has the text of payload and result to the character', async () => {
    for (const text of ['{"f":0.1000000000000000055, "z":[-0, ",]\\"" ],"t":1,"t":2, "o" : { "a": [ ] } }', '[1e400]', '"\\ud800"', '-0', '\ufeff1']) {
      const { id } = await client.push('texts', Buffer.from(text))
      await new Worker(client, { queues: 'texts', logger: null }).handle('*', (job) => Buffer.from(job.payloadText ?? '')).drain()
      const listed = []
      for await (const job of client.jobs({ queue: 'texts' })) if (job.id === id) listed.push(job)
      for (const job of [await client.get(id), ...listed]) assert.deepEqual([job.payloadText, job.resultText], [text, text])
    }
    const { id } = await client.push('texts', new Uint8Array([0xff]), { delay: '1h' })
    const job = await client.get(id)
    assert.deepEqual([job.payloadText, job.resultText], [undefined, undefined])
    // Not a second payload in logs.
    assert.ok(!Object.keys(job).includes('payloadText'))
  })

  it('pushes with every option, and finds, changes and cancels by key', async () => {
    const options = {
      kind: 'order.cancel', key: 'order-4711', onConflict: 'reject', keyUntil: 'started', delay: '30m', tags: ['shop:7'], priority: 3,
      retry: { exponential: { first: 1_000, factor: 2, max: '1h', jitter: 0.1 } }, jitter: 0.5, maxAttempts: 3, maxAge: '2d', maxCrashes: 2,
      whenExhausted: { move: 'dead' }, lease: 90_000, expires: '1h', trace: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      meta: { tenant_id: '7' }, dueAt: undefined, origin: undefined, target: undefined,
      then: [{ queue: 'orders', payload: new Uint8Array([255]), kind: 'next', delay: 90_000, maxAttempts: 3 }], otherwise: undefined,
    } as const
    // No option of the server is missing.
    const { components, paths } = (await client.request('GET', '/openapi.json')) as {
      components: { schemas: Record<string, { properties: object }> }
      paths: Record<string, Record<string, { parameters: { name: string; in: string }[] }>>
    }
    const same = (ours: object, schema: string, ...left: string[]): void => {
      const theirs = Object.keys(components.schemas[schema]?.properties ?? {}).filter((name) => !['payload_base64', 'delay_ms', 'due_at_ms', ...left].includes(name))
      assert.deepEqual(Object.keys(ours).map((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)).sort(), theirs.sort(), schema)
    }
    const none = undefined
    same(options satisfies Names<JobOptions>, 'Push', 'queue', 'payload')
    same({ queue: none, state: none, tag: none, key: none, kind: none, dueFrom: none, dueTo: none } satisfies Names<Selection>, 'Selection')
    same({ delay: none, dueAt: none, spread: none } satisfies Names<When & Spread>, 'Reschedule', 'selection')
    same({ payload: 1, priority: 1, delay: 1, dueAt: '' } satisfies Names<Change>, 'Patch')
    same({ for: 1, until: '' } satisfies Names<Pause>, 'Pause')
    same({
      retry: none, jitter: none, maxAttempts: none, maxAge: none, maxCrashes: none, whenExhausted: none, lease: none, maxRunning: none, rate: none, maxWaiting: none, whenFull: none,
      retention: none, target: none,
    } satisfies Names<QueueSettings>, 'QueueChanges')
    same({
      cron: none, timeZone: none, every: none, job: { payload: 1 }, start: none, end: none, missed: none, overlap: none, paused: none, pausedUntil: none, spread: none,
    } satisfies Names<Schedule>, 'Schedule')
    const query = paths['/v1/jobs/retry']?.['post']?.parameters.filter(({ in: where }) => where === 'query').map(({ name }) => name)
    assert.deepEqual(query, Object.keys({ spread: none } satisfies Names<Spread>))
    const quiet = { key: 'page-7', onConflict: { debounce: 3_600_000, atLatest: '2h' } } as const
    assert.equal((await client.push('pages', 1, quiet)).outcome, 'created')
    assert.equal((await client.push('pages', 2, quiet)).outcome, 'replaced')
    const { id, outcome, state } = await client.push('orders', { order: 4711 }, options)
    assert.deepEqual([outcome, state], ['created', 'scheduled'])
    await assert.rejects(client.push('orders', { order: 4711 }, options), (error) => error instanceof Conflict && error.holder === id && error.status === 409)
    const found = await client.find<{ order: number }>('orders', 'order-4711')
    assert.equal(found?.payload.order, 4711)
    assert.deepEqual(found.meta, { tenant_id: '7' })
    const followed = (await client.request('GET', `/v1/jobs/${id}`)) as { then: unknown }
    assert.deepEqual(followed.then, [{ queue: 'orders', kind: 'next', payload_base64: '/w==', delay_ms: 90_000, priority: 1024, max_attempts: 3 }])
    // The server reads its clock for each of the two.
    const delay = found.dueAt.getTime() - found.createdAt.getTime()
    assert.ok(delay >= 1_800_000 && delay < 1_801_000, `${delay}`)
    const changed = await client.change(id, { payload: [1], delay: 60_000 }, { ifVersion: found.version })
    assert.deepEqual([changed.payload, changed.state], [[1], 'scheduled'])
    const old = { ifVersion: found.version }
    for (const call of [
      () => client.change(id, { priority: 1 }, old), () => client.reschedule(id, { delay: 1 }, old), () => client.cancel(id, old), () => client.run(id, old),
      () => client.retry(id, old), () => client.delete(id, old),
    ]) await assert.rejects(call(), (error) => error instanceof Conflict && error.code === 'version_mismatch' && error.status === 412)
    assert.equal((await client.reschedule(id, { dueAt: new Date('2030-01-01T00:00:00Z') })).dueAt.toISOString(), '2030-01-01T00:00:00.000Z')
    assert.deepEqual((await client.why(id)).reasons.map(({ code }) => code), ['not_due'])
    assert.equal((await client.run(id, { ifVersion: (await client.get(id)).version })).state, 'ready')
    assert.equal(await client.cancelByKey('orders', 'order-4711'), 'cancelled')
    assert.equal(await client.cancelByKey('orders', 'order-4711'), 'none')
    assert.equal(await client.cancel(id), 'already_finished')
    assert.equal((await client.find('orders', 'order-4711'))?.state, 'cancelled')
    assert.equal(await client.find('orders', 'order-1'), null)
    const { state: again, version } = await client.retry(id, { ifVersion: (await client.get(id)).version })
    assert.equal(again, 'ready')
    await client.delete(id, { ifVersion: version })
    await assert.rejects(client.get(id), NotFound)
  })

  it('has queues and keys of any name', async () => {
    for (const queue of ['..', '.', 'a/b;c+d']) {
      const { id } = await client.push(queue, queue, { key: 'ä/..%2f', delay: '1h' })
      assert.equal((await client.find(queue, 'ä/..%2f'))?.id, id)
      assert.equal((await client.queues.get(queue)).scheduled, 1)
      await assert.rejects(client.queues.delete(queue), (error: Error) => error instanceof Conflict && error.code === 'queue_in_use')
      assert.equal(await client.queues.purge(queue), 1)
      assert.deepEqual(await client.queues.delete(queue, { force: true }), { existed: true, cancelled: 0, deleted: 1 })
      assert.equal((await client.queues.delete(queue)).existed, false)
    }
  })

  it('is told of a full queue', async () => {
    await client.queues.set('full', { maxWaiting: 1, whenFull: 'drop' })
    const outcomes = [await client.push('full', 1), await client.push('full', 2)].map(({ outcome }) => outcome)
    assert.deepEqual(outcomes, ['created', 'dropped'])
  })

  it('is reached by a unix socket', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'duetime-')), 'socket')
    const relay = createServer((from) => {
      const to = connect(Number(new URL(server.url).port), '127.0.0.1')
      from.pipe(to).pipe(from)
    }).listen(path)
    await once(relay, 'listening')
    const local = new Client(`unix:${path}`)
    assert.equal((await local.push('socket', 1)).outcome, 'created')
    // The thread of a worker, and that of a lock, use it, too.
    assert.equal(await new Worker(local, { queues: 'socket', logger: null }).handle('*', () => undefined).drain(), 1)
    await (await local.lock('socket')).release()
    await local.close()
    relay.close()
  })

  it('answers for each of many jobs, and pushes the rest', async () => {
    const results = await client.pushMany([
      { queue: 'many', payload: 1, tags: ['many'] },
      { queue: 'no queue', payload: 1 },
      { queue: 'many', payload: undefined },
      { queue: 'many', payload: 2, tags: ['many'], delay: '1h' },
    ])
    assert.deepEqual(results.map((one) => (one instanceof DuetimeError ? [one.code, one.field] : one.outcome)), ['created', ['invalid', 'queue'], ['invalid', 'payload'], 'created'])
    const ids = []
    for await (const { id } of client.jobs({ tag: 'many', limit: 1 })) ids.push(id)
    assert.equal(ids.length, 2)
    assert.deepEqual(await client.rescheduleAll({ tag: 'many' }, { delay: '2h', spread: 60_000 }), { rescheduled: 2 })
    assert.deepEqual(await client.cancelByTag('many', 'many'), { cancelled: 2 })
    assert.deepEqual(await client.retryAll({ tag: 'many', state: 'cancelled' }, { spread: '1h' }), { retried: 2 })
    for await (const { state } of client.jobs({ tag: 'many' })) assert.equal(state, 'scheduled')
    assert.deepEqual(await client.cancelAll({ tag: 'many', state: ['ready', 'scheduled'] }), { cancelled: 2 })
    assert.deepEqual(await client.deleteAll({ tag: 'many' }), { deleted: 2 })
  })

  it('pushes more than fit into a batch', async () => {
    const jobs = Array.from({ length: 1_001 }, (_, payload) => ({ queue: 'batches', payload }))
    assert.equal((await client.pushMany(jobs)).filter((one) => !(one instanceof Error)).length, 1_001)
    assert.equal((await client.queues.get('batches')).ready, 1_001)
    assert.equal(await client.queues.purge('batches'), 1_001)
  })

  it('makes one job of an origin', async () => {
    const { id } = await client.push('once', 1, { origin: 'o-1' })
    assert.deepEqual(await client.push('once', 1, { origin: 'o-1' }).then((again) => [again.id, again.outcome]), [id, 'repeated'])
  })

  it('says which field is wrong', async () => {
    const wrong: [() => Promise<unknown>, string][] = [
      [() => client.push('q', 1, { delay: 'soon' }), 'delay'],
      [() => client.push('q', 1, { delay: -1 }), 'delay'],
      [() => client.push('q', 1, { dueAt: new Date(NaN) }), 'dueAt'],
      [() => client.push('', 1), 'queue'],
      [() => client.push('q', () => 1), 'payload'],
      [() => client.get(''), 'id'],
    ]
    const circle: unknown[] = []
    circle.push(circle)
    wrong.push([() => client.push('q', circle), 'payload'])
    for (const [call, field] of wrong) await assert.rejects(call(), (error) => error instanceof Invalid && error.code === 'invalid' && error.field === field)
    assert.throws(() => new Client('redis://x'), (error) => error instanceof Invalid && error.field === 'server')
  })

  it('has queues and schedules', async () => {
    await client.queues.set('set', { rate: { perSecond: 5, burst: 2 }, lease: 5_000, retention: { succeeded: '1h' }, maxAttempts: 2 })
    await client.queues.set('set', { maxAttempts: null })
    assert.deepEqual((await client.queues.get('set')).settings, { rate: { perSecond: 5, burst: 2 }, lease: '5s', retention: { succeeded: '1h' } })
    assert.equal((await client.queues.pause('set', { for: '1h' })).paused, true)
    assert.equal((await client.queues.resume('set')).paused, false)
    const names = []
    for await (const { queue } of client.queues.list()) names.push(queue)
    assert.ok(names.includes('set'))

    const nightly = { cron: '0 3 * * *', timeZone: 'Europe/Berlin', spread: 60_000, job: { queue: 'reports', payload: { format: 'pdf' } } }
    assert.equal((await client.schedules.set('nightly', nightly, { dryRun: true })).next.length, 10)
    await assert.rejects(client.schedules.get('nightly'), NotFound)
    await client.schedules.set('nightly', nightly)
    assert.equal((await client.schedules.pause('nightly')).schedule.paused, true)
    assert.equal((await client.schedules.resume('nightly')).schedule.timeZone, 'Europe/Berlin')
    assert.equal((await client.schedules.run('nightly')).queue, 'reports')
    assert.equal((await client.schedules.next('nightly', 3)).length, 3)
    for await (const { name, next } of client.schedules.list()) assert.ok(name === 'nightly' && next[0] instanceof Date)
    await client.schedules.delete('nightly')
  })

  it('holds a lock beyond its ttl, and lets the next have it', async () => {
    const first = await client.lock('stock', { ttl: 600 })
    await assert.rejects(client.lock('stock', { wait: 1_200 }), LockHeld)
    assert.equal(first.lost, false)
    await first.release()
    const second = await client.lock('stock', { ttl: '10s' })
    assert.ok(second.fence > first.fence)
    await second[Symbol.asyncDispose]()
    const third = await client.lock('stock')
    await third.release()
    await third.release()
  })

  it('keeps a lock while the program computes', async () => {
    const held = await client.lock('computes', { ttl: 500 })
    const end = performance.now() + 1_500
    while (performance.now() < end);
    assert.equal(held.lost, false)
    await assert.rejects(client.lock('computes'), LockHeld)
    await held.release()
  })

  it('tells when a lock is lost', async () => {
    const held = await client.lock('taken', { ttl: 300, owner: 'me' })
    await client.request('DELETE', '/v1/locks?owner=me')
    // Without the event loop: the thread tells it.
    const end = performance.now() + 20_000
    while (!held.lost && performance.now() < end);
    assert.equal(held.lost, true)
    if (!held.signal.aborted) await new Promise((resolve) => { held.signal.addEventListener('abort', resolve) })
    assert.match((held.signal.reason as Error).message, /^the lock taken is lost: /)
    await held.release()
  })

  it('streams events until the loop is left', async () => {
    const seen: JobEvent[] = []
    for await (const event of client.events({ queue: 'watched', what: ['pushed', 'cancelled'] })) {
      seen.push(event)
      if (event.type === 'subscribed') await client.push('watched', 1, { key: 'k' })
      if (event.type === 'pushed') await client.cancelByKey('watched', 'k')
      if (event.type === 'cancelled') break
    }
    assert.deepEqual(seen.map(({ type }) => type), ['subscribed', 'pushed', 'cancelled'])
    for await (const { type } of client.events({ queue: 'watched', every: 100 })) {
      if (type === 'subscribed') await client.push('watched', 1)
      else assert.equal(type, 'activity')
      if (type === 'activity') break
    }
    const stop = new AbortController()
    for await (const event of client.events({ signal: stop.signal })) {
      assert.equal(event.type, 'subscribed')
      stop.abort()
    }
    await assert.rejects(client.events({ queue: 'no queue' }).next(), Invalid)
  })
})

it('trusts the certificate authority that it is given', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'duetime-'))
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const words = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1', '-subj', '/CN=duetime', '-addext', 'subjectAltName=IP:127.0.0.1']
  execFileSync('openssl', [...words, '-out', cert, '-keyout', key], { stdio: 'ignore' })
  await using server = await startServer('--tls-cert', cert, '--tls-key', key)
  assert.ok(server.url.startsWith('https:'))
  const client = new Client(server.url, { ca: cert })
  await client.push('secret', 1)
  assert.equal(await new Worker(client, { queues: 'secret', logger: null }).handle('*', () => undefined).drain(), 1)
  await (await client.lock('secret')).release()
  await assert.rejects(new Client(server.url, { pushDeadline: 500 }).push('secret', 1), (error) => error instanceof Unavailable && /CERT|SELF_SIGNED/.test(error.detail))
  assert.throws(() => new Client(server.url, { ca: '/no/such.pem' }), (error) => error instanceof Invalid && error.field === 'ca')
  await client.close()
})
