/** Servers of the tests: a real one, and one that answers as a test says. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once as onceOf } from 'node:events'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import type { Client, Job, State, Worker } from 'duetime'

const BIN = process.env['DUETIME_BIN'] ?? 'duetime'

/** A private server in memory, from `DUETIME_BIN` or the PATH. */
export async function startServer(...options: string[]): Promise<{ url: string } & AsyncDisposable> {
  const child = spawn(BIN, ['serve', '--store', 'memory', '--listen', '127.0.0.1:0', ...options], { stdio: ['ignore', 'pipe', 'ignore'] })
  for await (const line of createInterface(child.stdout)) {
    const url = /https?:\/\/[0-9.:]+/.exec(line)?.[0]
    if (url === undefined) continue
    child.stdout.resume()
    return {
      url,
      async [Symbol.asyncDispose]() {
        child.kill('SIGKILL')
        await onceOf(child, 'exit')
      },
    }
  }
  throw new Error('the server has ended before it listened')
}

export interface Received {
  method: string
  url: string
  headers: http.IncomingHttpHeaders
  body: string
}

/** Answers the nth request with the nth of these, and all later ones with the last. */
export type Script = ((response: http.ServerResponse) => void)[]

/** A server that plays a script; `received` has its requests. */
export async function playServer(...script: Script): Promise<{ url: string; received: Received[] } & AsyncDisposable> {
  const received: Received[] = []
  const server = http.createServer((request, response) => {
    let body = ''
    request.on('data', (part: Buffer) => (body += part.toString()))
    request.on('end', () => {
      received.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body })
      script[Math.min(received.length, script.length) - 1]?.(response)
    })
  })
  server.listen(0, '127.0.0.1')
  await onceOf(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await onceOf(server, 'close')
    },
  }
}

export function answer(status: number, body: unknown, headers: http.OutgoingHttpHeaders = {}): Script[number] {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
}

export const cut: Script[number] = (response) => void response.socket?.destroy()
export const hang: Script[number] = () => undefined
/** Half of a body. */
export const half: Script[number] = (response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 })
  response.write('{"id": "1", ')
  setImmediate(() => response.socket?.destroy())
}

/** How long a job may take: less than a test, so that what became of it is said. */
const ONCE_MS = 40_000

/** The job once it is in one of these states, as a stream of events tells. */
export async function once(client: Client, id: string, ...states: State[]): Promise<Job> {
  for await (const event of client.events({ signal: AbortSignal.timeout(ONCE_MS) })) {
    const job = await client.get(id)
    if (states.includes(job.state)) return job
    assert.ok(event.type !== 'lost')
  }
  const { state, attempt, crashes, message } = await client.get(id)
  throw new Error(`expected job ${id} to be ${states.join(' or ')} by now, found ${JSON.stringify({ state, attempt, crashes, message })}`)
}

/** Runs the worker until this job has ended. */
export async function runUntil(client: Client, worker: Worker, id: string): Promise<Job> {
  const running = worker.run({ signals: false })
  const job = await once(client, id, 'succeeded', 'failed', 'cancelled')
  await worker.stop()
  await running
  return job
}
