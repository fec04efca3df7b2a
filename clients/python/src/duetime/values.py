"""How values are written for the server, and read from it: durations, instants and JSON.

Integers of any size and lone surrogates come back as they went. Other numbers become a `float`, and of a member that is there twice
the last one counts; `Exact` has the text. What JSON cannot say (`NaN`, objects without a meaning) is refused. A payload that is
not JSON is `bytes`.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dates
import enum
import functools
import json
import math
import re
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any, Optional, Union

from .errors import invalid

#: A length of time: seconds, a `timedelta`, or the server's text such as `"250ms"` or `"1h30m"`.
Duration = Union[int, float, timedelta, str]
#: An instant: a `datetime` with a time zone, or text of RFC 3339.
Instant = Union[datetime, str]

_SPAN = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,7})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?(?:(\d{1,12})ms)?")


def span(field: str, value: Duration) -> str:
    """A duration as the server reads it. Parts of a millisecond are rounded up. Raises `Invalid`."""
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise invalid(field, 'seconds of 0 or more, a timedelta, or text such as "250ms" or "1h30m"', value)
    return f"{math.ceil(round(value * 1000, 6))}ms"


def seconds(value: Duration, field: str = "duration") -> float:
    """A duration in seconds. Raises `Invalid`."""
    text = span(field, value)
    match = _SPAN.fullmatch(text)
    if not match or not text:
        raise invalid(field, 'a duration such as "250ms" or "1h30m"', text)
    factors = (86_400, 3_600, 60, 1, 0.001)
    return sum(int(digits) * factor for digits, factor in zip(match.groups(default="0"), factors))


def instant(field: str, value: Instant) -> str:
    """An instant as the server reads it. Raises `Invalid` for a `datetime` without a time zone."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise invalid(field, "a datetime with a time zone, or text of RFC 3339", value)
    return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def read_instant(text: str) -> datetime:
    """An instant in UTC, as the server writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)


def date(text: Optional[str]) -> datetime:
    """The instant of a header `date`; now if there is none."""
    try:
        return parsedate_to_datetime(text or "")
    except (TypeError, ValueError):
        return datetime.now(timezone.utc)


def _plain(value: object) -> Any:
    """What is no JSON by itself but has one form: dataclasses, pydantic models, enums, dates, UUIDs."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dates.date):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, Decimal)):
        return str(value)
    raise TypeError(f"a value of the type {type(value).__name__} is not JSON")


def to_json(value: object, field: str = "payload") -> bytes:
    """The value as JSON. Raises `Invalid` if it cannot be written so that it comes back."""
    try:
        # Escapes keep lone surrogates, which are not UTF-8.
        return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise invalid(field, "JSON that is nested less deeply, or bytes", type(value)) from None
    except (TypeError, ValueError) as error:
        raise invalid(field, f"JSON or bytes ({error})", value) from None


def with_value(field: str, value: object, rest: Mapping[str, Any]) -> bytes:
    """An object in JSON that has `rest`, and the value as `field`, or as `field_base64` if it is bytes. Raises `Invalid`."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        field, value = f"{field}_base64", base64.b64encode(bytes(value)).decode("ascii")
    others = to_json(rest, "options")[1:-1]
    return b'{%b"%b":%b}' % (others + b"," if others else b"", field.encode("ascii"), to_json(value, field))


def read_bytes(body: dict[str, Any], field: str) -> Any:
    """The value of `field` in an answer. JSON that some decoders refuse comes in base64, as do bytes that are not JSON."""
    if field in body:
        return body[field]
    text = body.get(f"{field}_base64")
    if text is None:
        return None
    raw = base64.b64decode(text)
    try:
        return json.loads(raw, parse_float=_finite, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return raw


class Exact:
    """An answer, or a part of it, as the text that came. Parts are cut out when they are asked for."""

    def __init__(self, whole: Union[bytes, Exact], place: Union[str, int] = "") -> None:
        self._whole, self._place = whole, place

    def part(self, place: Union[str, int]) -> Exact:
        """A member or an element."""
        return Exact(self, place)

    @functools.cached_property
    def text(self) -> str:
        """The text."""
        return self._whole.decode() if isinstance(self._whole, bytes) else self._whole._parts[self._place]

    @functools.cached_property
    def _parts(self) -> dict[Union[str, int], str]:
        text, parts = self.text, dict[Union[str, int], str]()
        at = _behind(text, 0)
        is_object, at = text[at] == "{", _behind(text, at + 1)
        while text[at] not in "}]":
            place: Union[str, int] = len(parts)
            if is_object:
                place, at = _next_value(text, at)
                at = _behind(text, _behind(text, at) + 1)
            _, end = _next_value(text, at)
            parts[place] = text[at:end]
            at = _behind(text, end)
            at = _behind(text, at + 1) if text[at] == "," else at
        return parts

    def value(self, body: Mapping[str, Any], field: str) -> Optional[str]:
        """The text of a payload or result in this object, whose `body` is decoded."""
        if f"{field}_base64" not in body:
            return self._parts[field] if field in body else None
        try:
            return base64.b64decode(body[f"{field}_base64"]).decode()
        except UnicodeDecodeError:
            return None


#: Finds where a value ends. Numbers are not needed.
_next_value = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode
_blanks = re.compile(r"[ \t\r\n]*")


def _behind(text: str, at: int) -> int:
    """The place after the blanks that begin here."""
    return at + len(_blanks.match(text, at)[0])  # type: ignore[index]


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is beyond a float")
    return number


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def utf8(text: str, limit: int) -> str:
    """The text as valid UTF-8 of at most `limit` bytes. What is not valid is shown with backslashes."""
    raw = text.encode("utf-8", "backslashreplace")
    # Without a character that was cut.
    return raw.decode() if len(raw) <= limit else raw[: limit - 3].decode("utf-8", "ignore") + "…"
