/** The trace of what runs: that of a job's handler, or of OpenTelemetry if the program has it. */

import { AsyncLocalStorage } from 'node:async_hooks'

/** The parts of `@opentelemetry/api` that are used. */
interface OpenTelemetry {
  context: { active(): unknown; with<T>(context: unknown, run: () => T): T }
  propagation: { inject(context: unknown, carrier: Record<string, string>): void; extract(context: unknown, carrier: Record<string, string>): unknown }
  ROOT_CONTEXT: unknown
}

const current = new AsyncLocalStorage<string>()
let telemetry: OpenTelemetry | null | undefined

function openTelemetry(): OpenTelemetry | null {
  if (telemetry === undefined) {
    try {
      // eslint-disable-next-line @typescript-eslint/no-require-imports -- only some programs have it
      telemetry = require('@opentelemetry/api') as OpenTelemetry
    } catch {
      telemetry = null
    }
  }
  return telemetry
}

/** The `traceparent` for a push that names none. */
export function activeTrace(): string | undefined {
  const api = openTelemetry()
  if (api !== null) {
    const carrier: Record<string, string> = {}
    api.propagation.inject(api.context.active(), carrier)
    if (carrier['traceparent'] !== undefined) return carrier['traceparent']
  }
  return current.getStore()
}

/** Runs within this trace, so that pushes belong to it. */
export function within<T>(trace: string | undefined, run: () => T): T {
  if (trace === undefined) return run()
  const api = openTelemetry()
  const inner = (): T => current.run(trace, run)
  return api === null ? inner() : api.context.with(api.propagation.extract(api.ROOT_CONTEXT, { traceparent: trace }), inner)
}
