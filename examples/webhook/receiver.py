#!/usr/bin/python3
"""Receives webhooks from Duetime, or from any other sender of Standard Webhooks.

    WEBHOOK_KEYS='whsec_… whsec_…' python3 receiver.py 127.0.0.1 8080

What any of the keys has signed is taken, so one can be replaced by another without a gap. Anything else is answered
with 401, which the sender tries again: it may be the one that is late with a new key.
"""

import base64
import hmac
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 300
BODY_BYTES_MAX = 1 << 20
KEYS = [base64.b64decode(key.removeprefix("whsec_")) for key in os.environ.get("WEBHOOK_KEYS", "").split()]


def refusal(headers, body):
    """Why a request is not to be taken; None where it is."""
    id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not id or not (timestamp.isascii() and timestamp.isdigit()):
        return "expected webhook-id and webhook-timestamp"
    # A captured request must not be usable later.
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return "the timestamp is more than five minutes off"
    signed = f"{id}.{timestamp}.".encode() + body
    for key in KEYS:
        expected = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
        for signature in headers.get("webhook-signature", "").split():
            # Constant-time comparison.
            if hmac.compare_digest(expected, signature.encode()):
                return None
    return "no key has signed this"


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("content-length", "0"))
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            return self.answer(413, "expected at most 1 MiB")
        body = self.rfile.read(length)
        refused = refusal(self.headers, body)
        if refused:
            return self.answer(401, refused)
        # A webhook may arrive twice: act once for each id. The id is the same in every attempt.
        id = self.headers["webhook-id"]
        print(f"job {id} of {self.headers.get('duetime-kind')}: {body.decode(errors='replace')}", flush=True)
        self.answer(200, f"taken: {id}")

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Receiver).serve_forever()
