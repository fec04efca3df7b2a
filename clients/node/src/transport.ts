/**
 * Requests: one of several servers, over kept connections, repeated while a repeat may help and the deadline allows it.
 *
 * `node:http` instead of `fetch`: `fetch` takes neither an own CA nor a unix socket without a package. The caller sees to it
 * that a repeat is safe; `Answer.tries` tells it whether there was one.
 */

import { readFileSync } from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'
import { rootCertificates } from 'node:tls'
import { setTimeout as sleep } from 'node:timers/promises'
import { Aborted, DuetimeError, errorOf, invalid, messageOf, shown, type Problem } from './errors.js'
import { encode, Exact, parse } from './json.js'
import type { Duration } from './types.js'
import { milliseconds, timeOf } from './wire.js'

/** Options of a client, besides its server. */
export interface TransportOptions {
  /** The `DUETIME_TOKEN` of the environment by default. */
  token?: string | undefined
  /** Time for one try, beyond what the server was asked to wait; 5 s by default. */
  timeout?: Duration | undefined
  /** Time for a call with its repeats; 30 s by default. */
  deadline?: Duration | undefined
  /** Time for a push with its repeats; 10 s by default. */
  pushDeadline?: Duration | undefined
  /** A file with certificates (PEM) to trust besides those of Node. */
  ca?: string | undefined
}

/** A client's settings, as they are also handed to a thread. */
export interface Settings {
  servers: string[]
  token: string | undefined
  timeoutMs: number
  deadlineMs: number
  pushDeadlineMs: number
  ca: string | undefined
}

export interface Request {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  /** JSON. */
  body?: string | undefined
  headers?: Record<string, string> | undefined
  /** How long the server was asked to wait; added to the time-out. */
  waitMs?: number | undefined
  /** Less time for a try than the settings say. */
  timeoutMs?: number | undefined
  deadlineMs?: number | undefined
  /** Whether it is repeated; true by default. */
  repeats?: boolean | undefined
  signal?: AbortSignal | undefined
  /** Codes that in a repeat mean that an earlier try was done: they are answered with an empty body instead of thrown. */
  doneIf?: readonly string[] | undefined
}

export interface Answer {
  status: number
  /** Parsed; `undefined` without a body. */
  body: unknown
  text?: string
  headers: http.IncomingHttpHeaders
  /** How often it was sent. */
  tries: number
}

const BACKOFF_FIRST_MS = 100
const BACKOFF_MS_MAX = 5_000
// The server closes connections that were idle for 60 s.
const IDLE_MS_MAX = 50_000
// A try that has less time says nothing.
const TRY_MS_MIN = 20
// Without a connection.
const UNSENT = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOENT', 'ENOTFOUND', 'EAI_AGAIN'])
const PASSING = new Set([408, 429, 502, 503, 504])
// Proxies answer with these, too, and mean the same.
const SAID_BY_STATUS = new Set([401, 403, 413, 429])
// The server sends a comment every 15 s.
const STREAM_SILENCE_MS = 45_000

/** A random time around 100 ms, 200 ms, 400 ms … up to 5 s for this failure in a row, counted from 1. */
export function backoffMs(failures: number): number {
  return Math.min(BACKOFF_FIRST_MS * 2 ** (failures - 1), BACKOFF_MS_MAX) * (0.5 + Math.random() / 2)
}

/** How long to wait after this failure, the nth in a row: as the server asks, or longer. */
export function pauseAfter(error: DuetimeError, failures: number): number {
  let askedMs = 0
  try {
    askedMs = milliseconds(error.problem.retry_after ?? 0, 'retry_after')
  } catch {
    // A time that is none.
  }
  return Math.max(backoffMs(failures), askedMs)
}

/** Whether a repeat may help. */
export function passes(error: DuetimeError): boolean {
  return error.code === 'unreachable' || error.code === 'timed_out' || error.code === 'protocol' || PASSING.has(error.status)
}

/** Whether the server may have done what it was asked. */
function mayHaveHappened({ code, status, cause }: DuetimeError): boolean {
  return (code === 'unreachable' && !UNSENT.has((cause as NodeJS.ErrnoException).code ?? '')) || code === 'timed_out' || code === 'protocol' || status === 502 || status === 504
}

