/** Names and values on the wire: `maxAttempts` is `max_attempts` there, a number of milliseconds or a `Date` is text. */

import { contentJson, contentOf, encode, type Exact } from './json.js'
import { invalid, shown } from './errors.js'
import type { Duration, Job } from './types.js'

// Fields that are durations. `max` is that of an exponential rule, `steps` a list of them.
const DURATIONS = new Set([
  'delay', 'lease', 'expires', 'maxAge', 'ttl', 'wait', 'timeout', 'first', 'max', 'steps', 'every', 'for', 'succeeded', 'failed', 'retryAfter', 'spread', 'debounce', 'atLatest',
])
// What users wrote: their names are not changed.
const VERBATIM = new Set(['headers', 'marks', 'meta'])
const INSTANT = /(?:^|_)(?:at|until|from|to|since|start|end)$/
const ISO = /^\d{4}-\d\d-\d\dT/

/** A duration as the server reads it: text as it is, a number as milliseconds (a fraction counts as a whole one). */
export function duration(value: Duration, field: string): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return `${Math.ceil(value)}ms`
  throw invalid(field, 'milliseconds (0 or more) or text such as "30s"', shown(value))
}

const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 }

/** Milliseconds of a duration. Throws `Invalid`. */
export function milliseconds(value: Duration, field: string): number {
  const text = duration(value, field)
  const parts = [...text.matchAll(/(\d+)(ms|[dhms])/g)]
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text) {
    throw invalid(field, 'a duration such as "250ms", "30s", "15m" or "1h30m"', shown(value))
  }
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ''] ?? 0), 0)
}

// The longest time of a timer of Node.
const TIMER_DAYS_MAX = 24

/** Milliseconds for which something waits. Throws `Invalid`, also for more than 24 days: Node's timers would end at once. */
export function timeOf(value: Duration, field: string): number {
  const ms = milliseconds(value, field)
  if (ms > TIMER_DAYS_MAX * 86_400_000) throw invalid(field, `at most ${TIMER_DAYS_MAX} days`, shown(value))
  return ms
}

/** The JSON object of these fields. `payload` may be any JSON or bytes; what is `undefined` is left out. */
export function objectJson(fields: object): string {
  const members: string[] = []
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue
    if (name === 'payload') members.push(contentJson(value, 'payload'))
    else members.push(`${JSON.stringify(snake(name))}:${valueJson(name, value)}`)
  }
  return `{${members.join(',')}}`
}

function valueJson(name: string, value: unknown): string {
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw invalid(name, 'a valid date', 'an invalid one')
    return `"${value.toISOString()}"`
  }
  if (DURATIONS.has(name) && typeof value === 'number') return `"${duration(value, name)}"`
  if (Array.isArray(value)) return `[${value.map((element: unknown) => valueJson(name, element)).join(',')}]`
  if (typeof value === 'object' && value !== null) return VERBATIM.has(name) ? encode(value, name) : objectJson(value)
  return encode(value, name)
}

/** A query string with these fields; an array repeats its field. */
export function queryOf(fields: object): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields) as [string, unknown][]) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one instanceof Date) query.append(snake(name), one.toISOString())
      else if (DURATIONS.has(name) && typeof one === 'number') query.append(snake(name), duration(one, name))
      else if (one !== undefined && one !== null) query.append(snake(name), String(one as string | number | boolean))
    }
  }
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}

/** A document of the server as this package shows it: names in camel case, instants as `Date`, payload and result decoded. */
export function shownAs(document: unknown): unknown {
  if (Array.isArray(document)) return document.map((element) => shownAs(element))
  if (typeof document !== 'object' || document === null) return document
  const from = document as Record<string, unknown>
  const shown: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(from)) {
    if (name === 'payload' || name === 'payload_base64') shown['payload'] = contentOf(from, 'payload')
    else if (name === 'result' || name === 'result_base64') shown['result'] = contentOf(from, 'result')
    else if (VERBATIM.has(name)) shown[name] = value
    else if (typeof value === 'string') shown[camel(name)] = INSTANT.test(name) && ISO.test(value) ? new Date(value) : value
    else if (name === 'next' && Array.isArray(value)) shown[name] = value.map((at) => new Date(at as string))
    else shown[camel(name)] = shownAs(value)
  }
  return shown
}

/** A job of the server, with its texts. */
export function jobOf<Payload, Result>(document: Record<string, unknown>, exact: Exact): Job<Payload, Result> {
  return Object.defineProperties(shownAs(document), {
    payloadText: { get: () => exact.value(document, 'payload') },
    resultText: { get: () => exact.value(document, 'result') },
  }) as Job<Payload, Result>
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function camel(name: string): string {
  return name.includes('_') ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name
}
