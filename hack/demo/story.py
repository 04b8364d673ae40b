"""What is played: how fast, on which nodes, and which part of the recorded traffic."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from kvscale.sim.arrivals import Workload, read_azure_trace
from kvscale.sim.request import Request

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "demo"

FACTOR = 6.0
"""Seconds of the demo's clock in one real second: 18 minutes of traffic in 3."""

INTERVAL_SECONDS = 5.0
"""Of the operator's loop, by the demo's clock: its default."""

STARTUP_SECONDS = 90.0
"""From a pod's start to its readiness: weights on a local disk, image present."""

SHUTDOWN_SECONDS = 60.0
"""What a pod that is being deleted is given to finish its requests."""

NODES = 3
GPUS_PER_NODE = 4
"""As a g2-standard-48 has."""

PRODUCT = "NVIDIA-L4"

RATE_SECONDS = 15.0
"""The rate that is shown is that of so many seconds."""

TRACE = ROOT / "examples" / "traces" / "azure_conversation_excerpt.csv"


@dataclass(frozen=True, slots=True)
class Turn:
    """From this second of the trace on; between two turns the share moves in a straight line."""

    second: float
    percent: float


TURNS = (
    Turn(0, 12),
    Turn(60, 12),
    Turn(360, 100),
    Turn(720, 100),
    Turn(840, 12),
    Turn(1080, 12),
)
"""Which share of the recorded requests the pool is sent: a gateway moves the traffic of a whole
service to it, and away again. Trace and demo end with the last turn."""


def share(turns: tuple[Turn, ...], second: float) -> float:
    """The share of the requests that is played at a second of the trace, in percent."""
    for before, after in pairwise(turns):
        if before.second <= second < after.second:
            passed = (second - before.second) / (after.second - before.second)
            return before.percent + passed * (after.percent - before.percent)
    return turns[-1].percent


def thin(workload: Workload, turns: tuple[Turn, ...], label: str) -> Workload:
    """The requests that are played: evenly picked, at their own times and with their own lengths.

    No chance is involved: the shares are summed up, and each whole hundred lets a request through.
    """
    end, due = turns[-1].second, 0.0
    kept: list[Request] = []
    for request in workload.requests:
        if request.arrived_at >= end:
            break
        due += share(turns, request.arrived_at)
        if due >= 100:  # noqa: PLR2004 - percent
            due -= 100
            kept.append(replace(request, id=len(kept)))
    return Workload(label, tuple(kept), end)


def traffic() -> Workload:
    """The demo's traffic.

    Raises:
        ValueError: the trace cannot be read.
    """
    with TRACE.open(encoding="utf-8") as lines:
        recorded = read_azure_trace(lines, "Azure LLM inference trace 2023, conversation")
    return thin(recorded, TURNS, f"{recorded.label}; {describe(TURNS)}")


def rate(arrivals: Sequence[float], at: float) -> float:
    """Requests per second that arrived of late; the times are in order."""
    count = bisect_right(arrivals, at) - bisect_right(arrivals, at - RATE_SECONDS)
    return count / RATE_SECONDS


def describe(turns: tuple[Turn, ...]) -> str:
    """The shares in words."""
    told = ", ".join(f"{turn.percent:g} % at {clock(turn.second)}" for turn in turns)
    return f"of its requests {told}, straight lines between; times and lengths as recorded"


def clock(seconds: float) -> str:
    """Minutes and seconds: "12:05"."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