/** The settings of these options, and of `DUETIME_SERVER` and `DUETIME_TOKEN`. */
export function settingsOf(server: string | readonly string[] | undefined, options: TransportOptions): Settings {
  const given = server ?? process.env['DUETIME_SERVER'] ?? ''
  const listed = (typeof given === 'string' ? given.split(',') : given).map((one) => one.trim().replace(/\/+$/, '')).filter((one) => one !== '')
  const servers = listed.length > 0 ? listed : ['http://127.0.0.1:7300']
  for (const one of servers) {
    const isUrl = URL.canParse(one) && /^https?:$/.test(new URL(one).protocol)
    if (!isUrl && !/^unix:./.test(one)) throw invalid('server', 'a URL such as "http://127.0.0.1:7300", or "unix:/path"', shown(one))
  }
  const token = options.token ?? process.env['DUETIME_TOKEN']
  return {
    servers,
    token: token === '' ? undefined : token,
    timeoutMs: timeOf(options.timeout ?? 5_000, 'timeout'),
    deadlineMs: timeOf(options.deadline ?? 30_000, 'deadline'),
    pushDeadlineMs: timeOf(options.pushDeadline ?? 10_000, 'pushDeadline'),
    ca: options.ca,
  }
}

export class Transport {
  readonly #settings: Settings
  readonly #plain = new http.Agent({ keepAlive: true, timeout: IDLE_MS_MAX, scheduling: 'lifo' })
  readonly #secure: https.Agent
  /** The server that answered last. */
  #current = 0

  constructor(settings: Settings) {
    this.#settings = settings
    const trust = settings.ca === undefined ? {} : { ca: readCa(settings.ca) }
    this.#secure = new https.Agent({ keepAlive: true, timeout: IDLE_MS_MAX, scheduling: 'lifo', ...trust })
  }

  /** Sends a request until it is answered. Throws the error of its last try. */
  async call(request: Request): Promise<Answer> {
    const start = performance.now()
    const deadlineMs = request.deadlineMs ?? this.#settings.deadlineMs + (request.waitMs ?? 0)
    let lost: DuetimeError | undefined
    for (let tries = 1; ; tries++) {
      const leftMs = deadlineMs - (performance.now() - start)
      const tryMs = Math.min(Math.min(this.#settings.timeoutMs, request.timeoutMs ?? Infinity) + (request.waitMs ?? 0), request.repeats === false ? Infinity : Math.max(leftMs, 1))
      const server = this.#current
      try {
        return { ...(await this.#once(request, server, tryMs)), tries }
      } catch (error) {
        if (!(error instanceof DuetimeError) || error instanceof Aborted) throw error
        // Perhaps by the try whose answer was lost.
        if (lost !== undefined && error.code === 'version_mismatch') throw lost
        if (tries > 1 && request.doneIf?.includes(error.code) === true) return { status: error.status, body: undefined, headers: {}, tries }
        if (!passes(error)) throw error
        if (mayHaveHappened(error)) lost = error
        if (server === this.#current) this.#current = (server + 1) % this.#settings.servers.length
        const pauseMs = pauseAfter(error, tries)
        const hasTime = (pause: number): boolean => performance.now() - start + pause + TRY_MS_MIN < deadlineMs
        if (request.repeats === false || !hasTime(pauseMs)) throw error
        await sleep(pauseMs, undefined, { signal: request.signal }).catch(() => {
          throw aborted(request)
        })
        // On a busy machine a pause is longer.
        if (!hasTime(0)) throw error
      }
    }
  }

  /** Opens a stream on the current server; ends it with the signal. */
  async stream(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<http.IncomingMessage> {
    const name = this.#name(this.#current)
    const sent = this.#send({ method: 'GET', path, headers }, name)
    const stop = (): void => void sent.destroy()
    signal.addEventListener('abort', stop, { once: true })
    sent.on('close', () => { signal.removeEventListener('abort', stop) })
    sent.setTimeout(STREAM_SILENCE_MS, stop)
    try {
      const response = await answered(sent)
      if (response.statusCode === 200) return response
      throw refusal(response, await read(response), name)
    } catch (error) {
      if (error instanceof DuetimeError) throw error
      throw unreachable(name, error)
    }
  }

  /** The next call goes to the next server. */
  nextServer(): void {
    this.#current = (this.#current + 1) % this.#settings.servers.length
  }

  /** Closes the connections that are idle. */
  close(): void {
    this.#plain.destroy()
    this.#secure.destroy()
  }

  async #once(request: Request, server: number, timeoutMs: number): Promise<Omit<Answer, 'tries'>> {
    if (request.signal?.aborted === true) throw aborted(request)
    const name = this.#name(server)
    const sent = this.#send(request, name)
    let ended: DuetimeError | undefined
    const end = (why: DuetimeError): void => {
      ended ??= why
      sent.destroy(why)
    }
    const timer = setTimeout(() => { end(timedOut(name, timeoutMs)) }, timeoutMs)
    const stop = (): void => { end(aborted(request)) }
    request.signal?.addEventListener('abort', stop, { once: true })
    let response: http.IncomingMessage | undefined
    let text: string
    try {
      response = await answered(sent)
      text = await read(response)
    } catch (error) {
      if (ended !== undefined) throw ended
      if (response === undefined) throw unreachable(name, error)
      throw protocol(`${name} sent half an answer: ${messageOf(error)}`, response.statusCode ?? 0, error)
    } finally {
      clearTimeout(timer)
      request.signal?.removeEventListener('abort', stop)
    }
    const status = response.statusCode ?? 0
    if (status >= 300) throw refusal(response, text, name)
    const { headers } = response
    return { status, headers, text, body: status === 204 ? undefined : document(text, status, name) }
  }

  #send(request: Request, name: string): http.ClientRequest {
    const isSecure = name.startsWith('https:')
    const headers: Record<string, string | number> = { accept: 'application/json', ...request.headers }
    if (this.#settings.token !== undefined) headers['authorization'] = `Bearer ${this.#settings.token}`
    if (request.body !== undefined) {
      headers['content-type'] = 'application/json'
      headers['content-length'] = Buffer.byteLength(request.body)
    }
    const options: https.RequestOptions = { method: request.method, headers, agent: isSecure ? this.#secure : this.#plain, ...addressOf(name, request.path) }
    const sent = (isSecure ? https : http).request(options)
    sent.end(request.body)
    return sent
  }

  #name(server: number): string {
    return this.#settings.servers[server] ?? ''
  }
}

/** Where to, and what for. Not as a URL, in which a name such as `..` would go up a step. */
function addressOf(server: string, path: string): https.RequestOptions {
  if (server.startsWith('unix:')) return { host: 'localhost', socketPath: server.slice('unix:'.length), path }
  const { hostname, port, pathname } = new URL(server)
  return { host: hostname.replace(/^\[(.*)\]$/, '$1'), port, path: pathname.replace(/\/$/, '') + path }
}

function readCa(file: string): string[] {
  try {
    // Given a CA, Node trusts no other.
    return [...rootCertificates, readFileSync(file, 'utf8')]
  } catch (error) {
    throw invalid('ca', 'a readable file of certificates', messageOf(error), error)
  }
}

function answered(sent: http.ClientRequest): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.on('response', resolve)
    // Also later: a connection may break while the answer is read.
    sent.on('error', reject)
    sent.on('close', () => { reject(new Error('the connection was closed')) })
  })
}

function read(response: http.IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    response.on('data', (part: Buffer) => void parts.push(part))
    response.on('end', () => { resolve(Buffer.concat(parts).toString()) })
    response.on('error', reject)
    response.on('close', () => { reject(new Error('the connection was closed')) })
  })
}

