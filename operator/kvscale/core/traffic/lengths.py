"""Distributions of request lengths, fitted to whatever percentiles a user declares.

A distribution is its quantile function at fixed levels, straight in between: the same input always
gives the same numbers, nothing is drawn at random, and every later figure (mean, percentile of
prompt + output, resident tokens) is a sum over a few hundred cells.

The fitted curve is lognormal between declared percentiles: straight in (normal score, log length).
Beyond the outermost ones it goes on at the slope of its last segment. A declared mean bends the
whole curve by one exponent, which leaves every declared percentile where it is.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import mul
from statistics import NormalDist

from kvscale.core.refusal import Refusal
from kvscale.core.traffic.declared import LengthPercentiles
from kvscale.core.values import Unknown

ONE = 10_000
"""Levels are counted in ten-thousandths, so that weights and their products stay exact."""

LEVELS: tuple[int, ...] = (*range(0, 9000, 200), *range(9000, 9900, 50), *range(9900, ONE + 1, 10))
"""Edges of the cells: 2 % wide in the bulk, 0.1 % beyond the 99th percentile, where memory goes.

Four times as many cells move the 95th percentile of a sum by 0.1 % and the 99th by 0.5 %.
"""

SPREAD = 1.0
"""Standard deviation of log length where a declaration does not say it (p90 / p50 = 3.6).

