"""What came of it: latencies, preemptions, GPU time, and whether the pool did what it is for."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from demo.rounds import Round
from kvscale.sim.arrivals import Workload
from kvscale.sim.pool import Pool
from kvscale.sim.request import Finished
from kvscale.sim.router import Router
from kvscale.sim.settings import EngineSettings

PRESSURE = 0.8
"""Occupancy from which on a scale-out counts as one under cache pressure."""

DRAIN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Service:
    """How a set of requests was served.

    Attributes:
        ttft_p50, ttft_p95: seconds from arrival to the first token.
        preempted: how often an engine took a request's blocks away.
        device_seconds: GPUs held, times the seconds that they were held.
    """

    served: int
    ttft_p50: float
    ttft_p95: float
    preempted: int
    device_seconds: float


def service(finished: Sequence[Finished], device_seconds: float) -> Service:
    """Sum up what was answered; at least two requests."""
    percents = quantiles([one.time_to_first_token for one in finished], n=100)
    return Service(
        served=len(finished),
        ttft_p50=percents[49],
        ttft_p95=percents[94],
        preempted=sum(one.preemptions for one in finished),
        device_seconds=device_seconds,
    )


def static(
    workload: Workload, settings: EngineSettings, replicas: int, devices: int, seconds: float
) -> Service:
    """The same requests on so many replicas that are there from the beginning to the end.

    Args:
        workload: what is played.
        settings: of each engine.
        replicas: how many.
        devices: of one replica.
        seconds: how long they are held.
    """
    pool = Pool(settings, Router())
    for number in range(replicas):
        pool.add_pod(str(number))
    pool.offer(workload.requests)
    return service(pool.advance(workload.seconds + DRAIN_SECONDS), replicas * devices * seconds)


@dataclass(frozen=True, slots=True)
class Moves:
    """The changes of the replica count."""

    out: tuple[Round, ...]
    back: tuple[Round, ...]

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> "Moves":
        """The rounds in which a count was written, by direction."""
        written = [(one, one.write) for one in rounds if one.write is not None]
        return cls(
            tuple(one for one, count in written if count > one.current),
            tuple(one for one, count in written if count < one.current),
        )


def peak(rounds: Sequence[Round]) -> int:
    """The largest replica count."""
    return max(max(one.current, one.write or 0) for one in rounds)


def shortcomings(rounds: Sequence[Round]) -> list[str]:
    """What the demo did not show, one sentence each; nothing, when it did what it is for."""
    moves = Moves.of(rounds)
    pressed = [one for one in moves.out if one.bound == "KV" and (one.occupancy or 0) >= PRESSURE]
    found = []
    if not pressed:
        found.append(
            f"the pool was never scaled out by the KV bound at {PRESSURE:.0%} occupancy or more"
        )
    highest, last = peak(rounds), rounds[-1].current
    if pressed and not any(one.at > pressed[-1].at for one in moves.back):
        found.append("the pool was not scaled in after the pressure")
    if 2 * last > highest:
        found.append(f"the pool ended with {last} replicas, and had {highest} at most")
    return found


def report(dynamic: Service, constant: Service, rounds: Sequence[Round]) -> list[str]:
    """The summary for a person."""
    moves, highest = Moves.of(rounds), peak(rounds)
    saved = 1 - dynamic.device_seconds / constant.device_seconds
    columns = ("kvscale", dynamic), (f"static, {highest} replicas", constant)
    lines = [" " * 24 + "".join(name.rjust(22) for name, _ in columns)]
    for name, values in (
        ("requests served", [f"{one.served:,}" for _, one in columns]),
        ("time to first token, p50", [f"{one.ttft_p50:.2f} s" for _, one in columns]),
        ("time to first token, p95", [f"{one.ttft_p95:.2f} s" for _, one in columns]),
        ("preemptions", [f"{one.preempted:,}" for _, one in columns]),
        ("GPU seconds", [f"{one.device_seconds:,.0f}" for _, one in columns]),
    ):
        lines.append(name.ljust(24) + "".join(value.rjust(22) for value in values))
    told = (
        f"{rounds[0].current} -> {highest} -> {rounds[-1].current} replicas: "
        f"{len(moves.out)} scale-outs, {len(moves.back)} scale-ins, {saved:.0%} fewer GPU seconds "
        "than the peak held throughout"
    )
    return [*lines, "", told]
