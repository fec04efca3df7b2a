"""A fake without a server: its clients record what is pushed, and `run` runs the handlers inline.

It knows pushes, keys, cancels, finds and results, and refuses every other call. It checks no limits: the fixture `duetime_server`
is the real thing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Optional, Union
from urllib.parse import parse_qsl, unquote, urlsplit

from ..client import AsyncClient, Client
from ..models import Job, read_job
from ..transport import Reply, Request
from ..values import Duration, Exact, instant, read_instant, seconds, to_json
from ..worker import Worker

LIVE = ("scheduled", "ready", "running")


class Fake:
    """Jobs in a list. `client` and `async_client` push to it."""

    def __init__(self) -> None:
        #: The instant that is now. `advance` moves it.
        self.now = datetime(2030, 1, 1, tzinfo=timezone.utc)
        self._jobs: list[dict[str, Any]] = []
        transport = _Transport(self)
        #: A client whose calls block.
        self.client = Client("http://fake.invalid", token="", transport=transport)
        #: A client whose calls are awaited.
        self.async_client = AsyncClient("http://fake.invalid", token="", transport=transport)

    @property
    def jobs(self) -> list[Job]:
        """All jobs, in the order of their pushes."""
        return [read_job(job, Exact(to_json(job))) for job in map(self._shown, self._jobs)]

    def pushed(self, queue: Optional[str] = None, kind: Optional[str] = None) -> list[Job]:
        """The jobs of a queue and of a kind, in whatever state."""
        return [job for job in self.jobs if queue in (None, job.queue) and kind in (None, job.kind)]

    def advance(self, by: Duration) -> None:
        """Moves the clock."""
        self.now += timedelta(seconds=seconds(by))

    def run(self, worker: Worker) -> int:
        """Runs one attempt of each job that is due in the worker's queues, here and now, until nothing is due. Returns how many
        attempts that were. A failed attempt waits for its `retry_after`, or a minute."""
        count = 0
        queues = [worker.queues] if isinstance(worker.queues, str) else list(worker.queues)
        while True:
            due = [job for job in self._jobs if job["queue"] in queues and self._state(job) == "ready"]
            if not due:
                return count
            for job in sorted(due, key=lambda job: job["due_at"]):
                self._attempt(worker, job)
                count += 1

    def _attempt(self, worker: Worker, job: dict[str, Any]) -> None:
        job.update(state="running", attempt=job["attempt"] + 1)
        lease = {**job, "receipt": f"{job['id']}.1", "lease": "1m"}
        verb, text = worker.attempt(lease)
        body = json.loads(text)
        if verb == "complete":
            then = [*job.get("then", ()), *body.pop("then", ())]
            job.update(state="succeeded", **body)
            previous = {name: job[name] for name in ("id", "queue", "state", "result", "result_base64") if name in job}
            for n, following in enumerate(then):
                self._push({"queue": job["queue"], "origin": f"after-{job['id']}-{n}", **following, "previous": previous})
        elif verb == "release":
            job.update(state="scheduled", attempt=job["attempt"] - 1, due_at=self._after(body.pop("delay")), **body)
        elif verb == "park":
            job.update(state="failed", **body)
        else:
            job["errors"] = [*job["errors"], {"attempt": job["attempt"], "at": job["due_at"], "message": body["message"]}]
            job["message"] = body["message"]
            if body.get("final") or job["attempt"] >= job.get("max_attempts", 16):
                job["state"] = "failed"
            else:
                job.update(state="scheduled", due_at=self._after(body.get("retry_after", "1m")))

    def _after(self, delay: str) -> str:
        return instant("delay", self.now + timedelta(seconds=seconds(delay)))

    def _state(self, job: dict[str, Any]) -> str:
        if job["state"] in ("scheduled", "ready"):
            return "ready" if read_instant(job["due_at"]) <= self.now else "scheduled"
        return str(job["state"])

    def _shown(self, job: dict[str, Any]) -> dict[str, Any]:
        return {**job, "state": self._state(job)}

    # The calls that it knows.

    def answer(self, request: Request) -> Any:
        """The answer to a request, or `None` if the job does not exist. Raises `NotImplementedError` for other calls."""
        url = urlsplit(request.path)
        parts = [unquote(part) for part in url.path.split("/")][2:]
        body = json.loads(request.body) if request.body else {}
        match: dict[Any, Callable[[], Any]] = {
            ("POST", "queues", 3): lambda: self._push({**body, "queue": parts[1]}),
            ("POST", "jobs", 1): lambda: [self._push(one) for one in body],
            ("GET", "jobs", 1): lambda: {"jobs": self._found(dict(parse_qsl(url.query))), "next_cursor": None},
            ("GET", "jobs", 2): lambda: next((self._shown(job) for job in self._jobs if job["id"] == parts[1]), None),
            ("POST", "jobs", 2): lambda: self._cancel_all(body) if parts[1:] == ["cancel"] else NotImplemented,
            ("POST", "jobs", 3): lambda: self._cancel(parts[1]) if parts[2] == "cancel" else NotImplemented,
        }
        answer = match.get((request.method, parts[0], len(parts)), lambda: NotImplemented)()
        if answer is NotImplemented:
            what = f"{request.method} {url.path}"
            raise NotImplementedError(f"the fake does not know {what}; use the fixture duetime_server, which has everything")
        return answer

    def _push(self, body: dict[str, Any]) -> dict[str, Any]:
        for job in self._jobs:
            if job["queue"] == body["queue"] and job["origin"] == body["origin"]:
                return {**self._shown(job), "outcome": "repeated"}
        held = [job for job in self._found({"queue": body["queue"], "key": body.get("key")}) if job["state"] in LIVE]
        conflict = body.pop("on_conflict", "keep")
        if body.get("key") is not None and held:
            if conflict == "reject":
                detail = f"another job holds the key {body['key']!r}"
                return {"code": "key_conflict", "status": 409, "detail": detail, "holder": held[0]["id"]}
            if conflict == "keep":
                return {**held[0], "outcome": "kept"}
            self._jobs = [job for job in self._jobs if job["id"] != held[0]["id"]]
        now = instant("now", self.now)
        due_at = body.pop("due_at", None) or self._after(body.pop("delay", "0ms"))
        job = {"kind": "default", "priority": 1024, "tags": [], **body, "id": str(len(self._jobs) + 1), "state": "scheduled"}
        job.update(due_at=due_at, attempt=0, crashes=0, version=1, created_at=now, updated_at=now, errors=[])
        self._jobs.append(job)
        return {**self._shown(job), "outcome": "replaced" if held and body.get("key") is not None else "created"}

    def _found(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        def matches(job: dict[str, Any]) -> bool:
            fits = all(job.get(name) == query[name] for name in ("queue", "key", "kind") if query.get(name) is not None)
            states = str(query["state"]).split(",") if query.get("state") else [self._state(job)]
            return fits and query.get("tag") in (None, *job["tags"]) and self._state(job) in states

        return [self._shown(job) for job in self._jobs if matches(job)]

    def _cancel(self, id: str) -> Optional[dict[str, str]]:
        for job in self._jobs:
            if job["id"] == id:
                if self._state(job) not in LIVE:
                    return {"outcome": "already_finished"}
                job["state"] = "cancelled"
                return {"outcome": "cancelled"}
        return None

    def _cancel_all(self, selection: dict[str, Any]) -> dict[str, int]:
        found = [job for job in self._found(selection) if job["state"] in LIVE]
        for job in found:
            self._cancel(job["id"])
        return {"cancelled": len(found)} if found else {}


class _Transport:
    def __init__(self, fake: Fake) -> None:
        self._fake = fake

    async def send(self, request: Request) -> Reply:
        answer = self._fake.answer(request)
        if answer is None:
            answer = {"code": "not_found", "status": 404, "detail": "there is no such job"}
        status = answer.get("status", 200) if isinstance(answer, dict) and "code" in answer else 200
        return Reply(status, {"content-type": "application/json"}, json.dumps(answer).encode())

    async def lines(self, request: Request) -> AsyncIterator[Union[Reply, str]]:
        raise NotImplementedError("the fake has no events; use the fixture duetime_server, which has everything")
        yield ""

    async def sleep(self, seconds: float) -> None:
        """Nothing to wait for."""

    async def close(self) -> None:
        """Nothing to close."""
