import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { after, before, describe, it } from 'node:test'
import { Client, Fatal, Invalid, NotFound, Park, Release, RetryAfter, Unauthorized, Worker, type RunningJob, type Schema, type WorkerOptions } from 'duetime'
import { answer, playServer, runUntil, startServer } from './server.js'

describe('a worker of a real server', () => {
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

  it('reports what became of each job', async () => {
    const kinds: Record<string, (job: RunningJob) => unknown> = {
      value: () => ({ large: 9007199254740993n }),
      nothing: () => undefined,
      bytes: () => new Uint8Array([0xff]),
      error: () => { throw new Error('half \ud800') },
      odd: () => Promise.reject(Object.create(null) as Error),
      long: () => { throw new Error('ü'.repeat(100_000)) },
      fatal: () => { throw new Fatal('no such address') },
      later: () => { throw new RetryAfter('1h', 'busy') },
      wrong: () => { throw new RetryAfter('soon', 'busy') },
      back: () => { throw new Release(3_600_000, { priority: 9 }) },
      park: () => { throw new Park('the address is to be checked', { priority: 7 }) },
      odd_park: () => { throw new Park('by hand', { priority: -1 }) },
      function: () => () => 1,
      number: () => [{ n: 1n, none: NaN }],
      large: () => 'x'.repeat(2 << 20),
      huge: () => 'x'.repeat(5 << 20),
    }
    const it = worker('outcomes')
    for (const [kind, handler] of Object.entries(kinds)) it.handle(kind, handler)
    const pushed = new Map<string, string>()
    for (const kind of [...Object.keys(kinds), 'unknown']) pushed.set(kind, (await client.push('outcomes', 1, { kind })).id)
    assert.equal(await it.drain(), pushed.size)
    const seen: Record<string, unknown> = {}
    for (const [kind, id] of pushed) {
      const { state, result, message, attempt } = await client.get(id)
      seen[kind] = [state, attempt, result ?? message]
    }
    const long = (seen['long'] as string[]).pop() ?? ''
    assert.ok(long.startsWith('üüü') && long.endsWith('… (200000 bytes)'))
    assert.deepEqual(seen, {
      value: ['succeeded', 1, { large: 9007199254740993n }],
      nothing: ['succeeded', 1, undefined],
      bytes: ['succeeded', 1, new Uint8Array([0xff])],
      error: ['scheduled', 1, 'half \ufffd'],
      odd: ['scheduled', 1, 'an error that cannot be shown'],
      long: ['scheduled', 1],
      fatal: ['failed', 1, 'no such address'],
      later: ['scheduled', 1, 'busy'],
      wrong: ['scheduled', 1, 'busy (invalid: `delay` must be a duration such as "250ms", "30s", "15m" or "1h30m", got "soon")'],
      back: ['scheduled', 0, undefined],
      park: ['failed', 1, 'the address is to be checked'],
      odd_park: ['scheduled', 1, 'the outcome was refused: `park.priority` must be a whole number from 0 to 4294967295, got the number -1'],
      function: ['failed', 1, 'invalid: `result` must be a value that JSON has, got a function'],
      number: ['failed', 1, 'invalid: `result` must be a value that JSON has, got NaN'],
      large: ['failed', 1, 'the outcome was refused: `result` must be at most 1048576 bytes, got 2097154'],
      huge: ['failed', 1, 'the result was not sent: expected at most 1 MiB, got 5242891 characters'],
      unknown: ['scheduled', 0, undefined],
    })
    for (const [kind, priority] of [['back', 9], ['park', 7]] as const) assert.equal((await client.get(pushed.get(kind) ?? '')).priority, priority)
    assert.deepEqual(it.health(), { state: 'stopped', isReachable: true, running: 0, ended: 17, failed: 11 })
  })

  it('tells a handler of a cancel', async () => {
    const { id } = await client.push('cancels', 1)
    const it = worker('cancels', { lease: '1s' })
    it.handle('*', async (job) => {
      assert.equal(await client.cancel(id), 'cancel_requested')
      await new Promise((_, reject) => { job.signal.addEventListener('abort', () => { reject(job.signal.reason as Error) }) })
    })
    assert.equal((await runUntil(client, it, id)).state, 'cancelled')
  })

  it('checks payloads, and passes on what the schema made of them', async () => {
    const schema: Schema<{ order: number }> = {
      '~standard': {
        validate: (value) => {
          const order = Number((value as { order: unknown }).order)
          return Number.isNaN(order) ? { issues: [{ message: 'expected a number', path: ['order'] }] } : { value: { order } }
        },
      },
    }
    const it = worker('schemas').handle('default', { schema }, (job) => job.payload.order + 1)
    const [good, bad] = [await client.push('schemas', { order: '7' }), await client.push('schemas', { order: 'seven' })]
    await it.drain()
    assert.equal((await client.get(good.id)).result, 8)
    const { state, message } = await client.get(bad.id)
    assert.deepEqual([state, message], ['failed', '`payload.order`: expected a number'])
  })

  it('runs code around handlers, pushes other jobs once, and passes on the trace', async () => {
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const steps: string[] = []
    const it = worker('around')
      .use(async (job, next) => {
        steps.push(`before ${job.kind}`)
        const result = await next()
        steps.push('after')
        return [result]
      })
      .use((_, next) => next())
      .handle('default', async (job) => {
        const ids = [await job.push('pushed', 1), await job.push('pushed', 2)].map((pushed) => pushed.id)
        const other = await client.push('pushed', 3)
        if (job.attempt === 1) throw new RetryAfter(0)
        return [...ids, (await client.get(other.id)).trace]
      })
    const { id } = await client.push('around', 1, { trace })
    await it.drain()
    const { result } = await client.get<unknown, [string[]]>(id)
    assert.deepEqual(steps, ['before default', 'before default', 'after'])
    assert.equal(result?.[0][2], trace)
    // Two by the job's own order, and one for each run.
    assert.equal((await client.queues.get('pushed')).ready, 4)
  })

  it('serves queues in order, or by weight', async () => {
    const order = async (queues: WorkerOptions['queues']): Promise<string[]> => {
      await client.pushMany(Array.from({ length: 40 }, () => ['low', 'high'].map((queue) => ({ queue, payload: 1 }))).flat())
      const seen: string[] = []
      await worker(queues, { concurrency: 1 }).handle('*', (job) => void seen.push(job.queue)).drain()
      return seen
    }
    assert.deepEqual(new Set((await order(['high', 'low'])).slice(0, 40)), new Set(['high']))
    const first = (await order({ high: 3, low: 1 })).slice(0, 20)
    assert.ok(first.includes('low') && first.includes('high'), first.join())
  })

  it('runs as many handlers at once as it may', async () => {
    let [now, most] = [0, 0]
    await client.pushMany(Array.from({ length: 30 }, (_, payload) => ({ queue: 'many', payload })))
    const it = worker('many', { concurrency: 4 }).handle('*', async () => {
      most = Math.max(most, ++now)
      await new Promise((resolve) => setImmediate(resolve))
      now -= 1
    })
    assert.equal(await it.drain(), 30)
    assert.equal(most, 4)
  })

  it('gives back what has not ended when it stops, and tells its health', async () => {
    const healthFile = join(mkdtempSync(join(tmpdir(), 'duetime-')), 'health')
    const it = worker('stops', { healthFile, name: 'stopper' })
    let reason: unknown
    const started = new Promise<RunningJob>((resolve) => {
      it.handle('*', async (job) => {
        resolve(job)
        job.signal.addEventListener('abort', () => { reason = job.signal.reason })
        await new Promise(() => undefined)
      })
    })
    const { id } = await client.push('stops', 1)
    const running = it.run({ signals: false })
    await started
    assert.equal(it.health().running, 1)
    const { workers } = (await client.request('GET', '/v1/workers')) as { workers: { worker: string; held: number }[] }
    assert.deepEqual(workers.filter(({ worker }) => worker === 'stopper').map(({ held }) => held), [1])
    await it.stop({ deadline: 10 })
    await running
    assert.equal((reason as Error).name, 'Stopping')
    const { state, attempt, releases } = await client.get(id)
    assert.deepEqual([state, attempt, releases], ['ready', 0, 1])
    assert.equal((JSON.parse(readFileSync(healthFile, 'utf8')) as { state: string }).state, 'running')
  })

  it('ends the process with 0 when it is told to stop, although a handler hangs', async () => {
    await client.push('hangs', 1)
    const program = `
      const { Client, Worker } = require(${JSON.stringify(join(__dirname, '../../dist/index.js'))})
      const worker = new Worker(new Client(${JSON.stringify(server.url)}), { queues: 'hangs', stopDeadline: 50, logger: null })
      worker.handle('*', () => new Promise(() => { setInterval(() => 0, 1000); process.kill(process.pid, 'SIGTERM') }))
      worker.run().then(() => console.log('cleaned up'))`
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', program])
    assert.equal(stdout, 'cleaned up\n')
    assert.equal((await client.queues.get('hangs')).ready, 1)
  })

  it('says that its process ends', async () => {
    await client.push('exits', 1)
    const program = `
      const { Client, Worker } = require(${JSON.stringify(join(__dirname, '../../dist/index.js'))})
      const worker = new Worker(new Client(${JSON.stringify(server.url)}), { queues: 'exits' }).handle('*', () => process.exit(3))
      worker.run()`
    await assert.rejects(promisify(execFile)(process.execPath, ['-e', program]), (error: { code?: number; stderr?: string }) =>
      error.code === 3 && error.stderr?.includes('the process ends while 1 handlers run') === true)
  })

  it('refuses wrong options, and a server that refuses it', async () => {
    assert.throws(() => worker([]), Invalid)
    assert.throws(() => worker({ a: -1 }), Invalid)
    assert.throws(() => worker('q', { concurrency: 0 }), Invalid)
    await assert.rejects(worker('no queue').run({ signals: false }), (error) => error instanceof Invalid && error.field === 'queue')
    await using locked = await playServer(answer(401, { code: 'unauthorized', status: 401, detail: '…' }))
    await assert.rejects(new Worker(new Client(locked.url), { queues: 'q', logger: null }).run({ signals: false }), Unauthorized)
    await assert.rejects(client.get('1'), NotFound)
  })
})

