"""A payload as the type that a handler's parameter is annotated with: dataclass, pydantic model, `TypedDict` or plain types.

Unknown fields are ignored, as pydantic does: so a program that pushes may be newer than the worker. A field that is missing or of
another type is a `Mismatch`.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import sys
import types
import typing
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Union

from ..values import read_instant


class Mismatch(Exception):
    """The value is not of the type. The text names the field, what is expected and what came."""


_PLAIN = (str, int, float, bool, bytes)
_UNIONS: tuple[Any, ...] = (Union, types.UnionType) if sys.version_info >= (3, 10) else (Union,)
_FROM_TEXT: dict[Any, Any] = {
    datetime: lambda text: read_instant(text) if text.endswith("Z") else datetime.fromisoformat(text),
    date: date.fromisoformat,
    uuid.UUID: uuid.UUID,
    Decimal: Decimal,
}
_LISTS = {list: list, collections.abc.Sequence: list, tuple: tuple, set: set, frozenset: frozenset}
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def convert(value: Any, kind: Any, place: str = "payload") -> Any:
    """The value as `kind`. Raises `Mismatch`."""
    if kind is Any or kind is object:
        return value
    if kind is None or kind is type(None):
        return _checked(value, value is None, "null", place)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in _UNIONS:
        return _one_of(value, arguments, place)
    if origin is typing.Literal:
        return _checked(value, value in arguments, " or ".join(repr(one) for one in arguments), place)
    if origin is not None and getattr(kind, "__metadata__", None) is not None:
        return convert(value, arguments[0], place)
    base = origin or kind
    if base in _LISTS:
        return _list(value, base, arguments, place)
    if base in _DICTS:
        _checked(value, isinstance(value, dict), "an object", place)
        of = arguments[1] if len(arguments) == 2 else Any
        return {key: convert(one, of, f"{place}.{key}") for key, one in value.items()}
    if not isinstance(base, type):
        return convert(value, getattr(kind, "__supertype__", Any), place)
    return _of_class(value, base, place)


def _of_class(value: Any, kind: Any, place: str) -> Any:
    name = kind.__name__
    if kind is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(_checked(value, is_number, "a number", place))
    if kind in _PLAIN:
        is_it = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        return _checked(value, is_it, _word(kind), place)
    if callable(getattr(kind, "model_validate", None)):
        return _pydantic(value, kind, place)
    if dataclasses.is_dataclass(kind):
        make: Any = kind
        _checked(value, isinstance(value, dict), f"an object ({name})", place)
        fields = [one for one in dataclasses.fields(kind) if one.init]
        nothing = dataclasses.MISSING
        required = {one.name for one in fields if one.default is nothing and one.default_factory is nothing}
        try:
            return make(**_members(value, kind, {one.name for one in fields}, required, place))
        except (TypeError, ValueError) as error:
            raise Mismatch(f"`{place}` is no {name}: {error}") from None
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        _checked(value, isinstance(value, dict), f"an object ({name})", place)
        names = set(_hints(kind))
        # A typed dict is still a dict: what it does not name stays.
        return {**value, **_members(value, kind, names, set(kind.__required_keys__), place)}
    if kind in _FROM_TEXT or issubclass(kind, enum.Enum):
        try:
            return _FROM_TEXT.get(kind, kind)(value)
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            return _checked(value, False, f"a {name}", place)
    return _checked(value, isinstance(value, kind), f"a {name}", place)


def _members(value: Any, kind: Any, names: set[str], required: set[str], place: str) -> dict[str, Any]:
    hints = _hints(kind)
    for name in sorted(required - value.keys()):
        raise Mismatch(f"`{place}.{name}` is missing")
    return {name: convert(value[name], hints[name], f"{place}.{name}") for name in names if name in value}


def _list(value: Any, base: Any, arguments: tuple[Any, ...], place: str) -> Any:
    _checked(value, isinstance(value, list), "an array", place)
    if base is tuple and arguments and arguments[-1] is not Ellipsis:
        _checked(value, len(value) == len(arguments), f"an array of {len(arguments)}", place)
        return tuple(convert(one, of, f"{place}[{at}]") for at, (one, of) in enumerate(zip(value, arguments)))
    of = arguments[0] if arguments else Any
    return _LISTS[base](convert(one, of, f"{place}[{at}]") for at, one in enumerate(value))


def _one_of(value: Any, kinds: tuple[Any, ...], place: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not type(None))
    for kind in kinds:
        try:
            return convert(value, kind, place)
        except Mismatch as mismatch:
            if len(kinds) == 1:
                raise
            last = mismatch
    raise Mismatch(f"`{place}` fits none of {len(kinds)} types; for the last one: {last}")


def _pydantic(value: Any, kind: Any, place: str) -> Any:
    try:
        return kind.model_validate(value)
    except ValueError as error:
        errors = getattr(error, "errors", None)
        if not callable(errors):
            raise Mismatch(f"`{place}` is no {kind.__name__}: {error}") from None
        told = [f"`{'.'.join([place, *map(str, one['loc'])])}`: {one['msg']}" for one in errors()[:5]]
        raise Mismatch("; ".join(told)) from None


@functools.lru_cache(maxsize=1_000)
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _word(kind: Any) -> str:
    return {str: "text", int: "an integer", bool: "true or false", bytes: "bytes"}[kind]


def _checked(value: Any, is_right: bool, expected: str, place: str) -> Any:
    if not is_right:
        raise Mismatch(f"`{place}` must be {expected}, got {value!r:.200}")
    return value
