"""A declaration of lengths as a distribution.

The fitted curve is lognormal between declared percentiles: straight in (normal score, log length).
Beyond the outermost ones it goes on at the slope of its last segment. A declared mean bends the
whole curve by one exponent, which leaves every declared percentile where it is.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

from kvscale.core.refusal import Refusal
from kvscale.core.traffic.declared import LengthPercentiles
from kvscale.core.traffic.lengths import LEVELS, ONE, Lengths, whole
from kvscale.core.values import Unknown

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
_SCORES = tuple(NormalDist().inv_cdf(min(max(level, ONE - _TOP), _TOP) / ONE) for level in LEVELS)


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
