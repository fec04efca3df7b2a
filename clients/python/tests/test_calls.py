"""Repeats, over a scripted transport: nothing is sent, and nothing waits."""

from __future__ import annotations

import asyncio
import json
import pickle
from datetime import timedelta
from typing import Any

import pytest
from conftest import Script

from duetime import (
    AsyncClient,
    Client,
    Conflict,
    DuetimeError,
    Forbidden,
    Invalid,
    LeaseLost,
    NewJob,
    NotFound,
    Protocol,
    RateLimited,
    Unauthorized,
    Unavailable,
    WaitTimeout,
)
from duetime.errors import of_problem
from duetime.transport import Lost, Reply, Request, Unsent

JOB = {
    "id": "7",
    "queue": "q",
    "kind": "default",
    "payload": 1,
    "state": "ready",
    "due_at": "2027-01-01T00:00:00.000Z",
    "priority": 1024,
    "attempt": 0,
    "crashes": 0,
    "version": 1,
    "created_at": "2027-01-01T00:00:00.000Z",
    "updated_at": "2027-01-01T00:00:00.000Z",
}
PUSHED = json.dumps({**JOB, "outcome": "created"}).encode()


def client(*answers: object, servers: str = "http://a", **options: Any) -> tuple[Client, Script]:
    script = Script(*answers)
    return Client(servers, token="", transport=script, **options), script


def problem(status: int, code: str, **more: object) -> Reply:
    body = json.dumps({"code": code, "status": status, "detail": "no", **more}).encode()
    return Reply(status, {"content-type": "application/problem+json", "request-id": "r-1"}, body)


def page(status: int) -> Reply:
    return Reply(status, {"content-type": "text/html"}, b"<html>gateway</html>")


def test_a_push_is_repeated_with_the_same_origin() -> None:
    calls, script = client(Lost("cut"), PUSHED.replace(b'"created"', b'"repeated"'))
    assert calls.push("q", 1).outcome == "created"
    first, second = (json.loads(request.body or b"") for request in script.requests)
    assert first == second
    assert len(first["origin"]) == 32


def test_a_repeat_of_ones_own_origin_is_told() -> None:
    calls, _ = client(PUSHED.replace(b'"created"', b'"repeated"'))
    assert calls.push("q", 1, origin="placed-7").outcome == "repeated"


def test_a_push_is_tried_twice_by_default() -> None:
    calls, script = client(Unsent("refused"), Lost("no answer"), PUSHED)
    with pytest.raises(Unavailable, match="tried 2 times") as gone:
        calls.push("q", 1)
    assert gone.value.code == "unreachable"
    assert len(script.requests) == 2
    assert all(request.timeout <= 5 for request in script.requests)


@pytest.mark.parametrize(
    "failure", [Unsent("no"), Lost("no"), problem(503, "stopping"), problem(408, "timeout"), page(200), page(502), page(504)]
)
def test_what_passes_is_repeated(failure: object) -> None:
    calls, script = client(failure, failure, b'{"reasons": []}')
    assert calls.why("7") == {"reasons": []}
    assert len(script.pauses) == 2
    assert script.pauses[0] < script.pauses[1] <= 0.4


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (problem(400, "invalid", field="delay", expected="a duration", got='"soon"'), Invalid, "invalid"),
        (problem(401, "unauthorized"), Unauthorized, "unauthorized"),
        (problem(403, "forbidden"), Forbidden, "forbidden"),
        (problem(404, "not_found"), NotFound, "not_found"),
        (problem(409, "job_running"), Conflict, "job_running"),
        (problem(412, "version_mismatch"), Conflict, "version_mismatch"),
        (problem(409, "lease_lost"), LeaseLost, "lease_lost"),
        (problem(413, "body_too_large"), Invalid, "body_too_large"),
        (problem(418, "of_tomorrow"), Invalid, "of_tomorrow"),
        (problem(500, "internal"), DuetimeError, "internal"),
        (page(401), Unauthorized, "protocol"),
        (page(413), Invalid, "protocol"),
    ],
)
def test_what_does_not_pass_is_raised_at_once(answer: Reply, kind: type, code: str) -> None:
    calls, script = client(answer)
    with pytest.raises(DuetimeError) as refused:
        calls.get("7")
    assert (type(refused.value), refused.value.code, len(script.requests)) == (kind, code, 1)
    assert pickle.loads(pickle.dumps(refused.value)).code == code


def test_an_error_says_where() -> None:
    calls, _ = client(problem(400, "invalid", field="delay", expected="a duration", got='"soon"'))
    with pytest.raises(Invalid) as refused:
        calls.get("7")
    error = refused.value
    assert (error.field, error.expected, error.got, error.request_id, error.status) == (
        "delay",
        "a duration",
        '"soon"',
        "r-1",
        400,
    )


def test_a_page_of_a_proxy_is_shown() -> None:
    calls, script = client(*[page(200)] * 99, deadline=0.001)
    with pytest.raises(Protocol, match="<html>gateway"):
        calls.get("7")
    assert len(script.requests) == 1


