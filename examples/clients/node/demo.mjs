#!/usr/bin/env node
// A demo of the client: `demo.mjs push`, then `demo.mjs work` (until SIGTERM), `demo.mjs lock`.
//
//     DUETIME_SERVER=http://127.0.0.1:7300 node demo.mjs push

import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Final, Problem, work } from './duetime.mjs'

const QUEUE = 'demo-node'
const client = new Client()

async function push() {
  const mail = { kind: 'mail.welcome', payload: { to: 'Zoë' }, delay: '200ms', key: 'welcome-1', tags: ['demo', 'user:1'] }
  console.log('welcome', (await client.push(QUEUE, mail)).outcome)
  // The same key again: there is still one job.
  console.log('welcome again', (await client.push(QUEUE, mail)).outcome)
  await client.push(QUEUE, { kind: 'mail.broken', payload: { to: 'nobody' }, tags: ['demo'] })
  await client.push(QUEUE, { kind: 'report', payload: { seconds: 6 }, tags: ['demo'] })
  const reminder = await client.push(QUEUE, { kind: 'mail.reminder', payload: {}, delay: '1h', tags: ['demo'] })
  console.log('reminder', await client.cancel(reminder.id))
  await refused(() => client.push(QUEUE, { payload: 1, delay: 'soon' }))
}

async function refused(call) {
  try {
    await call()
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem
    console.log('refused', problem.code, problem.status)
  }
}

async function handle(job, lost) {
  console.log(`${job.kind}, attempt ${job.attempt}: ${JSON.stringify(job.payload)}`)
  if (job.kind === 'mail.broken') throw new Final('there is no such address')
  // Longer than the lease, which is extended meanwhile. Ends when the lease is lost.
  if (job.kind === 'report') await sleep(job.payload.seconds * 1000, undefined, { signal: lost })
  return { done: job.kind }
}

async function lock() {
  const [owner, other] = [`demo-${process.pid}`, `other-${process.pid}`]
  const { fence } = await client.lock('demo-node', owner, { ttl: '10s', wait: '5s' })
  console.log('renewed', (await client.lock('demo-node', owner, { ttl: '10s', fence })).fence === fence)
  await refused(() => client.lock('demo-node', other))
  await client.unlock('demo-node', owner, fence)
  // Store the fence with what you write under a lock, so that a late holder can be refused.
  const next = await client.lock('demo-node', other)
  console.log('fence grows', next.fence > fence)
  await client.unlock('demo-node', other, next.fence)
}

async function untilStopped() {
  const stop = new AbortController()
  for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => stop.abort())
  await work(client, QUEUE, handle, stop.signal, { seconds: 5 })
  console.log('stopped')
}

const programs = { push, work: untilStopped, lock }
const program = programs[process.argv[2]]
if (!program) {
  console.error('usage: demo.mjs push | work | lock')
  process.exit(1)
}
try {
  await program()
} catch (problem) {
  if (!(problem instanceof Problem)) throw problem
  console.error(problem.message)
  process.exitCode = 1
}
