"""The worker against the real server."""

from __future__ import annotations

import asyncio
import http.server
import json
import logging
import threading
from typing import Any, Callable

import pytest
from test_handler import BODY

from duetime import Client, DuetimeError, Fatal, NewJob, Park, Release, RetryAfter, RunningJob, Unauthorized, Worker
from duetime.testing import Server
from duetime.transport import finish

Run = Callable[[Worker], threading.Thread]
Until = Callable[[Callable[[], Any]], Any]


def test_what_is_due_is_drained(client: Client, queue: str) -> None:
    worker = Worker(client, queue, concurrency=3)

    @worker.handler("double")
    def double(number: int, job: RunningJob) -> int:
        job.progress(50, "half of it")
        if number == 1:
            client.push(queue, 21, kind="double", origin=f"{job.id}-next")
        return 2 * number

    @worker.handler("fails")
    def fails(how: str) -> None:
        if how == "fatal":
            raise Fatal("for good")
        if how == "park":
            raise Park("the address is to be checked", priority=7)
        raise RetryAfter("1h", "later") if how == "later" else Release("1h", priority=9)

    ids = [client.push(queue, 1, kind="double").id]
    ids += [client.push(queue, how, kind="fails").id for how in ("fatal", "later", "release", "park")]
    ids.append(client.push(queue, 0, kind="unknown").id)
    summary = worker.drain()
    assert (summary.succeeded, summary.failed, summary.released, summary.lost) == (2, 3, 2, 0)
    jobs = [client.get(id) for id in ids]
    assert [(job.state, job.attempt, job.message) for job in jobs] == [
        ("succeeded", 1, None),
        ("failed", 1, "for good"),
        ("scheduled", 1, "later"),
        ("scheduled", 0, None),
        ("failed", 1, "the address is to be checked"),
        ("scheduled", 0, None),
    ]
    assert [jobs[3].priority, jobs[4].priority] == [9, 7]
    assert jobs[0].result == 2
    assert jobs[0].progress is not None
    assert (jobs[0].progress["percent"], jobs[0].progress["note"]) == (50, "half of it")
    assert sorted(job.result for job in client.jobs(queue=queue, state="succeeded")) == [2, 42]


def test_async_handlers(client: Client, queue: str) -> None:
    worker = Worker(client, queue, concurrency=10)
    together: list[asyncio.Event] = []

    @worker.handler("*")
    async def meet(number: int) -> int:
        all_there = asyncio.Event()
        together.append(all_there)
        if len(together) == 10:
            for event in together:
                event.set()
        await all_there.wait()
        return number

    client.push_many([NewJob(queue, n) for n in range(10)])
    assert worker.drain().succeeded == 10


async def test_a_worker_beside_a_program(server: Server, queue: str) -> None:
    async with server.async_client() as client:
        worker = Worker(client, queue)
        done = asyncio.Event()

        @worker.handler("*")
        async def handle(payload: str) -> str:
            done.set()
            return payload.upper()

        async with worker:
            pushed = await client.push(queue, "abc")
            await asyncio.wait_for(done.wait(), 10)
        assert (await client.get(pushed.id)).result == "ABC"
        assert worker.health()["phase"] == "stopped"
        await client.push(queue, "more")
        assert (await worker.drain_async()).succeeded == 1


