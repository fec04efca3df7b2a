"""The driver of the conformance list (clients/conformance): makes calls, or works, as the runner asks."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from duetime import Client, DuetimeError, Fatal, Job, JobCancelled, NewJob, Park, Release, RetryAfter, RunningJob, Worker


def told(job: Job | None) -> Any:
    if job is None:
        return None
    names = ("id", "state", "payload", "payload_text", "result", "result_text", "attempt", "key")
    return {**{name: shown(getattr(job, name)) for name in names}, "tags": list(job.tags)}


def shown(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def problem(error: DuetimeError) -> dict[str, Any]:
    return {"code": error.code, "status": error.status, "field": error.field, "type": type(error).__name__}


def answered(one: Any) -> Any:
    return {"error": {"code": one.code}} if isinstance(one, DuetimeError) else {"id": one.id, "outcome": one.outcome}


def lock(client: Client, name: str, ttl: Any, hold: Any) -> Any:
    with client.lock(name, ttl, wait=10) as held:
        held.lost.wait(duration(hold))
        return {"fence": held.fence, "lost": held.lost.is_set()}


def duration(value: Any) -> float:
    from duetime.values import seconds

    return seconds(value)


def events(client: Client, query: Any, count: int) -> Any:
    seen = []
    for event in client.events(**query):
        seen.append({"type": event.type, "job": event.id, **event.data})
        if len(seen) >= count:
            return seen
    return seen


def call(client: Client, name: str, args: dict[str, Any]) -> Any:
    if name == "push":
        payload = args["payload_text"].encode() if "payload_text" in args else args.get("payload")
        pushed = client.push(args["queue"], payload, **args.get("options", {}))
        return {"id": pushed.id, "outcome": pushed.outcome, "state": pushed.state}
    if name == "push_many":
        jobs = [NewJob(one["queue"], one.get("payload"), **one.get("options", {})) for one in args["jobs"]]
        return [answered(one) for one in client.push_many(jobs)]
    if name == "cancel_by_key":
        return {"outcome": client.cancel_by_key(args["queue"], args["key"])}
    if name == "cancel":
        return {"outcome": client.cancel(**args)}
    if name in ("run", "retry", "get", "reschedule"):
        return told(getattr(client, name)(**args))
    if name == "delete":
        return client.delete(**args)
    if name == "find":
        return told(client.find(args["queue"], args["key"]))
    if name == "jobs":
        return [job.id for job in client.jobs(**args)]
    if name == "wait":
        job = client.wait(args["id"], args["timeout"])
        return {"state": job.state, "result": shown(job.result)}
    if name in ("cancel_all", "retry_all"):
        return getattr(client, name)(**args.get("selection", args))
    if name == "queue_set":
        return client.queues.set(args["queue"], **args["settings"])
    if name in ("queue_pause", "queue_resume", "queue_get"):
        return getattr(client.queues, name[len("queue_") :])(args["queue"])
    if name == "queue_purge":
        return {"purged": client.queues.purge(args["queue"])}
    if name == "queue_delete":
        return client.queues.delete(**args)
    if name == "schedule_set":
        schedule = dict(args["schedule"])
        return client.schedules.set(args["name"], **{**schedule.pop("job", {}), **schedule})
    if name == "schedule_delete":
        return client.schedules.delete(args["name"])
    if name == "lock":
        return lock(client, args["name"], args.get("ttl", 15), args.get("hold", 0))
    if name == "events":
        return events(client, args.get("query", {}), args["count"])
    raise SystemExit(f"the driver knows no call {name!r}")


def calls(arguments: argparse.Namespace) -> None:
    options: dict[str, Any] = {}
    if arguments.timeout is not None:
        options["timeout"] = arguments.timeout
    if arguments.deadline is not None:
        options.update(deadline=arguments.deadline, push_deadline=arguments.deadline, push_tries=None)
    client = Client(**options)
    for line in sys.stdin:
        if not line.strip():
            continue
        asked = json.loads(line)
        try:
            answer = {"ok": call(client, asked["call"], asked.get("args", {}))}
        except DuetimeError as error:
            answer = {"error": problem(error)}
        print(json.dumps(answer), flush=True)


class Log:
    def __init__(self, path: str) -> None:
        self._path, self._lock = path, threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        with self._lock, open(self._path, "a", encoding="utf-8") as file:
            print(json.dumps({"event": event, **fields}), file=file)


def work(arguments: argparse.Namespace) -> None:
    log = Log(arguments.log)
    worker = Worker(
        queues=arguments.queues.split(","),
        concurrency=arguments.concurrency,
        lease=arguments.lease,
        stop_deadline=arguments.stop_deadline,
    )

    @worker.handler("*")
    def handle(payload: Any, job: RunningJob) -> Any:
        began = time.monotonic()

        def tell(event: str) -> None:
            log.write(event, id=job.id, attempt=job.attempt, ms=round((time.monotonic() - began) * 1000))

        tell("start")
        try:
            return do(payload, job, tell)
        finally:
            tell("end")

    threading.Timer(0, lambda: log.write("ready", pid=os.getpid())).start()
    worker.run()


def do(payload: Any, job: RunningJob, tell: Any) -> Any:
    verb, ms = payload.get("do", "succeed"), payload.get("ms", 0)
    if verb == "succeed":
        return payload.get("result")
    if verb == "echo":
        return payload
    if verb == "echo_text":
        return (job.payload_text or "").encode()
    if verb == "fail":
        raise ValueError(payload.get("message", "failed"))
    if verb == "raise_bytes":
        raise ValueError(b"not \xc4\xe3 utf-8".decode("utf-8", "surrogateescape"))
    if verb == "fatal":
        raise Fatal(payload.get("message", "fatal"))
    if verb == "retry_after":
        raise RetryAfter(payload["delay"], payload.get("message", ""))
    if verb == "release":
        raise Release(payload["delay"], payload.get("priority"))
    if verb == "park":
        raise Park(payload["message"], payload.get("priority"))
    if verb == "sleep":
        job.cancelled.wait(ms / 1000)
        job.raise_if_cancelled()
    elif verb == "block":
        end = time.monotonic() + ms / 1000
        while time.monotonic() < end:
            sum(range(10_000))
    elif verb == "progress":
        job.progress(payload.get("percent", 50), payload.get("note", "half of it"))
    elif verb == "bad_result":
        return object()
    elif verb == "wait_for_cancel":
        if job.cancelled.wait(ms / 1000):
            tell("cancelled")
            raise JobCancelled
    elif verb == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        raise Fatal(f"the driver cannot do {verb!r}")
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    modes = parser.add_subparsers(dest="mode", required=True)
    calling = modes.add_parser("call")
    calling.add_argument("--timeout", type=float)
    calling.add_argument("--deadline", type=float)
    working = modes.add_parser("work")
    working.add_argument("--queues", required=True)
    working.add_argument("--concurrency", type=int, default=1)
    working.add_argument("--lease", type=lambda text: float(text) if text.replace(".", "").isdigit() else text)
    working.add_argument("--log", required=True)
    working.add_argument("--stop-deadline", type=lambda text: float(text) if text.replace(".", "").isdigit() else text, default=25)
    arguments = parser.parse_args()
    calls(arguments) if arguments.mode == "call" else work(arguments)


if __name__ == "__main__":
    main()
