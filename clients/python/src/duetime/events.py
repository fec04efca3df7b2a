"""Events of jobs: a stream of server-sent events that connects again when it breaks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

from . import calls, errors
from .calls import Caller
from .models import Event
from .transport import Lost, Reply, Unsent

#: Without a sign of life for so long, the connection counts as lost: the server gives one each 15 seconds.
SILENCE = 45.0


async def events(caller: Caller, query: Mapping[str, object]) -> AsyncIterator[Event]:
    """Reads the events of this query, without end. Raises what the server refuses."""
    path = calls.path("events") + calls.query_string(query)
    last_id, failures, was_subscribed = "", 0, False
    while True:
        headers = {"last-event-id": last_id} if last_id else {}
        try:
            kind, data = "", ""
            async for line in caller.transport.lines(caller.stream_request(path, headers, SILENCE)):
                if isinstance(line, Reply):
                    calls.read(line)
                    raise errors.of_page(line.body, line.status, "the answer is no stream of events")
                name, _, value = line.partition(":")
                value = value[1:] if value.startswith(" ") else value
                if name == "event":
                    kind = value
                elif name == "data":
                    data += value
                elif name == "id":
                    last_id = value
                elif not line and kind:
                    failures = 0
                    if kind == "subscribed":
                        if was_subscribed and not last_id:
                            yield Event("lost", None, None, None, {})
                        was_subscribed = True
                    elif kind not in ("lost", "stopping"):
                        yield _event(kind, data)
                    kind, data = "", ""
        except (Unsent, Lost):
            pass
        except errors.DuetimeError as refused:
            if not calls.passes(refused):
                raise
        caller.next_server()
        failures += 1
        await caller.transport.sleep(calls.backoff(failures))


def _event(kind: str, data: str) -> Event:
    try:
        body = json.loads(data)
        return Event(kind, body.get("id"), body.get("queue"), body.get("kind"), body)
    except (ValueError, AttributeError):
        raise errors.of_page(data.encode("utf-8", "replace"), 200, "the event is not JSON") from None