async def test_a_worker_whose_task_is_cancelled_gives_its_jobs_back(server: Server, queue: str) -> None:
    async with server.async_client() as client:
        worker = Worker(client, queue)
        begun = asyncio.Event()

        @worker.handler("*")
        async def handle() -> None:
            begun.set()
            await asyncio.Event().wait()

        pushed = await client.push(queue, 1)
        task = asyncio.create_task(worker.run_async())
        await asyncio.wait_for(begun.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        job = await client.get(pushed.id)
        assert (job.state, job.attempt, job.raw["releases"]) == ("ready", 0, 1)


def test_a_cancel_reaches_the_handler(client: Client, queue: str, run: Run, until: Until) -> None:
    worker = Worker(client, queue, lease=3)
    begun = {kind: threading.Event() for kind in ("event", "async")}

    @worker.handler("event")
    def waits(payload: Any, job: RunningJob) -> None:
        begun["event"].set()
        assert job.cancelled.wait(30)
        job.raise_if_cancelled()

    @worker.handler("async")
    async def sleeps() -> None:
        begun["async"].set()
        await asyncio.sleep(30)

    ids = {kind: client.push(queue, None, kind=kind, key=kind).id for kind in begun}
    run(worker)
    for kind, event in begun.items():
        assert event.wait(10)
        assert client.cancel_by_key(queue, kind) == "cancel_requested"
    for id in ids.values():
        until(lambda id=id: client.get(id).state == "cancelled")


def test_a_lost_lease_is_told_once_and_its_outcome_dropped(
    client: Client, queue: str, run: Run, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(client, queue, lease=3)
    reasons: list[Any] = []

    @worker.handler("*")
    def handle(payload: Any, job: RunningJob) -> str:
        if job.attempt == 1:
            finish(
                client._caller.call(
                    "POST", f"/v1/leases/{job.raw['receipt']}/fail", {"message": "taken away", "retry_after": "0ms"}
                )
            )
            assert job.cancelled.wait(10)
            reasons.append(job.cancel_reason)
        return f"attempt {job.attempt}"

    id = client.push(queue, 1).id
    run(worker)
    until(lambda: client.get(id).is_finished and reasons)
    assert (client.get(id).result, reasons) == ("attempt 2", ["lease_lost"])
    until(lambda: worker.health()["lost"])
    assert worker.health()["lost"] == 1
    assert len([record for record in caplog.records if "lease was lost" in record.message]) == 1


def test_a_refused_result_fails_for_good_beside_others(client: Client, queue: str) -> None:
    worker = Worker(client, queue, concurrency=2)
    both = threading.Barrier(2)

    @worker.handler("*")
    def handle(size: int) -> str:
        both.wait(10)
        return "x" * size

    ids = [client.push(queue, size).id for size in (3, 2 << 20)]
    worker.drain()
    jobs = [client.get(id) for id in ids]
    assert [job.state for job in jobs] == ["succeeded", "failed"]
    assert (jobs[1].attempt, "its result was refused" in (jobs[1].message or "")) == (1, True)


def test_an_outcome_that_is_refused_is_a_failed_attempt(client: Client, queue: str) -> None:
    worker = Worker(client, queue)
    errors = {"retry": RetryAfter("soon", "busy"), "release": Release("soon"), "park": Park("by hand", priority=-1)}

    @worker.handler("*")
    def handle(payload: object, job: RunningJob) -> None:
        raise errors[job.kind]

    ids = [client.push(queue, None, kind=kind).id for kind in errors]
    assert worker.drain().failed == 3
    for id, verb in zip(ids, ("fail", "release", "park")):
        job = client.get(id)
        assert (job.state, job.attempt, f"the outcome ({verb}) was refused" in (job.message or "")) == ("scheduled", 1, True)


def test_no_more_is_reserved_than_is_free(client: Client, queue: str, run: Run, until: Until) -> None:
    worker, gate = Worker(client, queue, concurrency=2), threading.Event()
    worker.handler("*")(lambda: gate.wait(30))
    client.push_many([NewJob(queue, n) for n in range(5)])
    run(worker)
    until(lambda: worker.health()["running"] == 2)
    assert client.queues.get(queue)["ready"] == 3
    names = [one["worker"] for one in finish(client._caller.call("GET", "/v1/workers")).data["workers"]]
    assert worker.name in names
    gate.set()
    until(lambda: client.queues.get(queue)["totals"]["succeeded"] == 5)


def test_quick_handlers_have_jobs_ahead_that_a_slow_one_gives_back(client: Client, queue: str, run: Run, until: Until) -> None:
    worker, gate, ran = Worker(client, queue, concurrency=1), threading.Event(), list[int]()
    hangs = threading.Event()

    @worker.handler("*")
    def handle(number: int) -> None:
        ran.append(number)
        if worker._dispatcher is not None and worker._dispatcher._waiting:
            hangs.set()
            gate.wait(30)

    client.push_many([NewJob(queue, number) for number in range(300)])
    run(worker)
    until(hangs.is_set)
    # All but the one that hangs are handed out to others.
    until(lambda: client.queues.get(queue)["running"] == 1)
    assert worker.health()["running"] == 1
    gate.set()
    until(lambda: client.queues.get(queue)["succeeded"] == 300)
    assert worker.health()["released"] > 0
    assert sorted(ran) == list(range(300))


def test_no_job_is_ahead_if_none_may_be(client: Client, queue: str, run: Run, until: Until) -> None:
    worker, gate = Worker(client, queue, concurrency=1, ahead=False), threading.Event()
    worker.handler("*")(lambda number: gate.wait(30) if number == 100 else None)
    client.push_many([NewJob(queue, number) for number in range(130)])
    run(worker)
    until(lambda: client.queues.get(queue)["ready"] <= 29 and worker.health()["succeeded"] == 100)
    counts = client.queues.get(queue)
    assert (counts["running"], counts["ready"]) == (1, 29)
    gate.set()
    until(lambda: client.queues.get(queue)["succeeded"] == 130)
    assert worker.health()["released"] == 0


def test_a_stop_lets_handlers_end_and_leaves_the_rest(client: Client, queue: str, run: Run) -> None:
    worker, begun, gate = Worker(client, queue, concurrency=1), threading.Event(), threading.Event()

    @worker.handler("*")
    def handle() -> str:
        begun.set()
        gate.wait(30)
        return "done"

    client.push_many([NewJob(queue, n) for n in range(3)])
    thread = run(worker)
    assert begun.wait(10)
    worker.stop()
    gate.set()
    thread.join(10)
    counts = client.queues.get(queue)
    assert (counts["succeeded"], counts["ready"], counts["running"]) == (1, 2, 0)


def test_what_does_not_end_in_time_is_given_back(client: Client, queue: str, run: Run, until: Until) -> None:
    worker, gate = Worker(client, queue, concurrency=2, stop_deadline=0.2), threading.Event()
    asked: list[Any] = []

    @worker.handler("*")
    def handle(how: str, job: RunningJob) -> None:
        if how == "heeds":
            job.cancelled.wait(30)
            asked.append(job.cancel_reason)
            job.raise_if_cancelled()
        gate.wait(30)

    ids = [client.push(queue, how).id for how in ("heeds", "hangs")]
    thread = run(worker)
    until(lambda: worker.health()["running"] == 2)
    worker.stop()
    thread.join(10)
    gate.set()
    assert not thread.is_alive()
    assert asked == ["stopping"]
    assert [(client.get(id).state, client.get(id).attempt) for id in ids] == [("ready", 0)] * 2


def test_a_server_that_goes_away_is_told_once_and_comes_back(
    queue: str, run: Run, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "duetime")
    first = Server()
    port = first.url.rsplit(":", 1)[1]
    client = first.client()
    worker = Worker(client, queue, lease=3, wait=1)
    begun, gate = threading.Event(), threading.Event()

    @worker.handler("*")
    def handle() -> None:
        begun.set()
        gate.wait(30)

    client.push(queue, 1)
    run(worker)
    assert begun.wait(10)
    first.stop()
    client.close()
    until(lambda: not worker.health()["connected"])
    gate.set()
    arguments = Server.arguments
    try:
        Server.arguments = ("serve", "--store", "memory", "--listen", f"127.0.0.1:{port}")
        second = Server()
    finally:
        Server.arguments = arguments
    with second, second.client() as other:
        done = other.push(queue, 2).id
        until(lambda: other.get(done).state == "succeeded")
        worker.stop(at_once=True)
    said = [record.message for record in caplog.records if record.name == "duetime"]
    assert len([text for text in said if "does not answer" in text]) == 1
    assert len([text for text in said if "answers again" in text]) == 1


def test_a_worker_waits_for_what_an_operator_repairs() -> None:
    settled: list[bytes] = []
    asked: list[Any] = []
    lease = {**BODY, "receipt": "7.1", "lease": "1h"}
    full = (507, {"code": "store_full", "status": 507, "detail": "full"})
    refused = (401, {"code": "unauthorized", "status": 401, "detail": "expired"})
    settles = [full, refused, (403, "<html>"), (200, [None])]
    reserves = [
        (503, "<html>"),
        (503, "<html>"),
        (200, {"leases": [lease]}),
        refused,
        (404, "<html>"),
        (200, {"leases": {"a": 7}}),
        (200, None),
    ]

    class Answers(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["content-length"]))
            status: int
            answer: Any
            if self.path == "/v1/settle":
                settled.append(text)
                status, answer = settles.pop(0) if settles else (200, [{"receipt": "7.1", "state": "succeeded"}])
            elif self.path == "/v1/extend":
                status, answer = 200, [{"receipt": "7.1"}]
            else:
                asked.append(json.loads(text or b"{}"))
                status, answer = reserves.pop(0) if reserves else (200, {"leases": []})
            if not settles and not reserves:
                worker.stop()
            body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listener:
        listener.daemon_threads = True
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        worker = Worker(Client(f"http://127.0.0.1:{listener.server_address[1]}"), "orders", concurrency=1)
        worker.handler("k")(lambda payload: payload)
        summary = worker.run()
        listener.shutdown()
        thread.join()
    assert (summary.succeeded, summary.failed) == (1, 0)
    assert settled[:5] == [b'[{"receipt":"7.1","complete":{"result":{"order":4711}}}]'] * 5
    # A repeat gets the jobs of a lost answer, and does not wait for others.
    assert asked[0]["request_id"] == asked[2]["request_id"] != asked[3]["request_id"]
    assert ["wait" in one for one in asked[:4]] == [True, True, False, True]


def test_a_worker_that_may_not_work_says_so(server: Server, queue: str) -> None:
    worker = Worker(Client(server.url), ["-"])
    worker.handler("*")(lambda: None)
    with pytest.raises(DuetimeError, match="queue"):
        worker.run()
    assert Unauthorized.__doc__
    with pytest.raises(RuntimeError, match="no handlers"):
        Worker(Client(server.url)).run()
    for wrong in ({"concurrency": 0}, {"pool": "greenlets"}, {"queues": []}):
        worker = Worker(Client(server.url), **wrong)  # type: ignore[arg-type]
        worker.handler("*")(lambda: None)
        with pytest.raises(ValueError, match=r"concurrency|pool|queue"):
            worker.run()


def test_health_is_json(client: Client) -> None:
    assert json.loads(json.dumps(Worker(client).health()))["phase"] == "idle"
