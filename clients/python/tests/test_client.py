"""Both clients against the real server."""

from __future__ import annotations

import asyncio
import functools
import gc
import http.server
import inspect
import os
import pathlib
import pickle
import socketserver
import subprocess
import threading
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

import pytest

from duetime import (
    AsyncClient,
    Client,
    Conflict,
    Invalid,
    JobOptions,
    LockHeld,
    LockLost,
    NewJob,
    NotFound,
    Park,
    Release,
    RunningJob,
    Selection,
    Unavailable,
    Worker,
)
from duetime.groups import SPANS, Queues, Schedules
from duetime.testing import Fake, Server
from duetime.transport import finish


def test_a_job_is_pushed_found_and_cancelled_by_its_key(client: Client, queue: str) -> None:
    pushed = client.push(
        queue, {"order": 4711}, kind="order.cancel", key="order-4711", delay="30m", tags=["shop:7"], max_attempts=3
    )
    assert (pushed.outcome, pushed.state, pushed.queue) == ("created", "scheduled", queue)
    assert client.push(queue, {}, key="order-4711").outcome == "kept"
    with pytest.raises(Conflict) as conflict:
        client.push(queue, {}, key="order-4711", on_conflict="reject")
    assert (conflict.value.code, conflict.value.holder) == ("key_conflict", pushed.id)
    job = client.find(queue, "order-4711")
    assert job is not None
    assert (job.id, job.payload, job.tags, job.raw["max_attempts"]) == (pushed.id, {"order": 4711}, ("shop:7",), 3)
    assert client.cancel_by_key(queue, "order-4711") == "cancelled"
    assert client.cancel_by_key(queue, "order-4711") == "none"
    assert client.get(pushed.id).state == "cancelled"


@pytest.mark.parametrize("payload", [2**70 + 1, "\ud800", b"\x00\xff", [[[[{}]]]], "é€", None, 1.5, {"a": None}])
def test_payloads_come_back_as_they_went(client: Client, queue: str, payload: object) -> None:
    assert client.get(client.push(queue, payload).id).payload == payload


@pytest.mark.parametrize("text", ['{"f":0.1000000000000000055, "z":[-0],"t":1,"t":2}', "[1e400]", '"\\ud800"'])
def test_the_text_of_payload_and_result_is_there_to_the_character(client: Client, queue: str, text: str) -> None:
    id = client.push(queue, text.encode()).id
    worker = Worker(client, queue)
    worker.handler("*")(lambda payload, job: (job.payload_text or "").encode())
    assert worker.drain().succeeded == 1
    for job in (client.get(id), *client.jobs(queue=queue)):
        job = pickle.loads(pickle.dumps(job))
        assert (job.payload_text, job.result_text) == (text, text)
    other = client.get(client.push(queue, b"\xff").id)
    assert (other.payload_text, other.result_text) == (None, None)


def test_every_option_of_the_server_is_there(client: Client, queue: str) -> None:
    api = finish(client._caller.call("GET", "/openapi.json")).data

    def fields(schema: str, *others: str) -> set[str]:
        """The fields of a body, without those that have another name here."""
        return set(api["components"]["schemas"][schema]["properties"]) - {"delay_ms", "due_at_ms", *others}

    def given(*methods: Callable[..., Any]) -> set[str]:
        parameters = [one for method in methods for one in inspect.signature(method).parameters.values()]
        return {one.name for one in parameters if one.kind is one.KEYWORD_ONLY} - {"if_version"}

    def query(verb: str, path: str) -> set[str]:
        named = [
            api["components"]["parameters"].get(one.get("$ref", "").split("/")[-1], one)
            for one in api["paths"][path][verb]["parameters"]
        ]
        return {one["name"] for one in named if one["in"] == "query"}

    push = fields("Push", "queue", "payload", "payload_base64")
    assert set(JobOptions.__annotations__) == push
    assert set(Selection.__annotations__) == fields("Selection")
    assert given(Client.retry_all) == query("post", "/v1/jobs/retry")
    assert given(Client.reschedule_all) == fields("Reschedule", "selection")
    assert given(Client.change, Client.reschedule) == fields("Patch", "payload_base64")
    assert given(Queues.pause) - {"lasting"} == fields("Pause", "for")
    assert given(Schedules.set) - {"queue", "payload"} == fields("Schedule", "job") | query("put", "/v1/schedules/{name}")
    # Of the settings of a queue, numbers are durations in these.
    spans = {name for name, it in api["components"]["schemas"]["QueueChanges"]["properties"].items() if "/Span" in str(it)}
    assert set(SPANS) == spans
    job = client.get(client.push(queue, 1, meta={"tenant_id": "7"}).id)
    assert job.meta == {"tenant_id": "7"}


