"""Distributions of request lengths.

A distribution is its quantile function at fixed levels, straight in between: the same input always
gives the same numbers, nothing is drawn at random, and every later figure (mean, percentile of
prompt + output, resident tokens) is a sum over a few hundred cells.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import mul

ONE = 10_000
"""Levels are counted in ten-thousandths, so that weights and their products stay exact."""

LEVELS: tuple[int, ...] = (*range(0, 9000, 200), *range(9000, 9900, 50), *range(9900, ONE + 1, 10))
"""Edges of the cells: 2 % wide in the bulk, 0.1 % beyond the 99th percentile, where memory goes.

Four times as many cells move the 95th percentile of a sum by 0.1 % and the 99th by 0.5 %.
"""


_WEIGHTS = tuple(right - left for left, right in pairwise(LEVELS))
_MASSES = tuple((a + b) / 2 for a, b in pairwise((0, *_WEIGHTS, 0)))
"""Of each level: half the weight of the cells on both sides, which is its share in a mean."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of lengths in tokens.

    Attributes:
        values: the length at each of `LEVELS`, ascending; straight in between. In a fitted one the
            longest 0.05 % of requests are counted as the 99.95th percentile.
    """

    values: tuple[float, ...]

    @classmethod
    def constant(cls, tokens: float) -> "Lengths":
        """Every request has that length."""
        return cls((float(tokens),) * len(LEVELS))

    def quantile(self, q: float) -> float:
        """The length in tokens that a share `q` (0 to 1) of the requests does not exceed."""
        level = min(max(q, 0.0), 1.0) * ONE
        left = min(bisect_right(LEVELS, level), len(LEVELS) - 1) - 1
        share = (level - LEVELS[left]) / (LEVELS[left + 1] - LEVELS[left])
        return self.values[left] + share * (self.values[left + 1] - self.values[left])

    def tokens(self, percent: int) -> int:
        """The percentile in whole tokens, rounded up."""
        return whole(self.quantile(percent / 100))

    def mean(self) -> float:
        """Mean length in tokens."""
        held: float = sum(map(mul, _MASSES, self.values))
        return held / ONE

    def variance(self) -> float:
        """Variance in square tokens."""
        second = sum(
            weight * (a * a + a * b + b * b) / 3
            for weight, (a, b) in zip(_WEIGHTS, pairwise(self.values), strict=True)
        )
        return max(0.0, second / ONE - self.mean() * self.mean())

    def cells(self) -> Iterator[tuple[int, float]]:
        """Weight (ten-thousandths) and mean length of each cell, ascending."""
        for weight, (a, b) in zip(_WEIGHTS, pairwise(self.values), strict=True):
            yield weight, (a + b) / 2

    def capped(self, limit: int) -> "Lengths":
        """The same with nothing longer than `limit` tokens."""
        return Lengths(tuple(min(value, float(limit)) for value in self.values))

    def share_above(self, limit: int) -> float:
        """The share of requests, 0 to 1, that is longer than `limit` tokens."""
        left = bisect_right(self.values, limit)
        if left in {0, len(LEVELS)}:
            return 1.0 if left == 0 else 0.0
        low, high = self.values[left - 1], self.values[left]
        level = LEVELS[left - 1] + (limit - low) / (high - low) * (LEVELS[left] - LEVELS[left - 1])
        return 1 - level / ONE


@lru_cache(maxsize=512)
def total(prompt: Lengths, output: Lengths) -> Lengths:
    """The distribution of prompt + output, the two being independent.

    Its percentile is what a plan budgets for: the sum of two percentiles is a rarer request.
    A percentile is off by at most half a cell: by 1 % of the requests in the bulk, by 0.25 % beyond
    the 90th percentile.
    """
    for fixed, other in ((prompt, output), (output, prompt)):
        if fixed.values[0] == fixed.values[-1]:
            return Lengths(tuple(fixed.values[0] + value for value in other.values))
    prompts, outputs = tuple(prompt.cells()), tuple(output.cells())
    sums = [p + o for _, p in prompts for _, o in outputs]
    weights = [v * w for v, _ in prompts for w, _ in outputs]
    first, last = prompt.values[0] + output.values[0], prompt.values[-1] + output.values[-1]
    return _at_levels(sums, weights, first, last)


def of_points(values: Sequence[float], weights: Sequence[float]) -> Lengths:
    """The distribution of weighted lengths, such as those of a trace.

    Args:
        values: lengths in tokens, at least one.
        weights: of each, above 0.
    """
    return _at_levels(values, weights, min(values), max(values))


def _at_levels(
    values: Sequence[float], weights: Sequence[float], first: float, last: float
) -> Lengths:
    """Weighted points as quantiles: a point stands at the middle of its weight."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ascending = [*map(weights.__getitem__, order)]
    ends = [*accumulate(ascending)]
    middles = [end - weight / 2 for end, weight in zip(ends, ascending, strict=True)]
    levels = [0.0, *middles, float(ends[-1])]
    scale = ends[-1] / ONE
    lengths = [first, *map(values.__getitem__, order), last]
    quantiles = []
    for level in LEVELS:
        right = min(max(1, bisect_left(levels, level * scale)), len(levels) - 1)
        low, high = levels[right - 1] / scale, levels[right] / scale
        share = min(1.0, (level - low) / (high - low))
        quantiles.append(lengths[right - 1] + share * (lengths[right] - lengths[right - 1]))
    return Lengths(tuple(quantiles))


def whole(tokens: float) -> int:
    """Whole tokens, rounded up; what floating point adds to a whole number is not a token."""
    return math.ceil(round(tokens, 6))