@pytest.mark.parametrize("body", [b'{"id": "7"', b"", b"[1]", b'{"id": "7"}', b"null"])
def test_a_truncated_or_foreign_answer_is_a_protocol_error(body: bytes) -> None:
    calls, _ = client(*[body] * 2, deadline=0.001)
    with pytest.raises(Protocol) as refused:
        calls.get("7")
    assert refused.value.code == "protocol"


def test_retry_after_is_waited_for() -> None:
    limited = problem(429, "too_many_requests")
    limited = limited._replace(headers={**limited.headers, "retry-after": "3"})
    calls, script = client(limited, b"{}")
    calls.why("7")
    assert 3 <= script.pauses[0] < 4
    calls, script = client(limited, deadline=2)
    with pytest.raises(RateLimited) as refused:
        calls.why("7")
    assert (refused.value.retry_after, script.pauses) == ("3s", [])


def test_the_next_server_is_tried_at_once_and_kept() -> None:
    calls, script = client(Unsent("no"), b"{}", b"{}", servers="http://a, http://b")
    calls.why("7")
    calls.why("7")
    assert [request.server for request in script.requests] == ["http://a", "http://b", "http://b"]
    assert script.pauses == []


def test_a_cancel_whose_answer_was_lost_is_told_as_it_was() -> None:
    cancelled = json.dumps({**JOB, "state": "cancelled"}).encode()
    calls, _ = client(Lost("cut"), b'{"outcome": "already_finished"}', cancelled)
    assert calls.cancel("7") == "cancelled"
    calls, _ = client(b'{"outcome": "already_finished"}')
    assert calls.cancel("7") == "already_finished"
    found = b'{"jobs": [' + cancelled + b'], "next_cursor": null}'
    calls, _ = client(Lost("cut"), b"{}", found)
    assert calls.cancel_by_key("q", "k") == "cancelled"
    old = json.dumps({**JOB, "state": "cancelled", "updated_at": "2020-01-01T00:00:00Z"}).encode()
    calls, _ = client(Lost("cut"), b"{}", b'{"jobs": [' + old + b'], "next_cursor": null}')
    assert calls.cancel_by_key("q", "k") == "none"
    calls, _ = client(Unsent("nobody there"), b"{}")
    assert calls.cancel_by_key("q", "k") == "none"


def test_what_an_earlier_try_did_counts_as_done() -> None:
    calls, _ = client(Lost("cut"), problem(404, "not_found"))
    calls.delete("7")
    calls, _ = client(problem(404, "not_found"))
    with pytest.raises(NotFound):
        calls.delete("7")
    calls, _ = client(Unsent("nobody there"), problem(404, "not_found"))
    with pytest.raises(NotFound):
        calls.delete("7")
    calls, _ = client(Lost("cut"), problem(409, "job_live"), json.dumps(JOB).encode())
    assert calls.retry("7").id == "7"


def test_after_a_lost_answer_nobody_knows_who_changed_a_version() -> None:
    mismatch = problem(412, "version_mismatch")
    calls, script = client(Lost("cut"), mismatch)
    with pytest.raises(Unavailable, match="cut"):
        calls.change("7", priority=1, if_version=3)
    assert [request.headers["if-match"] for request in script.requests] == ['"3"', '"3"']
    calls, _ = client(Unsent("nobody there"), mismatch)
    with pytest.raises(Conflict):
        calls.cancel("7", if_version=3)
    calls, _ = client(Lost("cut"), json.dumps(JOB).encode())
    assert calls.reschedule("7", delay=1, if_version=3).id == "7"


def test_pushes_go_in_batches_and_each_is_answered() -> None:
    def all_of(request: Request) -> bytes:
        return b"[" + b",".join([PUSHED] * len(json.loads(request.body or b""))) + b"]"

    calls, script = client(all_of, all_of, all_of)
    jobs = [NewJob("q", n) for n in range(1_001)] + [
        NewJob("q", object()),
        NewJob("q", "x" * (40 << 20)),
        NewJob("q", "y" * (20 << 20)),
    ]
    answers = calls.push_many(jobs)
    assert [len(json.loads(request.body or b"")) for request in script.requests] == [1_000, 2, 1]
    assert (len(answers), type(answers[1_001])) == (1_004, Invalid)


def test_a_try_has_its_whole_time_even_if_only_a_quick_failure_is_repeated() -> None:
    calls, script = client(problem(503, "stopping"), b"{}")
    asyncio.run(calls._caller.call("POST", "/v1/reserve", {}, wait=20, retry_within=1))
    assert [request.timeout for request in script.requests] == [25, 25]
    calls, script = client(problem(503, "stopping"))
    with pytest.raises(Unavailable, match="stopping"):
        asyncio.run(calls._caller.call("POST", "/v1/reserve", {}, retry_within=0))
    assert len(script.requests) == 1


