"""The errors of the package: one class for each thing that a program does about an error.

Every error has the server's stable `code` (docs/reference/errors.md) and its words. Two codes are the client's own: `unreachable`,
if no server answered, and `protocol`, if the answer is not Duetime's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional


class DuetimeError(Exception):
    """The base of all errors. `code` is stable, `detail` is for people."""

    #: The stable code, such as `invalid` or `lease_lost`.
    code: str
    #: The HTTP status, or 0 if there was no answer.
    status: int
    #: The error in one sentence.
    detail: str
    #: The field, parameter or header that is wrong.
    field: Optional[str]
    #: What is accepted there.
    expected: Optional[str]
    #: What was received.
    got: Optional[str]
    #: The id of the request, which is also in the server's log.
    request_id: Optional[str]
    #: Everything that the server said about it.
    problem: Mapping[str, Any]

    def __init__(
        self,
        detail: str,
        *,
        code: str = "invalid",
        status: int = 0,
        problem: Optional[Mapping[str, Any]] = None,
        request_id: Optional[str] = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.status, self.detail, self.request_id = code, status, detail, request_id
        self.problem = problem or {}
        self.field, self.expected, self.got = (self.problem.get(name) for name in ("field", "expected", "got"))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (type(self), self.detail, self.code, self.status, dict(self.problem), self.request_id))


class Invalid(DuetimeError):
    """The request is wrong: correct it. `field`, `expected` and `got` say where."""


class Unauthorized(DuetimeError):
    """There is no token, or it is unknown, revoked or expired."""


class Forbidden(DuetimeError):
    """The token lacks a right."""


class RateLimited(DuetimeError):
    """The token's rate is exceeded, or the queue is full (`queue_full`). `retry_after` says for how long."""

    @property
    def retry_after(self) -> Optional[str]:
        """How long to wait, as the server writes durations."""
        value = self.problem.get("retry_after")
        return value if isinstance(value, str) else None


class NotFound(DuetimeError):
    """There is no such job, schedule or path."""


class Conflict(DuetimeError):
    """The job is not as you expect: `key_conflict`, `version_mismatch`, `job_running`, `already_finished`, `job_live` …"""

    @property
    def holder(self) -> Optional[str]:
        """The id of the job that holds the key, after a `key_conflict`."""
        value = self.problem.get("holder")
        return value if isinstance(value, str) else None


class LeaseLost(Conflict):
    """The lease has ended: another worker has the job, or it is finished. Drop the outcome."""


class LockHeld(DuetimeError):
    """Another owner holds the lock."""


class LockLost(DuetimeError):
    """You no longer hold the lock: stop what you do under it."""


class Unavailable(DuetimeError):
    """No server could answer in time. The call was repeated until its deadline. It may have taken effect."""


class WaitTimeout(Unavailable):
    """The job has not ended within the time that `wait` was given."""


class Protocol(DuetimeError):
    """The answer is not Duetime's: a proxy's page, perhaps. `detail` shows its first bytes."""


_BY_CODE: dict[str, type[DuetimeError]] = {
    "lease_lost": LeaseLost,
    "lock_lost": LockLost,
    "origin_reused": Conflict,
}
_BY_STATUS: dict[int, type[DuetimeError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    412: Conflict,
    423: LockHeld,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: Unavailable,
}


def of_problem(problem: Mapping[str, Any], status: int, request_id: Optional[str] = None) -> DuetimeError:
    """The error for the server's problem document. Unknown codes are mapped by their status."""
    code = str(problem.get("code", f"http_{status}"))
    told = problem.get("status")
    status = told if isinstance(told, int) else status
    fallback = Invalid if 400 <= status < 500 else DuetimeError
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, fallback)
    detail = str(problem.get("detail") or problem.get("title") or "no detail")
    return kind(detail, code=code, status=status, problem=problem, request_id=request_id)


def of_page(body: bytes, status: int, why: str) -> DuetimeError:
    """The error for an answer that is not the server's JSON."""
    shown = body[:200].decode("utf-8", "replace")
    # Only of what a proxy decides does the status say more than the page.
    kind = _BY_STATUS.get(status, Invalid) if 400 <= status < 500 and status not in (408, 429) else Protocol
    return kind(f"{why}, with the status {status}: {shown!r}", code="protocol", status=status)


def invalid(field: str, expected: str, got: object) -> Invalid:
    """The error for a value that is refused before it is sent."""
    problem = {"field": field, "expected": expected, "got": f"{got!r:.200}"}
    return Invalid(f"`{field}` must be {expected}, got {got!r:.200}", problem=problem)


def _restored(kind: type[DuetimeError], detail: str, code: str, status: int, problem: Any, request: Any) -> DuetimeError:
    return kind(detail, code=code, status=status, problem=problem, request_id=request)
