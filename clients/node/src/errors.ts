/** Errors: one class for each thing that a program may want to do about them. */

/** The server's description of an error; every field but `code`, `status` and `detail` is there only if it applies. */
export interface Problem {
  code: string
  status: number
  detail: string
  field?: string
  expected?: string
  got?: string
  /** The id of the job that holds the key, of `key_conflict`. */
  holder?: string
  /** How long to wait before the next try, such as `"2s"`. */
  retry_after?: string
  /** How long the holder of a lock still has it, such as `"12s"`. */
  expires_in?: string
  [name: string]: unknown
}

/** Any error of this package. `code` is stable: let programs decide by it or by the class. `detail` is for people. */
export class DuetimeError extends Error {
  /** The server's code, such as `key_conflict`; `unreachable`, `timed_out`, `wait_timeout`, `protocol` and `aborted` are of this package. */
  readonly code: string
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number
  readonly detail: string
  /** The field that is wrong, what it accepts, and what it got. */
  readonly field: string | undefined
  readonly expected: string | undefined
  readonly got: string | undefined
  /** The `request-id` under which the server's log has the call. */
  readonly requestId: string | undefined
  /** The whole answer, with fields such as `current_version` that few programs need. */
  readonly problem: Problem

  constructor(problem: Problem, options: { requestId?: string | undefined; cause?: unknown } = {}) {
    super(`${problem.code}: ${problem.detail}`, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.code = problem.code
    this.status = problem.status
    this.detail = problem.detail
    this.field = problem.field
    this.expected = problem.expected
    this.got = problem.got
    this.requestId = options.requestId
    this.problem = problem
  }
}

/** The request is wrong: see `field`, `expected` and `got`. A repeat does not help. */
export class Invalid extends DuetimeError {}
/** There is no token, or the server does not accept it. */
export class Unauthorized extends DuetimeError {}
/** The token lacks a right. */
export class Forbidden extends DuetimeError {}
/** The token's rate is exceeded, or the queue is full (`queue_full`), and stayed so until the deadline of the call. */
export class RateLimited extends DuetimeError {}
/** There is no such job, schedule or path. */
export class NotFound extends DuetimeError {}
/** The job or document is not as the call expects: `key_conflict`, `version_mismatch`, `job_running`, `already_finished`, … */
export class Conflict extends DuetimeError {
  /** The id of the job that holds the key, of `key_conflict`. */
  get holder(): string | undefined {
    return this.problem.holder
  }
}
/** The lease has ended: somebody else has the job, or it is finished. */
export class LeaseLost extends DuetimeError {}
/** Another owner holds the lock. */
export class LockHeld extends DuetimeError {}
/** The lock is no longer held. */
export class LockLost extends DuetimeError {}
/** The server cannot do it now, cannot be reached, or did not answer in time, until the deadline of the call. */
export class Unavailable extends DuetimeError {}
/** `client.wait` ended before the job did (code `wait_timeout`). */
export class TimedOut extends Unavailable {}
/** What came is no answer of Duetime: the page of a proxy, or half an answer. */
export class Protocol extends DuetimeError {}
/** The `AbortSignal` of the call was aborted. */
export class Aborted extends DuetimeError {}

type ErrorClass = new (problem: Problem, options?: { requestId?: string | undefined; cause?: unknown }) => DuetimeError

const BY_CODE: Readonly<Record<string, ErrorClass>> = {
  lease_lost: LeaseLost,
  lock_lost: LockLost,
  origin_reused: Conflict,
  protocol: Protocol,
}

const BY_STATUS: Readonly<Record<number, ErrorClass>> = {
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  408: Unavailable,
  409: Conflict,
  412: Conflict,
  421: Forbidden,
  423: LockHeld,
  429: RateLimited,
}

/** The error of the right class for what the server said. Codes that are not known go by their status. */
export function errorOf(problem: Problem, requestId?: string, cause?: unknown): DuetimeError {
  const { code, status } = problem
  const byStatus = BY_STATUS[status] ?? (status >= 500 || status === 0 ? Unavailable : Invalid)
  return new (BY_CODE[code] ?? byStatus)(problem, { requestId, cause })
}

/** An argument that is refused before anything is sent. */
export function invalid(field: string, expected: string, got: string, cause?: unknown): Invalid {
  const detail = `\`${field}\` must be ${expected}, got ${got}`
  return new Invalid({ code: 'invalid', status: 400, detail, field, expected, got }, { cause })
}

/** A value as an error shows it: short. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}

/** What people wrote in an error, whatever was thrown. */
export function messageOf(error: unknown): string {
  try {
    if (!(error instanceof Error)) return typeof error === 'string' ? error : String(error)
    return error.message === '' ? error.name : error.message
  } catch {
    return 'an error that cannot be shown'
  }
}