def test_wait_ends_with_the_job_or_the_time() -> None:
    running, done = json.dumps(JOB).encode(), json.dumps({**JOB, "state": "succeeded", "result": [1]}).encode()
    calls, script = client(running, done)
    assert calls.wait("7", 30).result == [1]
    assert script.requests[0].path == "/v1/jobs/7?wait=20000ms"
    assert script.requests[0].timeout == 25
    calls, _ = client(running)
    with pytest.raises(WaitTimeout):
        calls.wait("7", 0)


def test_names_are_escaped() -> None:
    calls, script = client(PUSHED)
    calls.push("a/b;c", 1)
    assert script.requests[0].path == "/v1/queues/a%2Fb%3Bc/jobs"


def test_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_SERVER", "http://one:7300/,unix:/run/duetime.sock")
    monkeypatch.setenv("DUETIME_TOKEN", "secret")
    settings = Client()._caller.settings
    assert (settings.servers, settings.token) == (("http://one:7300", "unix:/run/duetime.sock"), "secret")
    for wrong in ("localhost:7300", "", "ftp://x", "http:"):
        with pytest.raises(Invalid):
            Client(wrong or [])
    with pytest.raises(TypeError):
        Client(time_out=3)  # type: ignore[call-arg]


def test_options_share_the_connections() -> None:
    calls, script = client(b"{}")
    calls.with_options(timeout=1).why("7")
    assert script.requests[0].timeout == 1


async def test_the_awaiting_client_makes_the_same_calls() -> None:
    script = Script(Lost("cut"), PUSHED, b'{"outcome": "cancelled"}', b'{"jobs": [], "next_cursor": null}')
    calls = AsyncClient("http://a", token="t", transport=script)
    assert (await calls.push("q", 1)).id == "7"
    assert await calls.cancel("7") == "cancelled"
    assert [job async for job in calls.jobs(queue="q")] == []
    assert script.requests[0].headers["authorization"] == "Bearer t"


def test_a_name_that_is_missing_does_not_widen_a_call() -> None:
    calls, script = client()
    nothing: Any = None
    for wrong in (
        lambda: calls.cancel_by_key("q", nothing),
        lambda: calls.cancel_by_tag(nothing, "q"),
        lambda: calls.cancel_by_key("", "k"),
        lambda: calls.find("q", ""),
        lambda: calls.delete(""),
        lambda: calls.queues.purge(nothing),
        lambda: calls.get("half \ud800"),
    ):
        with pytest.raises(Invalid):
            wrong()
    assert script.requests == []


def test_time_limits_are_durations() -> None:
    script = Script(PUSHED)
    Client("http://a", transport=script, timeout="1m", push_deadline=timedelta(seconds=7)).push("q", 1)
    assert 6 < script.requests[0].timeout <= 7
    with pytest.raises(Invalid, match="timeout"):
        Client("http://a", timeout="soon")


def test_a_problem_without_a_detail_is_an_error_too() -> None:
    assert of_problem({}, 418).code == "http_418"
    assert of_problem({"code": {}, "status": "x", "detail": 7}, 409).status == 409


def test_methods_are_documented() -> None:
    assert "Pushes a job" in (Client.push.__doc__ or "")
    assert Client.push.__name__ == AsyncClient("http://a").push.__name__ == "push"


def test_events_connect_again_and_say_that_some_may_be_missing() -> None:
    lines = ["retry: 1000", "event: subscribed", 'data: {"at":"x"}', ""]
    one = ["event: pushed", 'data: {"id":"7","queue":"q","kind":"k"}', "", ":", ""]
    script = Script([*lines, *one, Lost("cut")], Unsent("no"), problem_lines(), [*lines, *one, *one])
    events = Client("http://a", transport=script).events(queue=["q", "r*"], what="pushed")
    seen = [next(events) for _ in range(4)]
    assert [(event.type, event.id) for event in seen] == [("pushed", "7"), ("lost", None), ("pushed", "7"), ("pushed", "7")]
    assert script.requests[0].path == "/v1/events?queue=q&queue=r%2A&what=pushed"


def problem_lines() -> list[Reply]:
    return [problem(503, "stopping")]


def test_events_that_are_refused_raise() -> None:
    script = Script([problem(400, "invalid")])
    with pytest.raises(Invalid):
        next(Client("http://a", transport=script).events(what="nothing"))


def test_events_are_waited_for_as_long_as_it_takes() -> None:
    failures: list[Any] = [Lost("cut")] * 1_100
    script = Script(*failures, ["event: pushed", 'data: {"id":"7"}', ""])
    assert next(Client("http://a", transport=script).events()).id == "7"
    assert max(script.pauses) <= 5


def test_events_with_ids_go_on_where_they_broke() -> None:
    first = ["event: subscribed", "data: {}", "", "id: 41", "event: pushed", 'data: {"id":"7"}', "", Lost("cut")]
    script = Script(first, ["event: subscribed", "data: {}", "", "event: pushed", 'data: {"id":"8"}', ""])
    events = Client("http://a", transport=script).events()
    assert [next(events).id, next(events).id] == ["7", "8"]
    assert script.requests[1].headers["last-event-id"] == "41"
