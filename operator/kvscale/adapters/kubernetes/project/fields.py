"""Reading raw JSON: a field that is absent, null or of another type reads as empty."""

import sys
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

Raw = Mapping[str, Any]

_EMPTY: Raw = {}


class Malformed(ValueError):  # noqa: N818 - it names the object's state, as client-go does
    """An object that cannot be projected; the message names the field."""


def mapping(raw: Raw, key: str) -> Raw:
    """The object at `key`; empty if there is none."""
    value = raw.get(key)
    return value if isinstance(value, dict) else _EMPTY


def objects(raw: Raw, key: str) -> list[Raw]:
    """The objects of the list at `key`; empty if there is none."""
    value = raw.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(raw: Raw, key: str) -> str:
    """The string at `key`; "" if there is none."""
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def texts(raw: Raw, key: str) -> tuple[str, ...]:
    """The strings of the list at `key`; empty if there is none."""
    value = raw.get(key)
    return tuple(i for i in value if isinstance(i, str)) if isinstance(value, list) else ()


def whole(raw: Raw, key: str) -> int | None:
    """The whole number at `key`; None if there is none."""
    value = raw.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def required(raw: Raw, key: str) -> str:
    """The string at `key`.

    Raises:
        Malformed: it is absent.
    """
    value = text(raw, key)
    if not value:
        raise Malformed(f"metadata.{key} is absent")
    return value


def seconds(raw: Raw, key: str) -> float | None:
    """The RFC 3339 moment at `key` in epoch seconds; None if absent.

    Raises:
        Malformed: it is no RFC 3339 moment.
    """
    value = text(raw, key)
    if not value:
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError as error:
        raise Malformed(f"{key}: {value!r} is no RFC 3339 moment") from error


def shared(value: str) -> str:
    """The same string, one copy for all records: names of nodes, owners and labels repeat."""
    return sys.intern(value)


def labels(raw: Raw, key: str) -> Mapping[str, str]:
    """The string map at `key`, one copy for all records that carry an equal one.

    The pods of one replica set have equal labels; for 10,000 pods the maps would outweigh all
    else.
    """
    found = mapping(raw, key)
    if not found:
        return _no_labels()
    return _one_copy(tuple(sorted((k, v) for k, v in found.items() if isinstance(v, str))))


@lru_cache(maxsize=16_384)
def _one_copy(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return {shared(key): shared(value) for key, value in pairs}


def _no_labels() -> Mapping[str, str]:
    return _one_copy(())