def test_jobs_follow_the_end_of_another(client: Client, queue: str) -> None:
    last = NewJob(queue, b"\xff", kind="last", delay=timedelta(0))
    first = client.push(queue, 1, then=[NewJob(queue, {"n": 2**70}, kind="next", then=[last])], otherwise=[NewJob(queue, 0)])
    worker = Worker(client, queue)
    seen: list[Any] = []

    @worker.handler("default")
    def one(payload: Any) -> Any:
        return {"sum": 7}

    @worker.handler("next")
    def two(payload: Any, job: RunningJob) -> None:
        seen.append((payload, job.previous))
        job.follow_with(NewJob(queue, "added", kind="last"))

    @worker.handler("last")
    def three(payload: Any) -> None:
        seen.append((payload, None))

    worker.drain()
    result = {"id": first.id, "queue": queue, "state": "succeeded", "result": {"sum": 7}}
    assert seen == [({"n": 2**70}, result), (b"\xff", None), ("added", None)]


def test_many_pushes_become_one_job(client: Client, queue: str) -> None:
    quiet = {"debounce": "1h", "at_latest": "2h"}
    first, second = [client.push(queue, n, key="page-7", on_conflict=quiet) for n in (1, 2)]
    assert (first.outcome, second.outcome, second.id) == ("created", "replaced", first.id)
    assert client.get(first.id).payload == 2


@pytest.mark.parametrize("queue", ["..", ".", "a/b;c+d"])
def test_a_queue_may_have_any_name(client: Client, queue: str) -> None:
    id = client.push(queue, queue, key="ä/..%2f", delay="1h").id
    found = client.find(queue, "ä/..%2f")
    assert found is not None
    assert (found.id, client.queues.get(queue)["scheduled"]) == (id, 1)
    assert client.queues.purge(queue) == 1


def test_a_payload_may_be_nested_deeply(client: Client, queue: str) -> None:
    payload: object = 1
    for _ in range(300):
        payload = [payload]
    assert client.get(client.push(queue, payload).id).payload == payload


def test_one_job_is_changed(client: Client, queue: str) -> None:
    id = client.push(queue, 1, delay=timedelta(hours=1), due_at=None).id
    when = datetime(2035, 1, 1, tzinfo=timezone.utc)
    assert client.reschedule(id, due_at=when).due_at == when
    version = client.change(id, payload={"new": b"x".decode()}, priority=7).version
    changes: list[Callable[..., Any]] = [client.cancel, client.run, client.retry, client.delete]
    changes += [functools.partial(client.reschedule, delay=1), functools.partial(client.change, priority=1)]
    for change in changes:
        with pytest.raises(Conflict) as conflict:
            change(id, if_version=version - 1)
        assert (conflict.value.code, conflict.value.status) == ("version_mismatch", 412)
    version = client.change(id, payload=b"\xff", if_version=version).version
    assert client.get(id).payload == b"\xff"
    ready = client.run(id, if_version=version)
    assert ready.state == "ready"
    assert client.why(id)["state"] == "ready"
    assert client.cancel(id, if_version=ready.version) == "cancelled"
    assert client.cancel(id) == "already_finished"
    ready = client.retry(id, if_version=client.get(id).version)
    assert ready.state == "ready"
    with pytest.raises(Conflict):
        client.retry(id)
    client.delete(id, if_version=ready.version)
    with pytest.raises(NotFound):
        client.get(id)
    with pytest.raises(Invalid):
        client.reschedule(id)


def test_many_jobs_are_pushed_paged_and_changed(client: Client, queue: str) -> None:
    answers = client.push_many([NewJob(queue, n, tags=["all", f"n:{n % 2}"], delay="1h") for n in range(1_500)] + [NewJob("-", 1)])
    assert [type(one).__name__ for one in answers[-2:]] == ["Pushed", "Invalid"]
    assert sorted(job.payload for job in client.jobs(queue=queue)) == list(range(1_500))
    assert client.reschedule_all(queue=queue, tag="n:0", delay=60) == {"rescheduled": 750}
    assert client.cancel_by_tag("n:1", queue) == {"cancelled": 750}
    assert client.retry_all(queue=queue, state="cancelled", spread="1h") == {"retried": 750}
    assert len({job.due_at for job in client.jobs(queue=queue, tag="n:1")}) > 700
    assert client.reschedule_all(queue=queue, tag="n:1", delay="2h", spread=3600) == {"rescheduled": 750}
    assert client.cancel_all(queue=queue) == {"cancelled": 1_500}
    assert client.delete_all(queue=queue, state=["cancelled", "failed"]) == {"deleted": 1_500}
    assert list(client.jobs(queue=queue)) == []


