"""A server's flags, as data: what its parser knows and what decides KV capacity."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a flag's value is."""

    TEXT = "text"
    COUNT = "a whole number above 0"
    SIZE = "a whole number, or one like 32k or 32K"
    LENGTH = "a whole number, one like 32k or 32K, -1 or auto"
    CHUNK = "a whole number, one like 32k or 32K, or -1"
    FRACTION = "a number above 0 and at most 1"
    SWITCH = "a switch"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag that is read.

    Attributes:
        name: the long spelling.
        field: of `EngineConfig`; "" for one that is read for another purpose.
        overridable: whether the pool's spec has the same setting.
    """

    name: str
    kind: Kind
    field: str = ""
    overridable: bool = False


@dataclass(frozen=True, slots=True)
class FlagTable:
    """The flags of one server.

    Attributes:
        by_name: those that are read, by their long spelling.
        known: every long spelling among which a prefix must be unambiguous.
        short: other spellings of a flag, by themselves.
        switches: flags without a value.
        several: flags that take more than one value.
        separator: between the words of a flag's long spelling; the other one is read as it.
    """

    by_name: Mapping[str, Flag]
    known: frozenset[str]
    short: Mapping[str, str]
    switches: frozenset[str]
    several: frozenset[str] = frozenset()
    separator: str = "-"
