/** A private server, in memory, with a clock that the test moves. */

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Client } from '../client.js'
import type { Duration } from '../types.js'
import { duration } from '../wire.js'

const ADVANCE_MS = 60_000

/** A server for one test, with a client and a clock that it moves. See `startServer`. */
export class TestServer implements AsyncDisposable {
  readonly url: string
  /** A client of this server. */
  readonly client: Client
  readonly #child: ChildProcess

  /** @internal */
  constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.url = url
    this.client = new Client(url, { token: '' })
  }

  /**
   * Moves the server's clock forward: jobs become due, schedules push, leases end, each at its instant. Returns the new time.
   * Resolves once what became due can be reserved.
   */
  async advance(by: Duration): Promise<Date> {
    // One try takes all the time that there is: a second one would move the clock again.
    const client = new Client(this.url, { token: '', timeout: ADVANCE_MS, deadline: ADVANCE_MS })
    const { now } = (await client.request('POST', '/v1/clock/advance', { by: duration(by, 'by') })) as { now: string }
    await client.close()
    return new Date(now)
  }

  /** Ends the server. */
  async stop(): Promise<void> {
    await this.client.close()
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.ref()
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }

  /** Ends the server. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }
}

/**
 * Starts `duetime serve --test` on a free port. With the context of a `node:test`, the server ends with the test. `binary` is
 * `DUETIME_BIN`, or `duetime` on the PATH, by default. Throws if it does not start.
 */
export async function startServer(context?: { after(end: () => Promise<void>): void }, binary = process.env['DUETIME_BIN'] ?? 'duetime'): Promise<TestServer> {
  // It ends when its standard input does: with this process, however that ends.
  const child = spawn(binary, ['serve', '--test'], { stdio: ['pipe', 'pipe', 'pipe'] })
  let said = ''
  child.stderr.on('data', (part: Buffer) => (said = (said + part.toString()).slice(-2_000)))
  const failed = new Promise<never>((_, reject) => {
    child.once('error', (error) => { reject(new Error(`expected ${binary} to start; set DUETIME_BIN to the program`, { cause: error })) })
    child.once('close', (code) => { reject(new Error(`${binary} has ended with code ${code ?? 'none'} before it listened: ${said}`)) })
  })
  const lines = createInterface(child.stdout)
  const [line] = (await Promise.race([once(lines, 'line'), failed])) as [string]
  failed.catch(() => undefined)
  lines.close()
  child.stdout.resume()
  // The test may end without stopping it.
  child.unref()
  for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as unknown as { unref?: () => void }).unref?.()
  const server = new TestServer(child, line.trim())
  context?.after(() => server.stop())
  return server
}
