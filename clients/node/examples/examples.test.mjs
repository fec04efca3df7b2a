import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { Client } from 'duetime'
import { FakeClient, startServer } from 'duetime/testing'
import { orderWorker, shop } from './express.mjs'

const call = async (url, method = 'GET') => {
  const response = await fetch(url, { method })
  return [response.status, await response.json()]
}

/** Starts an example; the first line that it prints is its address. */
async function start(file, duetime) {
  const child = spawn(process.execPath, [file], { env: { ...process.env, PORT: '0', DUETIME_SERVER: duetime }, stdio: ['ignore', 'pipe', 'inherit'] })
  const [url] = await once(createInterface(child.stdout), 'line')
  return { url: url.replace('[::1]', '127.0.0.1'), child }
}

for (const file of ['express.mjs', 'build/nest.js']) {
  test(`${file} cancels an order that is not paid`, async (t) => {
    const server = await startServer(t)
    const { url, child } = await start(new URL(file, import.meta.url).pathname, server.url)
    t.after(() => child.kill('SIGKILL'))
    assert.equal((await call(`${url}/orders/1`, 'POST'))[0], 201)
    assert.equal((await call(`${url}/orders/2`, 'POST'))[0], 201)
    assert.deepEqual(await call(`${url}/orders/1/payment`, 'POST'), [200, { order: '1', state: 'paid' }])
    const job = await server.client.find('orders', 'order-2')
    await server.advance('30m')
    assert.equal((await server.client.wait(job.id)).state, 'succeeded')
    assert.deepEqual(await call(`${url}/orders/1`), [200, { order: '1', state: 'paid' }])
    assert.deepEqual(await call(`${url}/orders/2`), [200, { order: '2', state: 'cancelled' }])
    child.kill('SIGTERM')
    const [code] = await once(child, 'exit')
    assert.ok(code === 0 || code === null)
  })
}

test('the routes of express.mjs need no server in a unit test', async (t) => {
  const [client, orders] = [new FakeClient(), new Map()]
  const server = shop(client, orders).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const url = `http://127.0.0.1:${server.address().port}/orders/7`
  assert.equal((await call(url, 'POST'))[0], 201)
  assert.equal((await call(url, 'POST'))[0], 201)
  assert.deepEqual(client.pushed.map(({ key, kind }) => [key, kind]), [['order-7', 'order.cancel']])
  client.advance('30m')
  const worker = orderWorker(new Client(), orders)
  assert.deepEqual((await client.work(worker)).map(({ result }) => result), ['cancelled'])
  assert.deepEqual(await call(`${url}/payment`, 'POST'), [409, { order: '7', state: 'cancelled' }])
  server.closeAllConnections()
})
