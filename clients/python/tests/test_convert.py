from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, Literal, Optional, TypedDict, Union
from uuid import UUID

import pydantic
import pytest

from duetime.worker.convert import Mismatch, convert


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Item:
    sku: str
    count: int = 1


@dataclass
class Order:
    order: int
    items: list[Item] = field(default_factory=list)
    note: Optional[str] = None


class Mail(TypedDict):
    to: str


class Model(pydantic.BaseModel):
    order: int
    items: list[str] = []


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ({"order": 1, "items": [{"sku": "a"}], "newer": True}, Order, Order(1, [Item("a")])),
        ({"to": "anna", "more": 1}, Mail, {"to": "anna", "more": 1}),
        ({"order": 1, "items": ["x"]}, Model, Model(order=1, items=["x"])),
        (7, int, 7),
        (7, float, 7.0),
        (b"x", bytes, b"x"),
        (None, Optional[int], None),
        ("7", Union[int, str], "7"),
        ("a", Literal["a", "b"], "a"),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ([1], set[int], {1}),
        ({"a": [1]}, dict[str, list[int]], {"a": [1]}),
        ("red", Colour, Colour.RED),
        ("2027-01-01T00:00:00Z", datetime, datetime(2027, 1, 1, tzinfo=timezone.utc)),
        ("2027-01-01", date, date(2027, 1, 1)),
        ("00000000-0000-0000-0000-000000000007", UUID, UUID(int=7)),
        ("9.90", Decimal, Decimal("9.90")),
        ([1], Any, [1]),
        ({"a": 1}, dict, {"a": 1}),
    ],
)
def test_payloads_become_what_the_handler_wants(value: object, kind: object, expected: object) -> None:
    converted = convert(value, kind)
    assert (converted, type(converted)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ({}, Order, "`payload.order` is missing"),
        ({"order": "x"}, Order, "`payload.order` must be an integer, got 'x'"),
        ({"order": True}, Order, "`payload.order` must be an integer, got True"),
        ({"order": 1, "items": [{}]}, Order, r"`payload.items\[0\].sku` is missing"),
        ([], Order, r"`payload` must be an object \(Order\), got \[\]"),
        ({"to": 1}, Mail, "`payload.to` must be text"),
        ({}, Mail, "`payload.to` is missing"),
        ({"order": "x"}, Model, "`payload.order`: Input should be a valid integer"),
        (1.5, int, "an integer"),
        ("c", Literal["a", "b"], "'a' or 'b'"),
        ([1], tuple[int, str], "an array of 2"),
        ("blue", Colour, "a Colour"),
        ("soon", datetime, "a datetime"),
        (5, date, "a date"),
        (None, int, "an integer, got None"),
        ({"a": "x"}, dict[str, int], "`payload.a` must be an integer"),
        ("x", Union[int, bool], "fits none of 2 types"),
    ],
)
def test_a_mismatch_names_the_field(value: object, kind: object, message: str) -> None:
    with pytest.raises(Mismatch, match=message):
        convert(value, kind)
