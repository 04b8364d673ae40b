"""The planned quantile of a sum of residents: how much more than now a plan allows for.

One home for both planning modes. What is measured is a sum over the residents of a pool. What is
not known is how long each of them will get and, engine by engine, how many there will be.
"""

import math
from functools import lru_cache

from kvscale.core.spec import PER_MILLION, Planning
from kvscale.core.traffic.compound_poisson import Moments

MEDIAN = 0.5

MANY = 50.0
"""Residents of an engine from which three moments tell its quantile."""

HALVINGS = 24

MOST_VARIATION = 4.0
"""Of the blocks that a resident holds; public traces stay below 2."""


def planned_growth(
    requests: int, usable: int, *, mean_blocks: float, variation: float, planning: Planning
) -> int:
    """Blocks between the expected sum and what the plan keeps for it, over the whole pool.

    Mode Percentile: the quantile of the pool's sum, its residents being counted:
    z * sqrt(N) * blocks * c. The target occupancy is the room for engines fuller than the mean.

    Mode OverflowProbability: the whole room of as many engines as keep the accepted probability
    when requests are split over them at random, less the sum. That number depends on the load
    alone, not on the engines that are there: a count that asked for more because it is larger
    would never come to rest.

    Args:
        requests: resident and waiting, of the pool.
        usable: blocks of one engine.
        mean_blocks: of one request.
        variation: coefficient of variation c of one request's blocks.
        planning: the mode and its quantile.
    """
    if requests == 0 or mean_blocks <= 0:
        return 0
    if not planning.by_overflow:
        if planning.quantile <= MEDIAN:
            return 0
        pool = Moments(0.0, math.sqrt(requests) * mean_blocks * variation)
        return math.ceil(pool.quantile(planning.quantile))
    each = residents_allowed(
        usable / mean_blocks, variation, planning.overflow_per_million / PER_MILLION
    )
    return max(0, math.ceil(requests * (usable / each - mean_blocks)))


@lru_cache(maxsize=64)
def residents_allowed(room: float, variation: float, accepted: float) -> float:
    """Mean residents of an engine that exceeds its memory with the accepted probability.

    Args:
        room: what an engine holds, in mean requests.
        variation: coefficient of variation of a request; gamma distributed around 1.
        accepted: the probability, 0 to 1.
    """
    square = variation * variation
    low, high = 0.0, max(room, 1.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _exceeds(middle, room, square, accepted):
            high = middle
        else:
            low = middle
    return low or high


def matching_variation(room: float, residents: float, accepted: float) -> float:
    """The coefficient of variation for which `residents_allowed` is that many residents.

    A plan from whole distributions knows the number; what is measured later knows but two moments
    of a request. With this variation both ask for the same.
    """
    low, high = 0.0, MOST_VARIATION
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _exceeds(residents, room, middle * middle, accepted):
            high = middle
        else:
            low = middle
    return high


def _exceeds(residents: float, room: float, square: float, accepted: float) -> bool:
    if residents >= MANY:
        # Raw moments of a gamma distribution around 1: 1 + c^2, (1 + c^2) (1 + 2 c^2).
        deviation = math.sqrt(residents * (1 + square))
        return (
            Moments(residents, deviation, (1 + 2 * square) / deviation).quantile(1 - accepted)
            > room
        )
    # A single request fits an engine, whatever its distribution says; from two on they add up.
    most = math.ceil(residents + 10 * math.sqrt(residents)) + 10
    term, total = math.exp(-residents) * residents, 0.0
    for count in range(2, most):
        term *= residents / count
        total += term * _gamma_above(room, count, square)
    return total > accepted


def _gamma_above(room: float, count: int, square: float) -> float:
    """The probability that so many gamma distributed requests are more than the room.

    E. Wilson and M. Hilferty, PNAS 17, 1931: the cube root is nearly normal.
    """
    ninth = square / (9 * count)
    if ninth == 0:  # none, or less than a float can be
        return float(count > room)
    score = (math.cbrt(room / count) - 1 + ninth) / math.sqrt(ninth)
    return math.erfc(score / math.sqrt(2)) / 2
