"""When requests arrive and how long they are: recorded traces, and seeded Poisson for tests."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random  # noqa: TID251 - always seeded: the one place where it may be

from kvscale.sim.request import Request

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
"""Header of the Azure LLM inference traces (github.com/Azure/AzurePublicDataset, CC-BY)."""


class TraceError(ValueError):
    """A trace file that cannot be read; the message names line, column and mend."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in order of arrival.

    Attributes:
        label: where they come from and what was done to them; shown with every result.
        seconds: the span of time that they cover; the mean rate refers to it.
    """

    label: str
    requests: tuple[Request, ...]
    seconds: float

    @property
    def requests_per_second(self) -> float:
        """Mean arrival rate."""
        return len(self.requests) / self.seconds if self.seconds else 0.0


def read_azure_trace(lines: Iterable[str], label: str) -> Workload:
    """Read a trace with the columns TIMESTAMP, ContextTokens, GeneratedTokens.

    Arrival times and lengths are taken as they are; only the clock starts at 0 with the first
    request. Lines that start with `#` and empty lines are skipped.

    Raises:
        TraceError: a missing column, a value that is no number, time that runs backwards.
    """
    numbered = (
        (number, line.strip())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    )
    _, header = next(numbered, (1, ""))
    names = header.lstrip("\ufeff").split(",")
    missing = [name for name in AZURE_COLUMNS if name not in names]
    if missing:
        raise TraceError(
            f"{label}: the header lacks {', '.join(missing)}; expected {','.join(AZURE_COLUMNS)}"
        )
    columns = [names.index(name) for name in AZURE_COLUMNS]
    requests: list[Request] = []
    start: datetime | None = None
    for number, line in numbered:
        cells = line.split(",")
        if len(cells) != len(names):
            raise TraceError(f"{label}, line {number}: {len(cells)} cells, expected {len(names)}")
        stamp, prompt, output = (cells[column] for column in columns)
        try:
            # Seven digits of a second; datetime keeps six.
            moment = datetime.fromisoformat(stamp[:26])
        except ValueError:
            raise TraceError(
                f"{label}, line {number}, TIMESTAMP: {stamp!r} is not YYYY-MM-DD HH:MM:SS.ffffff"
            ) from None
        start = start or moment
        try:
            arrived = (moment - start).total_seconds()
        except TypeError:
            raise TraceError(f"{label}, line {number}, TIMESTAMP: mixes time zones") from None
        if requests and arrived < requests[-1].arrived_at:
            raise TraceError(f"{label}, line {number}, TIMESTAMP: earlier than the line before")
        requests.append(
            Request(
                len(requests),
                arrived,
                _tokens(prompt, "ContextTokens", label, number),
                _tokens(output, "GeneratedTokens", label, number),
            )
        )
    if not requests:
        raise TraceError(f"{label}: no requests after the header")
    return Workload(label, tuple(requests), requests[-1].arrived_at)


def _tokens(text: str, column: str, label: str, line: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise TraceError(f"{label}, line {line}, {column}: {text!r} is not a whole number above 0")
    return int(text)


def poisson(
    requests_per_second: float,
    seconds: float,
    lengths: tuple[tuple[int, int], ...],
    seed: int,
) -> Workload:
    """Requests at a constant mean rate with exponential gaps; lengths drawn from the given pairs.

    Args:
        requests_per_second: mean rate, above 0.
        seconds: span to fill, above 0.
        lengths: (prompt tokens, output tokens), each pair equally likely.
        seed: the same seed gives the same workload.

    Raises:
        ValueError: a rate or a span that is not above 0, or no lengths.
    """
    if requests_per_second <= 0 or seconds <= 0 or not lengths:
        raise ValueError("requests_per_second and seconds must be above 0, and lengths not empty")
    random = Random(seed)  # noqa: S311 - a simulation, no secret
    requests: list[Request] = []
    at = random.expovariate(requests_per_second)
    while at < seconds:
        requests.append(Request(len(requests), at, *random.choice(lengths)))
        at += random.expovariate(requests_per_second)
    label = f"Poisson {requests_per_second:g}/s, {len(lengths)} length pairs, seed {seed}"
    return Workload(label, tuple(requests), seconds)


def superpose(workload: Workload, copies: int, seed: int) -> Workload:
    """More traffic of the same kind: the trace laid over itself, each copy shifted in a circle.

    The rate is exactly `copies` times the original's, but its bursts are averaged: the result is
    synthetic, and its label says so. The first copy is not shifted.

    Raises:
        ValueError: less than one copy.
    """
    if copies < 1:
        raise ValueError(f"copies must be at least 1, not {copies}")
    if copies == 1:
        return workload
    random = Random(seed)  # noqa: S311 - a simulation, no secret
    shifts = [0.0, *(random.uniform(0, workload.seconds) for _ in range(copies - 1))]
    label = f"{workload.label}, superposed {copies} times (circular shifts, seed {seed})"
    return Workload(label, _lay(workload, shifts), workload.seconds)


def _lay(workload: Workload, shifts: list[float]) -> tuple[Request, ...]:
    moved = [
        ((r.arrived_at + shift) % workload.seconds if shift else r.arrived_at, copy, r)
        for copy, shift in enumerate(shifts)
        for r in workload.requests
    ]
    moved.sort(key=lambda entry: (entry[0], entry[1], entry[2].id))
    return tuple(replace(r, id=i, arrived_at=at) for i, (at, _, r) in enumerate(moved))
