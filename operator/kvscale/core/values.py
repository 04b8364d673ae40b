"""The three kinds of number that kvscale handles: measured, missing, and banded.

A missing measurement is a value of its own, never 0 (rule 1): whoever reads a
`Known[T] | Unknown` has to say what happens when it is `Unknown`, and the type checker insists.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

MIB = 1 << 20
GIB = 1 << 30
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A value and the moment it was sampled.

    Attributes:
        value: what was measured.
        at: epoch seconds of the sample, on the operator's own clock (an adapter converts).
        stamp: the source's own mark of the sample. Two reads with the same stamp are one sample,
            and one sample supports one decision (rule 10).
    """

    value: T
    at: float
    stamp: float = 0.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why there is no value.

    Attributes:
        reason: CamelCase, constant, fit for a condition's `reason`.
        message: for a person: what is missing and how to mend it.
    """

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Band:
    """An estimate: it may be as small as `low` and as large as `high`; same unit throughout."""

    low: int
    expected: int
    high: int

    @classmethod
    def point(cls, value: int) -> "Band":
        """A band without width: the value is known exactly."""
        return cls(value, value, value)

    @property
    def is_point(self) -> bool:
        """Whether the value is known exactly."""
        return self.low == self.high
