// An unpaid order in Express: it is cancelled after 30 minutes, unless it is paid. `node express.mjs` serves and works in one
// process; in production the worker is often a process of its own.

import express from 'express'
import { once } from 'node:events'
import { pathToFileURL } from 'node:url'
import { Client, Worker } from 'duetime'

/** The routes. They only need a client, so a test can give them a `FakeClient`. */
export function shop(client, orders = new Map()) {
  const app = express()
  app.use(express.json())

  app.post('/orders/:id', async (request, response) => {
    const { id } = request.params
    orders.set(id, 'open')
    // The key finds the job again, and the origin makes a second request for the same order harmless.
    const options = { kind: 'order.cancel', key: `order-${id}`, origin: `placed-${id}`, delay: request.body?.delay ?? '30m' }
    const job = await client.push('orders', { order: id }, options)
    response.status(201).json({ order: id, cancelledAt: job.dueAt })
  })

  app.post('/orders/:id/payment', async (request, response) => {
    const { id } = request.params
    const outcome = await client.cancelByKey('orders', `order-${id}`)
    // `none`: too late, or there is no such order.
    if (outcome !== 'cancelled') return response.status(409).json({ order: id, state: orders.get(id) ?? 'unknown' })
    orders.set(id, 'paid')
    response.json({ order: id, state: 'paid' })
  })

  app.get('/orders/:id', (request, response) => {
    response.json({ order: request.params.id, state: orders.get(request.params.id) ?? 'unknown' })
  })
  return app
}

/** The worker. Handlers must be idempotent: a job runs at least once. */
export function orderWorker(client, orders, options = {}) {
  const worker = new Worker(client, { queues: 'orders', concurrency: 10, ...options })
  return worker.handle('order.cancel', (job) => {
    if (orders.get(job.payload.order) === 'open') orders.set(job.payload.order, 'cancelled')
    return orders.get(job.payload.order)
  })
}

/** Serves and works until SIGTERM or SIGINT. */
async function main() {
  const [client, orders] = [new Client(), new Map()]
  const server = shop(client, orders).listen(Number(process.env.PORT ?? 3000), '127.0.0.1')
  await once(server, 'listening')
  console.log(`http://127.0.0.1:${server.address().port}`)
  await orderWorker(client, orders).run()
  // No job runs any more.
  server.close()
  server.closeIdleConnections()
  await client.close()
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main()
