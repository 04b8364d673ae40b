"""Demand at the moment when a replica asked for now would be ready (rule 5).

A replica that takes minutes to load comes too late for the load of now. The trend of the recent
load is carried forward by the start-up time, if it is a trend and not noise, and by no more than
a doubling: a straight line says nothing about the far future.

A step is no trend: what has jumped to a new level will not jump again. A least-squares line does
not tell the two apart. So the slope is taken from the slopes between all pairs of points, as Theil
and Sen do, but at their lower quarter instead of their median: of the pairs of a step more than a
quarter are level, of a trend's none. That three quarters of the pairs rise is what noise alone
brings about in one full window of sixty.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from kvscale.core.decide.state import LoadPoint

WINDOW_SECONDS = 180.0
BUCKET_SECONDS = 15.0
"""Points are averaged over so long: what is left of noise then hardly depends on its neighbours,
and twelve points have few pairs."""

MIN_POINTS = 8
"""Of fewer points noise alone makes three quarters of the pairs rise more often than 1 in 20."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Growth of the load in blocks per second; 0 when it does not clearly grow."""

    blocks_per_second: float
    points: int


def find_trend(points: Sequence[LoadPoint], now: float) -> Trend:
    """The slope of the load over the last three minutes, if it clearly grows."""
    averaged = _averaged(point for point in points if point.at > now - WINDOW_SECONDS)
    if len(averaged) < MIN_POINTS:
        return Trend(0.0, len(averaged))
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(averaged, 2))
    return Trend(max(0.0, slopes[len(slopes) // 4]), len(averaged))


def _averaged(points: Iterable[LoadPoint]) -> list[tuple[float, float]]:
    """Mean (time, blocks) of the points of each bucket."""
    found: list[tuple[float, float]] = []
    for _, group in groupby(points, key=lambda point: point.at // BUCKET_SECONDS):
        members = list(group)
        found.append(
            (
                sum(point.at for point in members) / len(members),
                sum(point.blocks for point in members) / len(members),
            )
        )
    return found


def growth_until_ready(trend: Trend, startup_seconds: float, blocks_now: int) -> int:
    """Blocks that the load grows by while a replica starts; at most as much as there is now."""
    return min(blocks_now, math.ceil(trend.blocks_per_second * startup_seconds))