Measured as ln(p90 / p50) / 1.2816 over public traces, prompt and output: Azure LLM inference 2023
conversation 0.77 and 0.93, AIBrix 0.54 and 1.30, Mooncake conversation 1.07 and 0.42, ServeGen
m-small 1.63 and 2.10.
"""

TAIL_RATIO = 100.0
"""No length beyond this multiple of the highest declared percentile."""

_TOP = 9_995
_BENDS = 3.0
_WEIGHTS = tuple(right - left for left, right in pairwise(LEVELS))
_MASSES = tuple((a + b) / 2 for a, b in pairwise((0, *_WEIGHTS, 0)))
"""Of each level: half the weight of the cells on both sides, which is its share in a mean."""
_SCORES = tuple(NormalDist().inv_cdf(min(max(level, ONE - _TOP), _TOP) / ONE) for level in LEVELS)


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


@dataclass(frozen=True, slots=True)
class Fit:
    """A declaration as a distribution.

    Attributes:
        assumptions: what was assumed where the declaration is silent, one sentence each.
        problem: a contradiction within the declaration; the nearest distribution is given.
    """

    lengths: Lengths
    assumptions: tuple[str, ...] = ()
    problem: Refusal | None = None


@lru_cache(maxsize=512)
def fit(declared: LengthPercentiles, field: str) -> Fit | Unknown:
    """The distribution that a declaration describes.

    Args:
        declared: any subset of mean, p50, p90, p95 and p99, in tokens.
        field: what messages call it ("spec.traffic.promptTokens").

    Returns:
        Unknown(LengthsNotDeclared) when nothing is declared, and Unknown(LengthsInvalid) when a
        length is not positive or the percentiles descend.
    """
    knots = declared_percentiles(declared)
    stated = [tokens for _, tokens in knots] + [declared.mean] * (declared.mean is not None)
    if not stated:
        return Unknown("LengthsNotDeclared", f"{field} declares no length: set its mean or p95")
    if min(tokens for tokens in stated if tokens is not None) < 1:
        return Unknown("LengthsInvalid", f"{field} has a length below 1 token: correct it")
    if any(low[1] > high[1] for low, high in pairwise(knots)):
        return Unknown("LengthsInvalid", f"{field}: percentiles descend: put them in order")
    assumptions = []
    if len(knots) == 0:
        assumptions.append(
            f"{field} declares a mean alone: lengths are taken as lognormal with p90 / p50 = 3.6"
        )
        # The median of a lognormal distribution of that mean.
        knots = ((50, float(declared.mean or 1) * math.exp(-SPREAD * SPREAD / 2)),)
    elif len(knots) == 1:
        assumptions.append(
            f"{field} declares one percentile: lengths are taken as lognormal with p90 / p50 = 3.6"
            + (", bent to the declared mean" if declared.mean else "")
        )
    if declared.mean is None:
        lengths, problem = _curve(knots, 1.0), None
    else:
        lengths, problem = _bent(knots, declared.mean, field)
    return Fit(lengths, (*assumptions, _tail(declared, field, lengths)), problem)


def _tail(declared: LengthPercentiles, field: str, lengths: Lengths) -> str:
    """What is assumed beyond the highest percentile: no declaration reaches p99.9."""
    rare = whole(lengths.quantile(0.999))
    if declared.p99 is not None:
        return f"{field}: beyond p99 the tail goes on at its last slope, p99.9 at {rare} tokens"
    return (
        f"{field} declares no p99: the tail goes on at its last slope, p99 at "
        f"{lengths.tokens(99)} and p99.9 at {rare} tokens"
    )


def declared_percentiles(declared: LengthPercentiles) -> tuple[tuple[int, float], ...]:
    """The percentiles that are set, as (percent, tokens), ascending in percent."""
    pairs = ((50, declared.p50), (90, declared.p90), (95, declared.p95), (99, declared.p99))
    return tuple((percent, float(tokens)) for percent, tokens in pairs if tokens is not None)


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


def _bent(
    knots: tuple[tuple[int, float], ...], mean: int, field: str
) -> tuple[Lengths, Refusal | None]:
    """The curve through the knots whose mean is nearest to the declared one."""
    shortest, longest = _curve(knots, 2.0**_BENDS), _curve(knots, 2.0**-_BENDS)
    if not shortest.mean() <= mean <= longest.mean():
        nearest = shortest if mean < shortest.mean() else longest
        if math.isclose(nearest.mean(), mean, rel_tol=0.005):
            return nearest, None
        return nearest, Refusal(
            "MeanContradictsPercentiles",
            f"{field}.mean",
            f"{field}.mean is {mean}, but its percentiles allow {whole(shortest.mean())} to "
            f"{whole(longest.mean())} tokens: correct the mean or the percentiles "
            f"({whole(nearest.mean())} is used)",
        )
    low, high = -_BENDS, _BENDS
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if _curve(knots, 2.0**middle).mean() > mean else (low, middle)
    return _curve(knots, 2.0**high), None


def _curve(knots: tuple[tuple[int, float], ...], bend: float) -> Lengths:
    """The quantile function through the knots; `bend` above 1 shortens everything between them."""
    below, within, above, ceiling = _pieces(knots)
    logs = [start - bend * fall for start, fall in below]
    logs += [start + rise * math.pow(share, bend) for start, rise, share in within]
    logs += [start + rise / bend for start, rise in above]
    inside = (log if 0.0 < log < ceiling else min(max(log, 0.0), ceiling) for log in logs)
    return Lengths(tuple(map(math.exp, inside)))


Straight = tuple[tuple[float, float], ...]
Bent = tuple[tuple[float, float, float], ...]


@lru_cache(maxsize=4)
def _pieces(knots: tuple[tuple[int, float], ...]) -> tuple[Straight, Bent, Straight, float]:
    """What the curves through the same knots share: a search for the bend tries two dozen.

    Returns:
        Of each score: below the first knot (its log length, the fall from there), between two
        (the lower one's, the rise to the upper, the share of the way), above the last (its log
        length, the rise from there); and the log of the longest length.
    """
    points = [(NormalDist().inv_cdf(percent / 100), math.log(x)) for percent, x in knots]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(points)] or [SPREAD]
    (first, low), (last, high) = points[0], points[-1]
    within = []
    for score in _SCORES:
        if first < score < last:
            right = next(i for i, point in enumerate(points) if point[0] > score)
            (z0, x0), (z1, x1) = points[right - 1], points[right]
            within.append((x0, x1 - x0, (score - z0) / (z1 - z0)))
    return (
        tuple((low, slopes[0] * (first - score)) for score in _SCORES if score <= first),
        tuple(within),
        tuple((high, slopes[-1] * (score - last)) for score in _SCORES if first < score >= last),
        high + math.log(TAIL_RATIO),
    )