def test_queues_and_schedules(client: Client, queue: str) -> None:
    client.queues.set(queue, lease=90, max_running=3, retry={"fixed": {"delay": "30s"}})
    assert client.queues.set(queue, max_running=None)["settings"] == {"lease": "1m30s", "retry": {"fixed": {"delay": "30s"}}}
    assert client.queues.pause(queue, lasting=60)["paused"] is True
    assert client.queues.resume(queue)["paused"] is False
    client.queues.set(queue, max_waiting=1, when_full="drop")
    assert [client.push(queue, n, delay=60).outcome for n in (1, 2)] == ["created", "dropped"]
    client.queues.set(queue, max_waiting=None, when_full=None)
    assert client.queues.purge(queue) == 1
    assert client.queues.get(queue)["totals"]["cancelled"] == 1
    typo = queue + "-tpyo"
    client.push(typo, 1, delay=60)
    with pytest.raises(Conflict, match="1 job waits"):
        client.queues.delete(typo)
    assert client.queues.delete(typo, force=True) == {"existed": True, "cancelled": 1, "deleted": 1}
    assert client.queues.delete(typo)["existed"] is False
    assert queue in [one["queue"] for one in client.queues.list()]
    shown = client.schedules.set(queue, queue=queue, kind="beat", payload={"x": 1}, every=90, overlap="skip", spread=60, tags=["t"])
    assert shown["schedule"]["spread"] == "1m"
    client.schedules.set(queue, queue=queue, every=180, paused=True, dry_run=True)
    shown = client.schedules.get(queue)
    assert (shown["schedule"]["every"], shown["schedule"]["job"]["payload"]) == ("1m30s", {"x": 1})
    assert len(client.schedules.next(queue, limit=3)) == 3
    job = client.get(client.schedules.run(queue).id)
    assert (job.kind, job.queue) == ("beat", queue)
    client.schedules.pause(queue)
    client.schedules.resume(queue)
    assert client.schedules.get(queue)["name"] == queue
    assert queue in [one["name"] for one in client.schedules.list()]
    client.schedules.delete(queue)
    with pytest.raises(NotFound):
        client.schedules.delete(queue)


def test_a_lock_is_held_by_one_and_renews_itself(client: Client, queue: str) -> None:
    with client.lock(queue, ttl=0.3) as lock:
        fence = lock.fence
        with pytest.raises(LockHeld):
            client.lock(queue).acquire()
        # Longer than its time to live: the thread has renewed it.
        assert not lock.lost.wait(0.7)
        with pytest.raises(LockHeld):
            client.lock(queue).acquire()
    with pytest.raises(LockLost):
        _ = lock.fence
    with client.lock(queue, wait=5) as again:
        assert again.fence > fence


def test_a_lost_lock_is_told(client: Client, queue: str) -> None:
    with client.lock(queue, ttl=0.3) as lock:
        other = client.with_options()
        query = {"owner": lock.owner, "fence": lock.fence}
        finish(other._caller.call("DELETE", f"/v1/locks/{queue}", query=query))
        assert lock.lost.wait(10)


def test_results_are_waited_for(client: Client, queue: str) -> None:
    id = client.push(queue, 1).id
    client.cancel(id)
    assert client.wait(id, 5).state == "cancelled"


def test_nobody_there(queue: str) -> None:
    with pytest.raises(Unavailable) as gone:
        Client("http://127.0.0.1:9", push_tries=1).push(queue, 1)
    assert gone.value.code == "unreachable"


def test_a_fork_has_connections_of_its_own(client: Client, queue: str) -> None:
    client.push(queue, "parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            client.push(queue, "child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    client.push(queue, "parent")
    assert sorted(job.payload for job in client.jobs(queue=queue)) == ["child", "parent", "parent"]


def test_a_unix_socket(tmp_path: object) -> None:
    path = f"{tmp_path}/s"

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"state": "ready", "reasons": []}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return "unix"

    with socketserver.UnixStreamServer(path, Answers) as listener:
        thread = threading.Thread(target=listener.handle_request)
        thread.start()
        with Client(f"unix:{path}") as client:
            assert client.why("7")["state"] == "ready"
        thread.join()


