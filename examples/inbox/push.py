#!/usr/bin/python3
"""Takes an order, and pushes the job that cancels it unless it is paid: both in one transaction, or neither.

    push.py mysql://user:password@host/database 42
    push.py postgres://user:password@host/database 42

It needs the right to insert into `duetime_inbox`, and a table `orders (id BIGINT PRIMARY KEY)`.
"""

import json
import sys
from urllib.parse import urlsplit


def connect(url):
    place = urlsplit(url)
    names = dict(host=place.hostname, user=place.username, password=place.password or "", database=place.path[1:])
    if place.scheme == "mysql":
        import pymysql

        return pymysql.connect(port=place.port or 3306, charset="utf8mb4", **names), pymysql.Error
    import psycopg2

    return psycopg2.connect(port=place.port or 5432, **names), psycopg2.Error


def main(url, order):
    db, error = connect(url)
    payload = {"order": int(order), "note": 'a "quoted" \\ naïve\nnote'}
    options = {"max_attempts": 3, "lease": "5m"}
    try:
        cursor = db.cursor()
        cursor.execute(
            "INSERT INTO duetime_inbox (queue, kind, payload, delay_ms, job_key, tags, options)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (
                "orders",
                "order.cancel",
                json.dumps(payload),
                50,
                f"cancel-{order}",
                json.dumps([f"order-{order}"]),
                json.dumps(options),
            ),
        )
        # If the order already exists, this fails, and so does the push.
        cursor.execute("INSERT INTO orders (id) VALUES (%s)", (order,))
        db.commit()
    except error as reason:
        db.rollback()
        sys.exit(f"the order {order} was not taken: {reason}")
    print(f"the order {order} was taken")


main(*sys.argv[1:])
