/**
 * JSON whose integers beyond 2^53 are `bigint` in both directions. Other numbers are those of JavaScript; `Exact` has their text.
 *
 * `JSON.parse` and `JSON.stringify` do the work. Only a text with long digits, or a value with a `bigint`, takes a second
 * pass over marked strings.
 */

import { invalid, messageOf, shown } from './errors.js'

// At least 16 digits, where JSON may have a number. It also finds some digits in strings, which only costs time.
const MAY_HAVE_LONG = /(?:^|[[:,\s])-?\d{16}/
const STRING_OR_LONG = /"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Parses JSON; integers that a number cannot hold come as `bigint`. Throws a `SyntaxError`. */
export function parse(text: string): unknown {
  if (!MAY_HAVE_LONG.test(text)) return JSON.parse(text)
  const mark = unusedIn(text)
  const marked = text.replace(STRING_OR_LONG, (token) => (token.startsWith('"') || Number.isSafeInteger(Number(token)) ? token : `"${mark}${token}"`))
  const value: unknown = JSON.parse(marked)
  return marked === text ? value : unmark(value, mark)
}

/** The JSON of a value. Throws `Invalid` about `field` if it has none: a circular object, a function, `undefined`, `NaN`. */
export function encode(value: unknown, field: string): string {
  let text: unknown
  try {
    text = JSON.stringify(value)
  } catch (error) {
    text = withBigInts(value, field, error)
  }
  // `JSON.stringify` writes `null` for `NaN` and infinities.
  if (typeof text === 'string' && text.includes('null')) refuseNoNumbers(value, field)
  if (typeof text !== 'string') throw invalid(field, 'a value that JSON has', shown(value))
  return text
}

/** The payload or result in a document of the server: JSON, or bytes that are not JSON. */
export function contentOf(document: Record<string, unknown>, name: 'payload' | 'result'): unknown {
  const base64 = document[`${name}_base64`]
  if (typeof base64 !== 'string') return document[name]
  const bytes = Buffer.from(base64, 'base64')
  try {
    // JSON that some decoders refuse comes in base64, too: deep nesting, half a surrogate pair.
    return parse(UTF8.decode(bytes))
  } catch {
    return new Uint8Array(bytes)
  }
}

/** The members of a JSON object that carry a payload or result. */
export function contentJson(value: unknown, name: 'payload' | 'result'): string {
  if (value instanceof Uint8Array) return `"${name}_base64":"${Buffer.from(value).toString('base64')}"`
  return `"${name}":${encode(value, name)}`
}

/** An answer, or a part of it, as the text that came. Parts are cut out when they are asked for. */
export class Exact {
  readonly #text: () => string
  #parts: Map<string | number, string> | undefined

  constructor(text: () => string) {
    this.#text = text
  }

  /** A member or an element. */
  part(place: string | number): Exact {
    return new Exact(() => this.#cut().get(place) ?? '')
  }

  /** The text of a payload or result in this object, whose `document` is parsed; `undefined` for bytes that are not UTF-8. */
  value(document: Record<string, unknown>, name: 'payload' | 'result'): string | undefined {
    const base64 = document[`${name}_base64`]
    if (typeof base64 !== 'string') return document[name] === undefined ? undefined : this.#cut().get(name)
    try {
      return UTF8.decode(Buffer.from(base64, 'base64'))
    } catch {
      return undefined
    }
  }

  #cut(): Map<string | number, string> {
    return (this.#parts ??= partsOf(this.#text()))
  }
}

/** The texts of the members of an object, or of the elements of an array. The text is JSON. */
function partsOf(text: string): Map<string | number, string> {
  const parts = new Map<string | number, string>()
  let [depth, begin, name]: [number, number, string | undefined] = [0, 0, undefined]
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}:,]/g)) {
    if (depth === 1 && token === ':') name = JSON.parse(text.slice(begin, index)) as string
    if (depth === 1 && ',]}'.includes(token)) {
      const part = text.slice(begin, index).trim()
      if (part !== '') parts.set(name ?? parts.size, part)
    }
    if ('[{'.includes(token)) depth += 1
    else if (']}'.includes(token)) depth -= 1
    if (depth === 1 && '[{:,'.includes(token)) begin = index + 1
  }
  return parts
}

function withBigInts(value: unknown, field: string, first: unknown): string {
  const mark = `bigint-${Math.random().toString(36).slice(2)}-`
  const marked = (_: string, member: unknown): unknown => (typeof member === 'bigint' ? mark + member.toString() : member)
  try {
    return JSON.stringify(value, marked).replaceAll(new RegExp(`"${mark}(-?\\d+)"`, 'g'), '$1')
  } catch {
    throw invalid(field, 'a value that JSON has', messageOf(first).split('\n', 1)[0] ?? '', first)
  }
}

function refuseNoNumbers(value: unknown, field: string): void {
  JSON.stringify(value, (_, member: unknown) => {
    if (typeof member === 'number' && !Number.isFinite(member)) throw invalid(field, 'a value that JSON has', String(member))
    return typeof member === 'bigint' ? 0 : member
  })
}

function unusedIn(text: string): string {
  for (;;) {
    const mark = `long-${Math.random().toString(36).slice(2)}-`
    if (!text.includes(mark)) return mark
  }
}

/** Puts numbers in the place of marked strings. Without recursion: a document may be nested deeply. */
function unmark(root: unknown, mark: string): unknown {
  const whole = { root }
  const left: Record<string, unknown>[] = [whole]
  for (let node = left.pop(); node !== undefined; node = left.pop()) {
    for (const key of Object.keys(node)) {
      const member = node[key]
      if (typeof member === 'string' && member.startsWith(mark)) node[key] = BigInt(member.slice(mark.length))
      else if (typeof member === 'object' && member !== null) left.push(member as Record<string, unknown>)
    }
  }
  return whole.root
}
