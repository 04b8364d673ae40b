"""Demand at the moment when a replica asked for now would be ready (rule 5).

A replica that takes minutes to load comes too late for the load of now. The trend of the recent
load is carried forward by the start-up time, if it is a trend and not noise, and by no more than
a doubling: a straight line says nothing about the far future.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvscale.core.decide.state import LoadPoint

WINDOW_SECONDS = 180.0
MIN_POINTS = 8
MIN_SPAN_SECONDS = 45.0
SIGNIFICANCE = 3.0
"""Slopes below three standard errors are noise (neighbouring samples are correlated, so the usual
two would be passed by chance far more often than 1 in 20)."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Growth of the load in blocks per second; 0 when it does not clearly grow."""

    blocks_per_second: float
    points: int


def find_trend(points: Sequence[LoadPoint], now: float) -> Trend:
    """Least-squares slope of the load over the last three minutes, if significant and upwards."""
    recent = [point for point in points if point.at > now - WINDOW_SECONDS]
    n = len(recent)
    if n < MIN_POINTS or recent[-1].at - recent[0].at < MIN_SPAN_SECONDS:
        return Trend(0.0, n)
    mean_t = sum(point.at for point in recent) / n
    mean_b = sum(point.blocks for point in recent) / n
    spread = sum((point.at - mean_t) ** 2 for point in recent)
    if spread <= 0:
        return Trend(0.0, n)
    slope = sum((p.at - mean_t) * (p.blocks - mean_b) for p in recent) / spread
    residual = sum((p.blocks - mean_b - slope * (p.at - mean_t)) ** 2 for p in recent)
    error = math.sqrt(residual / (n - 2) / spread)
    if slope <= 0 or slope < SIGNIFICANCE * error:
        return Trend(0.0, n)
    return Trend(slope, n)


def growth_until_ready(trend: Trend, startup_seconds: float, blocks_now: int) -> int:
    """Blocks that the load grows by while a replica starts; at most as much as there is now."""
    return min(blocks_now, math.ceil(trend.blocks_per_second * startup_seconds))
