"""Reading numbers out of a config.json that nobody has checked.

A config.json comes from a ConfigMap that a person filled: every value may be missing, of the wrong
type or absurd. Each read is bounded and says which key is at fault and what would be right.
"""

import math
from collections.abc import Mapping
from typing import Any

from kvscale.core.refusal import Refusal

SHOWN = 60
"""Characters of a bad value that a message repeats."""


class Refused(Exception):  # noqa: N818 - it carries a Refusal to `read_shape`, it is no error
    """Ends the reading of a config with the Refusal that it carries."""

    def __init__(self, reason: str, field: str, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(reason, field, message)


def shown(value: object) -> str:
    """A bad value, shortened: a container only by its type (it may be huge)."""
    if isinstance(value, str):
        return repr(value[:SHOWN])
    if isinstance(value, int) and value.bit_length() > SHOWN * 3:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"a {type(value).__name__}"


def whole(value: object) -> int | None:
    """The value as an integer, if it is one (4096 and 4096.0 are; True and "4096" are not)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return None


class Fields:
    """One JSON object of a config, read key by key.

    Attributes:
        data: the object.
        path: prefix of its keys in messages ("text_config.", or "").
    """

    __slots__ = ("data", "path")

    def __init__(self, data: Mapping[str, Any], path: str = "") -> None:
        self.data = data
        self.path = path

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.data.get(key) is not None

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """An integer in [low, high]; `default` where it is missing or null.

        Raises:
            Refused: missing without a default, not an integer, or out of range.
        """
        value = self.data.get(key)
        if value is None:
            if default is not None:
                return default
            raise Refused(
                "InvalidConfig",
                self.path + key,
                f"{self.path}{key} is missing; it must be an integer from {low} to {high}",
            )
        number = whole(value)
        if number is None or not low <= number <= high:
            raise Refused(
                "InvalidConfig",
                self.path + key,
                f"{self.path}{key} is {shown(value)}; it must be an integer from {low} to {high}",
            )
        return number

    def number(self, key: str, low: float, high: float, default: float) -> float:
        """A finite number in [low, high]; `default` where it is missing or null.

        Raises:
            Refused: not a number, or out of range.
        """
        value = self.data.get(key)
        if value is None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise Refused(
                "InvalidConfig",
                self.path + key,
                f"{self.path}{key} is {shown(value)}; it must be a number from {low} to {high}",
            )
        return float(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false; `default` where it is missing or null.

        Raises:
            Refused: anything else (0 and 1 included).
        """
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        raise Refused(
            "InvalidConfig",
            self.path + key,
            f"{self.path}{key} is {shown(value)}; it must be true or false",
        )

    def text(self, key: str, default: str = "") -> str:
        """A string; `default` where it is missing or null.

        Raises:
            Refused: anything else.
        """
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        raise Refused(
            "InvalidConfig",
            self.path + key,
            f"{self.path}{key} is {shown(value)}; it must be a string",
        )

    def items(self, key: str, most: int) -> list[Any]:
        """A list of at most that many items; empty where it is missing or null.

        Raises:
            Refused: not a list, or longer.
        """
        value = self.data.get(key)
        if value is None:
            return []
        if isinstance(value, list) and len(value) <= most:
            return value
        raise Refused(
            "InvalidConfig",
            self.path + key,
            f"{self.path}{key} must be a list of at most {most} items",
        )

    def child(self, key: str) -> "Fields | None":
        """A nested object; None where it is missing or null.

        Raises:
            Refused: anything but an object.
        """
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, Mapping):
            return Fields(value, f"{self.path}{key}.")
        raise Refused(
            "InvalidConfig",
            self.path + key,
            f"{self.path}{key} is {shown(value)}; it must be an object",
        )
