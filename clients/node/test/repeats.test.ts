import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Aborted, Client, Conflict, Forbidden, Invalid, Protocol, RateLimited, Unauthorized, Unavailable } from 'duetime'
import { answer, cut, half, hang, playServer } from './server.js'

const pushed = { id: '7', queue: 'q', state: 'ready', due_at: '2027-01-01T00:00:00.000Z', outcome: 'created' }
const refused = (code: string, status: number, more: object = {}) => answer(status, { code, status, detail: '…', ...more })

it('repeats a push with the same origin until it is answered', async () => {
  await using server = await playServer(
    cut, half, answer(200, '<html>hello'), answer(503, ''), answer(502, '<html>bad gateway'), refused('stopping', 503), answer(201, pushed))
  const client = new Client(server.url, { pushDeadline: '60s' })
  assert.equal((await client.push('q', 1)).id, '7')
  const bodies = new Set(server.received.map(({ body }) => body))
  assert.deepEqual([server.received.length, bodies.size], [7, 1])
  assert.match([...bodies].join(), /"origin":"[0-9a-f-]+-1"/)
})

it('gives up at the deadline, with the error of the last try', async () => {
  await using server = await playServer(hang)
  const client = new Client(server.url, { timeout: 100, pushDeadline: 1_000 })
  await assert.rejects(client.push('q', 1), (error) => error instanceof Unavailable && error.code === 'timed_out')
  assert.ok(server.received.length >= 2)
  await assert.rejects(new Client('http://127.0.0.1:9', { deadline: 1_000 }).get('1'), (error) => error instanceof Unavailable && error.code === 'unreachable')
  await using pages = await playServer(answer(200, '<html>'))
  await assert.rejects(new Client(pages.url, { deadline: 1_000 }).get('1'), (error) => error instanceof Protocol && error.message.includes('<html>'))
})

it('does not repeat what a repeat does not help', async () => {
  for (const [script, type] of [
    [refused('unauthorized', 401), Unauthorized], [answer(401, '<html>'), Unauthorized], [refused('forbidden', 403), Forbidden], [refused('invalid', 400), Invalid],
    [refused('a_code_of_tomorrow', 400), Invalid], [refused('store_full', 507), Unavailable],
  ] as const) {
    await using server = await playServer(script)
    await assert.rejects(new Client(server.url).push('q', 1), type)
    assert.equal(server.received.length, 1)
  }
})

it('waits as long as it was told, unless the deadline is nearer', async () => {
  await using server = await playServer(refused('too_many_requests', 429, { retry_after: '250ms' }), answer(201, pushed))
  const start = performance.now()
  await new Client(server.url).push('q', 1)
  assert.ok(performance.now() - start >= 240)
  await using slow = await playServer(answer(429, '', { 'retry-after': '60' }))
  await assert.rejects(new Client(slow.url).push('q', 1), RateLimited)
  assert.equal(slow.received.length, 1)
})

it('tries several servers in turn', async () => {
  await using server = await playServer(answer(201, pushed))
  const client = new Client(`http://127.0.0.1:9, ${server.url}`)
  await client.push('q', 1)
  await client.push('q', 2)
  assert.equal(server.received.length, 2)
})

it('knows what a lost answer said', async () => {
  const none = answer(200, {})
  const job = { id: '7', queue: 'q', state: 'cancelled', updated_at: new Date().toISOString() }
  const [old, page] = [{ ...job, updated_at: '2020-01-01T00:00:00.000Z' }, (...jobs: object[]) => answer(200, { jobs, next_cursor: null })]
  for (const [last, outcome] of [[page(job), 'cancelled'], [page(old), 'none'], [page(), 'none']] as const) {
    await using server = await playServer(cut, none, page(), last)
    assert.equal(await new Client(server.url).cancelByKey('q', 'k'), outcome)
  }
  await using cancel = await playServer(cut, answer(200, { outcome: 'already_finished' }), answer(200, job))
  assert.equal(await new Client(cancel.url).cancel('7'), 'cancelled')
  await using retry = await playServer(cut, refused('job_live', 409), answer(200, job))
  assert.equal((await new Client(retry.url).retry('7')).id, '7')
  await using gone = await playServer(cut, refused('not_found', 404))
  await new Client(gone.url).delete('7')
})

it('does not know who changed a version after a lost answer', async () => {
  const mismatch = refused('version_mismatch', 412)
  await using server = await playServer(cut, mismatch)
  await assert.rejects(new Client(server.url).cancel('7', { ifVersion: 3 }), (error) => error instanceof Unavailable && error.code === 'unreachable')
  assert.deepEqual(server.received.map(({ headers }) => headers['if-match']), ['"3"', '"3"'])
  await using later = await playServer(refused('too_many_requests', 429, { retry_after: '1ms' }), mismatch)
  await assert.rejects(new Client(`http://127.0.0.1:9, ${later.url}`).cancel('7', { ifVersion: 3 }), Conflict)
})

it('takes what is not what it asked for as an error of the protocol', async () => {
  for (const body of ['null', '7', '{"jobs": 7, "queues": {}}']) {
    await using server = await playServer(answer(200, body))
    // It is asked again until then, and the last try must have time for an answer.
    const client = new Client(server.url, { deadline: 2_000 })
    await Promise.all([client.jobs(), client.queues.list(), client.schedules.list()].map((list) => assert.rejects(list.next(), Protocol)))
  }
})

it('says that a push was recorded, although the answer was lost', async () => {
  const repeated = answer(200, { ...pushed, outcome: 'repeated' })
  for (const [origin, outcome] of [[undefined, 'created'], ['mine', 'repeated']] as const) {
    await using server = await playServer(cut, repeated)
    assert.equal((await new Client(server.url).push('q', 1, { origin })).outcome, outcome)
  }
})

it('does not mind a time to wait that is none', async () => {
  for (const after of ['-5', '1e999', 'Fri, 31 Dec 1999 23:59:59 GMT']) {
    await using server = await playServer(answer(503, '', { 'retry-after': after }), refused('stopping', 503, { retry_after: 'soon' }), answer(201, pushed))
    await new Client(server.url).push('q', 1)
  }
})

it('refuses a time that timers do not have', () => {
  assert.throws(() => new Client('http://a', { deadline: '25d' }), Invalid)
})

it('ends with its signal', async () => {
  await using server = await playServer(hang)
  const stop = new AbortController()
  const call = new Client(server.url).get('1', { signal: stop.signal })
  setTimeout(() => { stop.abort() }, 20)
  await assert.rejects(call, Aborted)
  await assert.rejects(new Client(server.url).get('1', { signal: stop.signal }), Aborted)
})

it('reads its environment, sends its token, and keeps its connection', async () => {
  await using server = await playServer(answer(200, { ...pushed }))
  process.env['DUETIME_SERVER'] = `${server.url}/`
  process.env['DUETIME_TOKEN'] = 'secret'
  const client = new Client()
  delete process.env['DUETIME_SERVER']
  delete process.env['DUETIME_TOKEN']
  await client.get('1')
  assert.equal(server.received[0]?.headers.authorization, 'Bearer secret')
  assert.equal(server.received[0].url, '/v1/jobs/1')
})