function document(text: string, status: number, name: string): object {
  let document: unknown
  try {
    document = parse(text)
  } catch (error) {
    throw protocol(`${name} sent no JSON, but ${shown(text)}`, status, error)
  }
  if (typeof document !== 'object' || document === null) throw protocol(`${name} sent no object, but ${shown(text)}`, status, undefined)
  return document
}

/** The answer as the text that came; that of the fake client has none. */
export function exactOf({ text, body }: Pick<Answer, 'text' | 'body'>): Exact {
  return new Exact(() => text ?? encode(body, 'answer'))
}

/** The error for an answer that lacks something. */
export function odd({ status, text = '' }: Answer, expected: string): DuetimeError {
  return protocol(`expected ${expected} in the answer, got ${shown(text)}`, status, undefined)
}

/** What an answer of status 300 or more says. */
function refusal(response: http.IncomingMessage, text: string, name: string): DuetimeError {
  const status = response.statusCode ?? 0
  const requestId = response.headers['request-id'] as string | undefined
  const seconds = Number(response.headers['retry-after'])
  const later = seconds > 0 && seconds < Infinity ? { retry_after: `${Math.ceil(seconds)}s` } : {}
  const isPage = !SAID_BY_STATUS.has(status) && text !== ''
  let problem: Problem = { code: `http_${status}`, status, detail: `${name} answered ${status}: ${shown(text)}`, ...later }
  try {
    const parsed = parse(text)
    if (typeof parsed === 'object' && parsed !== null && 'code' in parsed) problem = { ...problem, ...(parsed as Problem), status }
  } catch {
    // The page of a proxy.
    if (isPage) problem.code = 'protocol'
  }
  return errorOf(problem, requestId)
}

function unreachable(name: string, cause: unknown): DuetimeError {
  const why = (cause as NodeJS.ErrnoException).code ?? messageOf(cause)
  return errorOf({ code: 'unreachable', status: 0, detail: `${name} cannot be reached: ${why}` }, undefined, cause)
}

function protocol(detail: string, status: number, cause: unknown): DuetimeError {
  return errorOf({ code: 'protocol', status, detail }, undefined, cause)
}

function timedOut(name: string, timeoutMs: number): DuetimeError {
  return errorOf({ code: 'timed_out', status: 0, detail: `${name} did not answer within ${Math.round(timeoutMs)} ms` })
}

function aborted(request: Request): Aborted {
  return new Aborted({ code: 'aborted', status: 0, detail: 'the call was aborted' }, { cause: request.signal?.reason })
}
