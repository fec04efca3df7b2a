from __future__ import annotations

import base64
import dataclasses
import enum
import json
import random
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from duetime import Invalid
from duetime.values import Exact, instant, read_bytes, read_instant, seconds, span, to_json, utf8, with_value


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0ms"), (1, "1000ms"), (0.0001, "1ms"), (0.1 + 0.2, "300ms"), (timedelta(minutes=1), "60000ms"), ("1h30m", "1h30m")],
)
def test_durations_are_text(value: object, text: str) -> None:
    assert span("delay", value) == text


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, None, [], object()])
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(Invalid) as refused:
        span("delay", value)
    assert refused.value.field == "delay"


def test_durations_are_read() -> None:
    assert [seconds(text) for text in ("1d", "1h30m", "2s5ms", "14s962ms", 3)] == [86_400, 5_400, 2.005, 14.962, 3]
    for wrong in ("", "soon", "1s1h", "5", "-1s"):
        with pytest.raises(Invalid):
            seconds(wrong)


def test_instants_need_a_time_zone() -> None:
    assert instant("due_at", datetime(2027, 1, 31, 9, tzinfo=timezone(timedelta(hours=1)))) == "2027-01-31T08:00:00Z"
    assert read_instant("2027-01-31T08:00:00.250Z") == datetime(2027, 1, 31, 8, 0, 0, 250_000, tzinfo=timezone.utc)
    with pytest.raises(Invalid, match="time zone"):
        instant("due_at", datetime(2027, 1, 31))


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Inner:
    at: datetime


@dataclasses.dataclass
class Outer:
    inner: Inner
    colour: Colour
    day: date
    id: uuid.UUID
    price: Decimal


def test_what_has_one_form_is_json() -> None:
    value = Outer(Inner(datetime(2027, 1, 1, tzinfo=timezone.utc)), Colour.RED, date(2027, 1, 2), uuid.UUID(int=7), Decimal("9.90"))
    assert json.loads(to_json(value)) == {
        "inner": {"at": "2027-01-01T00:00:00+00:00"},
        "colour": "red",
        "day": "2027-01-02",
        "id": "00000000-0000-0000-0000-000000000007",
        "price": "9.90",
    }


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), {"a": b"x"}, {(1, 2): 3}])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(Invalid) as refused:
        to_json(value)
    assert refused.value.field == "payload"


def test_what_is_nested_too_deeply_is_refused() -> None:
    value: object = 1
    for _ in range(200_000):
        value = [value]
    with pytest.raises(Invalid, match="nested"):
        to_json(value)


def test_any_value_comes_back() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    source = random.Random(seed)
    for _ in range(500):
        value = any_value(source, 4)
        body = json.loads(with_value("payload", value, {"delay": "5s"}))
        assert body.pop("delay") == "5s"
        assert read_bytes(body, "payload") == value
        exact = (
            Exact(json.dumps([{}, {"x": [], "payload": body["payload"]}], indent=source.choice([None, 1])).encode())
            if "payload" in body
            else None
        )
        assert exact is None or json.loads(exact.part(1).part("payload").text) == body["payload"]
        # As the server writes JSON that some decoders refuse.
        if not isinstance(value, bytes):
            encoded = base64.b64encode(to_json(value)).decode()
            assert read_bytes({"payload_base64": encoded}, "payload") == value


def any_value(source: random.Random, depth: int) -> object:
    kind = source.randrange(8 if depth else 6)
    if kind == 0:
        return source.randrange(-(1 << 80), 1 << 80)
    if kind == 1:
        text = "".join(chr(source.choice([source.randrange(0x110000), 0xD800, 0])) for _ in range(source.randrange(9)))
        # Two halves beside each other are one character in JSON.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if kind == 2:
        return source.choice([None, True, False])
    if kind == 3:
        return source.uniform(-1e300, 1e300)
    if kind in (4, 5):
        return source.randbytes(8) + b"\xff" if depth == 4 else 7
    if kind == 6:
        return [any_value(source, depth - 1) for _ in range(source.randrange(4))]
    return {str(source.random()): any_value(source, depth - 1) for _ in range(source.randrange(4))}


def test_a_part_is_cut_out_as_it_came() -> None:
    whole = Exact(b' {"a" : [1.50, {"x":"]}"}] ,"b\\"c":-0 ,"\xc3\xa4":"\\\\","e":{ },"a":[ -1E400 , null ]} ')
    assert [whole.part(name).text for name in ("a", 'b"c', "\u00e4", "e")] == ["[ -1E400 , null ]", "-0", '"\\\\"', "{ }"]
    assert [whole.part("a").part(place).text for place in (0, 1)] == ["-1E400", "null"]
    assert whole.value({"a": [], "x_base64": "MWU0MDA=", "y_base64": "/w=="}, "a") == "[ -1E400 , null ]"
    assert [whole.value({"x_base64": "MWU0MDA=", "y_base64": "/w=="}, name) for name in ("x", "y", "z")] == ["1e400", None, None]


def test_numbers_beyond_a_float_stay_bytes() -> None:
    assert read_bytes({"payload_base64": base64.b64encode(b"1.0e400").decode()}, "payload") == b"1.0e400"
    assert read_bytes({"payload_base64": base64.b64encode(b"NaN").decode()}, "payload") == b"NaN"


def test_messages_become_valid_utf8_and_are_cut_between_characters() -> None:
    assert utf8("a\udcff", 100) == "a\\udcff"
    assert utf8("ä" * 10, 10) == "äää…"
    assert len(utf8("€" * 10_000, 8_192).encode()) <= 8_192
