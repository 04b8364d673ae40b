"""What a benchmark hands back, and how it is printed: Markdown, so that a run is a page of docs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    Attributes:
        what: was measured, in words.
        value: with its unit.
        how: it was counted, or what limits it.
    """

    what: str
    value: str
    how: str = ""


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    lines = ["| what | value | how |", "|---|---|---|"]
    lines += [f"| {figure.what} | {figure.value} | {figure.how} |" for figure in figures]
    return "\n".join(lines)


def seconds(value: float) -> str:
    """A duration with three significant digits and a unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1 or unit == "us":
            scaled = value * scale
            digits = 2 if scaled < 10 else 1 if scaled < 100 else 0  # noqa: PLR2004 - three digits
            return f"{scaled:,.{digits}f} {unit}"
    raise AssertionError("the last unit takes everything")


def mebibytes(value: float) -> str:
    """Bytes as MiB."""
    return f"{value / (1 << 20):,.0f} MiB"


def spread(values: Sequence[float]) -> str:
    """Durations as median and maximum: what is usual, and what one has to reckon with."""
    return f"{seconds(statistics.median(values))} (most {seconds(max(values))})"


def percentile(values: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile: a value that was measured, never one between two."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
