"""Numbers that are known to lie between two ends: what rounding leaves of an input."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

SLACK = Fraction(1, 10**14)
"""What floating point may add to a product, relative to it."""


@dataclass(frozen=True)
class Interval:
    """A number between two ends, both included; exact where they are equal."""

    low: Fraction
    high: Fraction

    def __post_init__(self) -> None:
        assert self.low <= self.high

    @classmethod
    def of(cls, value: float | Fraction, half_width: Fraction = Fraction(0)) -> "Interval":
        """The number as it is written, more or less so much."""
        middle = value if isinstance(value, Fraction) else Fraction(str(value))
        return cls(middle - half_width, middle + half_width)

    def __str__(self) -> str:
        return f"{float(self.low)} to {float(self.high)}"

    def meets(self, other: "Interval") -> bool:
        """Whether both can be the same number."""
        return self.low <= other.high and other.low <= self.high

    def __neg__(self) -> "Interval":
        return Interval(-self.high, -self.low)

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Interval") -> "Interval":
        return self + -other

    def __mul__(self, other: "Interval") -> "Interval":
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: "Interval") -> "Interval":
        if other.low <= 0 <= other.high:
            raise ZeroDivisionError(f"by a number from {other.low} to {other.high}")
        return self * Interval(1 / other.high, 1 / other.low)

    def __floordiv__(self, other: "Interval") -> "Interval":
        return floor(self / other)

    def __pow__(self, other: "Interval") -> "Interval":
        def power(base: Fraction, exponent: Fraction) -> Fraction:
            whole = exponent.denominator == 1
            return base**exponent.numerator if whole else Fraction(str(float(base) ** exponent))

        ends = [power(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def through(self, rising: Callable[[Fraction], Fraction | int | float]) -> "Interval":
        """What a function that never falls makes of it."""
        return Interval(*(Fraction(str(rising(end))) for end in (self.low, self.high)))


ONE = Interval.of(1)


def _unit(digits: Interval | None) -> Fraction:
    return Fraction(1, 10 ** int(digits.low)) if digits is not None else Fraction(1)


def floor(value: Interval, digits: Interval | None = None) -> Interval:
    """Down to a whole number, or to so many decimals."""
    unit = _unit(digits)
    return Interval(*(math.floor(end / unit) * unit for end in (value.low, value.high)))


def nearest(value: Interval, digits: Interval | None = None) -> Interval:
    """To the nearest whole number, or to so many decimals."""
    unit = _unit(digits)
    return Interval(*(round(end / unit) * unit for end in (value.low, value.high)))


def ceil(value: Interval) -> Interval:
    """Up to a whole number."""
    return -floor(-value)


def truncated(value: Interval) -> Interval:
    """`int` of a computer: what floating point adds or loses may decide."""
    slack = Interval(1 - SLACK, 1 + SLACK)
    return floor(value * slack)


def largest(*values: Interval) -> Interval:
    """The largest."""
    return Interval(max(v.low for v in values), max(v.high for v in values))


def smallest(*values: Interval) -> Interval:
    """The smallest."""
    return Interval(min(v.low for v in values), min(v.high for v in values))


FUNCTIONS: dict[str, Callable[..., Interval]] = {
    "ceil": ceil,
    "floor": floor,
    "int": truncated,
    "log2": lambda value: value.through(math.log2),
    "max": largest,
    "min": smallest,
    "round": nearest,
    "sqrt": lambda value: value.through(math.sqrt),
}
"""What a formula may call."""