it('says once that the server is away, and once that it is back, and settles what it has', async () => {
  const lease = { receipt: '7.1', id: '7', queue: 'q', kind: 'default', payload: 1, attempt: 1, lease: '60s', due_at: '2027-01-01T00:00:00Z', created_at: '2027-01-01T00:00:00Z' }
  const page = answer(502, '<html>')
  const settled = answer(200, [{ receipt: '7.1', state: 'succeeded' }])
  const none = answer(200, { leases: [] })
  // Each request by what it asks; the settle is lost twice.
  let settles = 0
  await using server = await playServer((response) => {
    const last = server.received.at(-1)
    const reserves = server.received.filter(({ url }) => url === '/v1/reserve').length
    if (last?.url === '/v1/settle') ([page, answer(403, '<html>'), answer(200, '[null]')][settles++] ?? settled)(response)
    else if (reserves <= 2) page(response)
    else if (reserves === 3) answer(200, { leases: [lease] })(response)
    else if (reserves === 4) answer(200, '{"leases": {"a": 7}}')(response)
    else if (reserves === 5) answer(401, '<html>')(response)
    else if (settles < 4) setTimeout(() => { none(response) }, 50)
    else none(response)
  })
  const lines: string[] = []
  const log = (text: string): void => void lines.push(text)
  const worker = new Worker(new Client(server.url), { queues: 'q', concurrency: 2, logger: { info: log, warn: log, error: log } })
  worker.handle('*', () => 'done')
  const running = worker.run({ signals: false })
  while (settles < 4) await new Promise((resolve) => setImmediate(resolve))
  await worker.stop()
  await running
  assert.deepEqual(lines.map((line) => line.split(/[,:] /).slice(0, 2).join()), [
    'duetime,working on q',
    'duetime,the server does not answer as it should', 'duetime,the server answers again', 'duetime,the server does not answer as it should', 'duetime,the server answers again',
  ])
  const bodies = server.received.filter(({ url }) => url === '/v1/settle').map(({ body }) => body)
  assert.deepEqual(new Set(bodies), new Set(['[{"receipt":"7.1","complete":{"result":"done"}}]']))
  const reserves = server.received.filter(({ url }) => url === '/v1/reserve').map(({ body }) => JSON.parse(body) as { request_id: string; worker: string; limit: number })
  assert.equal(reserves[0]?.request_id, reserves[2]?.request_id)
  assert.ok((reserves[0]?.worker.length ?? 0) > 0)
  // No more than are free.
  assert.ok(reserves.every(({ limit }) => limit <= 2))
})
