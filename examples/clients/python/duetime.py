"""A small client of Duetime's HTTP API: Python 3.9 or later and its standard library. Copy this file.

The environment has the server's address (`DUETIME_SERVER`) and, if it requires one, the token (`DUETIME_TOKEN`).
"""

import base64
import http.client
import json
import os
import random
import secrets
import socket
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import quote, urlencode

TRIES = 6
# Errors of the server's state. A retry does not help with any other refusal.
LATER = {408, 429, 502, 503, 504}


class Problem(Exception):
    """The server refused. `code` is stable; the text is for people. Code `unreachable`: there was no answer."""

    def __init__(self, status, code, detail, document=None):
        super().__init__(f"{code}: {detail}")
        self.status, self.code, self.document = status, code, document or {}


class Final(Exception):
    """Raised by a handler: the job has failed for good and is not retried."""


class Client:
    def __init__(self, server=None, token=None):
        self.server = (server or os.environ.get("DUETIME_SERVER") or "http://127.0.0.1:7300").rstrip("/")
        self.token = token or os.environ.get("DUETIME_TOKEN")

    def push(self, queue, job):
        """When this returns, the job is recorded. Its origin identifies the push, so a repeat makes no second job."""
        return self.call("POST", f"/v1/queues/{quote(queue, '')}/jobs", {"origin": secrets.token_hex(16), **job})

    def cancel(self, id):
        return self.call("POST", f"/v1/jobs/{id}/cancel")["outcome"]

    def reserve(self, queue, limit=1, lease="60s", wait="5s"):
        """Leases due jobs, or waits if none is due. A repeat gets the same jobs."""
        worker = f"{socket.gethostname()}:{os.getpid()}"
        request = {"limit": limit, "lease": lease, "wait": wait, "worker": worker, "request_id": secrets.token_hex(8)}
        return self.call("POST", f"/v1/queues/{quote(queue, '')}/reserve", request)["leases"]

    def settle(self, receipt, verb, **body):
        """`complete` (result), `fail` (message, final, retry_after), `release` (delay) or `extend` (lease)."""
        return self.call("POST", f"/v1/leases/{receipt}/{verb}", body)

    def lock(self, name, owner, **body):
        """Acquires (ttl, wait); with a fence it renews. Returns `fence` and `expires_at`."""
        return self.call("PUT", f"/v1/locks/{quote(name, '')}", {"owner": owner, **body})

    def unlock(self, name, owner, fence):
        self.call("DELETE", f"/v1/locks/{quote(name, '')}?{urlencode({'owner': owner, 'fence': fence})}")

    def call(self, method, path, body=None):
        """Calls the API, and repeats the call for some seconds while the server is unavailable. Every call is safe to repeat."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(method, path, body)
            except Problem as problem:
                passes = problem.status in LATER or problem.code == "unreachable"
                if attempt == TRIES or not passes:
                    raise
                time.sleep(min(0.1 * 2**attempt, 5) * random.uniform(0.5, 1))

    def _once(self, method, path, body):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        try:
            # Longer than any wait that this client requests.
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                document = json.loads(text)
                code, detail = document["code"], document["detail"]
            except (ValueError, KeyError, TypeError):
                # Not from the server: a proxy's page, perhaps.
                document, code, detail = None, f"http_{error.code}", text[:200]
            raise Problem(error.code, code, detail, document) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Problem(0, "unreachable", f"{self.server}: {error}") from None


class Lease:
    """The argument of a handler: `job`, and `lost`, an event that is set when it should stop."""

    def __init__(self, client, job, seconds):
        self.client, self.job, self.lost, self._done = client, job, threading.Event(), threading.Event()
        self._seconds = seconds
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _keep(self):
        while not self._done.wait(self._seconds / 3):
            try:
                if self.client.settle(self.job["receipt"], "extend")["cancel_requested"]:
                    self.lost.set()
            except Problem as problem:
                if problem.code == "lease_lost":
                    return self.lost.set()

    def end(self):
        self._done.set()
        self._keeper.join()


def payload_of(job):
    """The pushed payload. JSON that some decoders refuse comes in base64, as do bytes that are not JSON."""
    if "payload" in job:
        return job["payload"]
    try:
        return json.loads(base64.b64decode(job["payload_base64"]))
    except (ValueError, RecursionError) as error:
        raise Final(f"the payload cannot be read: {error}") from None


def settle(client, job, verb, **body):
    """Settles; a result that the server refuses fails the job, so that it does not run again and again."""
    try:
        client.settle(job["receipt"], verb, **body)
    except (Problem, TypeError, ValueError) as error:
        if isinstance(error, Problem) and error.status not in (400, 413):
            raise
        client.settle(job["receipt"], "fail", message=f"the outcome was refused: {error}", final=True)


def work(client, queue, handler, stop, seconds=60):
    """Runs jobs one after the other until `stop` is set; their leases, of this many seconds, are extended meanwhile."""
    while not stop.is_set():
        try:
            jobs = client.reserve(queue, lease=f"{seconds}s")
        except Problem as problem:
            if problem.status not in LATER and problem.code != "unreachable":
                raise
            print(problem, flush=True)
            continue
        for job in jobs:
            lease = Lease(client, job, seconds)
            try:
                job["payload"] = payload_of(job)
                verb, body = "complete", {"result": handler(lease)}
            except Exception as error:
                # What the server takes: UTF-8 of at most 64 KiB.
                message = (str(error) or repr(error))[:16_000].encode(errors="replace").decode()
                verb, body = "fail", {"message": message, "final": isinstance(error, Final)}
            lease.end()
            try:
                settle(client, job, verb, **body)
            except Problem as problem:
                # `lease_lost`: another worker has the job, or the answer to an earlier settle was lost.
                print(f"job {job['id']}: {problem}", flush=True)
