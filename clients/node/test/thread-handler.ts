/** The handler that the tests run in threads. */

import { Fatal, Park, type RunningJob } from 'duetime'
import { isMainThread } from 'node:worker_threads'

export default async function handle(job: RunningJob<{ do: string; ms?: number }>): Promise<unknown> {
  switch (job.payload.do) {
    case 'compute': {
      const end = performance.now() + (job.payload.ms ?? 0)
      while (performance.now() < end);
      return { isMainThread, fee: 12345678901234567890n, text: job.payloadText }
    }
    case 'compute forever':
      for (;;);
    case 'wait':
      if (!job.signal.aborted) await new Promise((resolve) => { job.signal.addEventListener('abort', resolve) })
      await job.push('from-threads', `aborted: ${(job.signal.reason as Error).name}, ${String(job.cancelled)}`, { key: 'aborted' })
      return undefined
    case 'calls':
      await job.progress(30, 'from a thread')
      job.followWith({ queue: 'from-threads', payload: 'after', kind: 'added' })
      return (await job.push('from-threads', 1)).id
    case 'fatal':
      throw new Fatal('never again')
    case 'park':
      throw new Park('by hand', { priority: 7 })
    case 'exit':
      return process.exit(3)
    case 'function':
      return () => 1
    default:
      throw new Error(`unknown: ${job.payload.do}`)
  }
}