def test_a_server_with_its_own_authority(tmp_path: pathlib.Path, queue: str) -> None:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    kind = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
    named = ("-subj", "/CN=duetime", "-addext", "subjectAltName=IP:127.0.0.1", "-out", cert, "-keyout", key)
    subprocess.run(["openssl", *kind, *named], check=True, stderr=subprocess.DEVNULL)

    class Secret(Server):
        arguments = ("serve", "--test", "--tls-cert", cert, "--tls-key", key)

    with Secret() as server, server.client(ca=cert) as client:
        assert server.url.startswith("https:")
        worker = Worker(client, queue)
        worker.handler("*")(lambda: "done")
        pushed = client.push(queue, 1)
        assert worker.drain().succeeded == 1
        assert client.get(pushed.id).result == "done"
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"), server.client(push_deadline=0.5) as stranger:
            stranger.push(queue, 1)

        async def push() -> None:
            async with server.async_client(ca=cert) as awaiting:
                assert (await awaiting.push(queue, 1)).outcome == "created"

        asyncio.run(push())


def test_an_authority_that_cannot_be_read_is_told_at_once(tmp_path: pathlib.Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    for file in ("/no/such.pem", str(tmp_path / "no.pem")):
        with pytest.raises(Invalid) as raised:
            Client("https://127.0.0.1", ca=file)
        assert raised.value.field == "ca"


@pytest.mark.parametrize(
    "first", ["HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n", "HTTP/1.1 200 OK\r\nslow:"]
)
def test_a_slow_answer_ends_with_its_try(first: str) -> None:
    class Drips(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(first.encode())
            try:
                while not stopped.wait(0.02):
                    self.request.sendall(b" ")
            except OSError:
                pass

    stopped = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Drips) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            client = Client(f"http://127.0.0.1:{listener.server_address[1]}", timeout=0.2, deadline=0.3)
            with client, pytest.raises(Unavailable, match="ReadTimeout"):
                client.why("7")
        finally:
            stopped.set()
            listener.shutdown()
            thread.join()


async def test_the_awaiting_client(server: Server, queue: str) -> None:
    async with server.async_client() as client:
        first = await client.push(queue, {"n": 1}, delay=3600, key="k")
        assert await client.find(queue, "k") is not None
        async with client.lock(queue, ttl=1) as lock:
            assert lock.fence > 0
        for every, expected in ((None, ("changed", first.id)), ("100ms", ("activity", None))):
            events = client.events(queue=queue, every=every)
            waiting = asyncio.ensure_future(events.__anext__())
            while not waiting.done():
                # The stream has begun once one of these is seen.
                await client.reschedule(first.id, delay=3600)
                await asyncio.wait([waiting], timeout=0.05)
            assert ((await waiting).type, (await waiting).id) == expected
            await events.aclose()  # type: ignore[attr-defined]
        assert [job.id async for job in client.jobs(queue=queue)] == [first.id]
        assert await client.cancel_by_key(queue, "k") == "cancelled"
        assert [one["queue"] async for one in client.queues.list() if one["queue"] == queue] == [queue]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_awaiting_client_outlives_its_loop(server: Server, queue: str) -> None:
    import asyncio

    client = AsyncClient(server.url)
    assert [asyncio.run(client.push(queue, n)).outcome for n in range(2)] == ["created", "created"]
    del client
    gc.collect()  # The connections of the first loop are told to be open within this test.


def test_a_fake_runs_handlers_inline(duetime_fake: Fake) -> None:
    worker = Worker(queues="mail")

    @worker.handler("*")
    def handle(how: str) -> str:
        if how == "later":
            raise Release("1h", priority=9)
        if how == "by hand":
            raise Park("check it", priority=7)
        return how

    for how in ("now", "later", "by hand"):
        duetime_fake.client.push("mail", how)
    assert duetime_fake.run(worker) == 3
    assert [(job.state, job.attempt, job.priority, job.result, job.message) for job in duetime_fake.pushed("mail")] == [
        ("succeeded", 1, 1024, "now", None),
        ("scheduled", 0, 9, None, None),
        ("failed", 1, 7, None, "check it"),
    ]


def test_the_clock_of_a_server_for_tests_is_moved(duetime_server: Server) -> None:
    duetime_server.advance("1s")
    with duetime_server.client() as client:
        job = client.push("clock", 7, delay="30d")
        worker = Worker(client, "clock")
        worker.handler("default")(lambda payload: payload + 1)
        assert worker.drain().succeeded == 0
        duetime_server.advance("30d")
        assert worker.drain().succeeded == 1
        assert client.wait(job.id, 5).result == 8
