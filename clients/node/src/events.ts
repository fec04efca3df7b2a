/** The stream of events: server-sent events, as an async iterator that reconnects until its loop is left. */

import { setTimeout as sleep } from 'node:timers/promises'
import { DuetimeError } from './errors.js'
import { parse } from './json.js'
import { backoffMs, passes, type Transport } from './transport.js'
import type { JobEvent } from './types.js'
import { shownAs } from './wire.js'

/** Yields the events of this path. Throws what the server refuses for good; reconnects after everything else. */
export async function* eventsOf(transport: Transport, path: string, signal?: AbortSignal): AsyncGenerator<JobEvent, void, undefined> {
  const closed = new AbortController()
  const stop = (): void => { closed.abort() }
  const isOver = (): boolean => closed.signal.aborted
  if (signal?.aborted === true) return
  signal?.addEventListener('abort', stop, { once: true })
  let failures = 0
  let last: string | undefined
  try {
    while (!isOver()) {
      try {
        const headers = { accept: 'text/event-stream', ...(last === undefined ? {} : { 'last-event-id': last }) }
        const response = await transport.stream(path, headers, closed.signal)
        response.setEncoding('utf8')
        let text = ''
        for await (const part of response) {
          text += part as string
          const blocks = text.split(/\r?\n\r?\n/)
          text = blocks.pop() ?? ''
          for (const block of blocks) {
            const { type, data, id } = eventOf(block)
            last = id ?? last
            if (data === undefined || type === 'stopping') continue
            failures = 0
            yield { ...(shownAs(parse(data)) as object), type } as JobEvent
          }
        }
      } catch (error) {
        if (isOver()) return
        if (error instanceof DuetimeError && !passes(error)) throw error
      }
      failures += 1
      transport.nextServer()
      await sleep(backoffMs(failures), undefined, { signal: closed.signal }).catch(() => undefined)
    }
  } finally {
    closed.abort()
    signal?.removeEventListener('abort', stop)
  }
}

function eventOf(block: string): { type: string; data: string | undefined; id: string | undefined } {
  let [type, data, id]: [string, string | undefined, string | undefined] = ['message', undefined, undefined]
  for (const line of block.split(/\r?\n/)) {
    const [, name, value = ''] = /^([a-z]+): ?(.*)$/.exec(line) ?? []
    if (name === 'event') type = value
    else if (name === 'id') id = value
    else if (name === 'data') data = data === undefined ? value : `${data}\n${value}`
  }
  return { type, data, id }
}
