"""How long a request holds how many blocks, on its way from its prompt to its end.

A request of prompt p and output o passes every length from p to p + o, one step each. So the
expected number of steps between two lengths a < b is what E[min(length, p + o) - min(length, p)]
grows by from a to b, whatever the joint distribution: two sorted lists answer for every cell.

The engine's own arithmetic says what a length holds (`EngineCapacity.resident_blocks`): steps for
full attention, bounded for windows and states.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.roofline import StepTime
from kvscale.core.traffic.lengths import whole
from kvscale.core.traffic.requests import Requests

FINEST = 64
WIDEST = 10
COARSEST = 20
"""A cell is at most max(64, length / 10) tokens long, and its blocks differ by at most 1 / 20."""


class Held(NamedTuple):
    """A request's stay at one number of blocks.

    Attributes:
        blocks: held meanwhile; a mean where a few neighbouring numbers are kept as one.
        prefill_seconds: expected seconds there while its prompt is computed. The whole prompt
            counts as held from the start: chunks are allocated one by one, in less time.
        decode_steps: expected decode steps there.
    """

    blocks: float
    prefill_seconds: float
    decode_steps: float


@lru_cache(maxsize=256)
def occupation(requests: Requests, capacity: EngineCapacity, model: StepTime) -> tuple[Held, ...]:
    """The stay of an arriving request by blocks, ascending in length.

    Args:
        requests: as the engine accepts them (capped at its maximum length).
        capacity: what a length holds.
        model: how long a prompt takes on the engine.
    """
    totals = requests.totals()
    starts = _Sorted.of(requests.prompts, requests.weights)
    ends = _Sorted.of(totals, requests.weights)
    held = []
    low, last = math.ceil(min(requests.prompts)) - 1, math.ceil(max(totals))
    passed = 0.0
    while low < last:
        high, blocks = _cell(capacity.resident_blocks, low, last)
        before, passed = passed, ends.mean_below(high) - starts.mean_below(high)
        share, tokens = starts.between(low, high)
        prefill = 0.0
        if share:
            seconds = model.prefill_seconds(whole(tokens), capacity.max_num_batched_tokens)
            prefill = share * seconds
        held.append(Held(blocks, prefill, max(0.0, passed - before)))
        low = high
    return tuple(held)


def _cell(blocks_of: Callable[[int], int], low: int, last: int) -> tuple[int, float]:
    """The end of the cell of lengths that begins above `low`, and the blocks within it."""
    least = blocks_of(low + 1)
    most = least + least // COARSEST
    high = min(last, low + max(FINEST, low // WIDEST))
    reached = blocks_of(high)
    if reached > most:
        fits, exceeds = low + 1, high
        while exceeds - fits > 1:
            middle = (fits + exceeds) // 2
            if blocks_of(middle) > most:
                exceeds = middle
            else:
                fits = middle
        high, reached = fits, blocks_of(fits)
    return high, (least + reached) / 2


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Weighted values, ascending, with their running sums."""

    values: list[float]
    weights: list[float]
    moments: list[float]

    @classmethod
    def of(cls, values: Iterable[float], weights: Iterable[float]) -> "_Sorted":
        pairs = sorted(zip(values, weights, strict=True))
        ascending = [value for value, _ in pairs]
        shares = [weight for _, weight in pairs]
        return cls(
            ascending,
            list(accumulate(shares, initial=0.0)),
            list(accumulate(map(mul, ascending, shares), initial=0.0)),
        )

    def mean_below(self, limit: float) -> float:
        """E[min(value, limit)], with the weights as they are."""
        at = bisect_right(self.values, limit)
        return self.moments[at] + limit * (self.weights[-1] - self.weights[at])

    def between(self, low: float, high: float) -> tuple[float, float]:
        """The weight of the values in (low, high], and their mean."""
        left, right = bisect_right(self.values, low), bisect_right(self.values, high)
        weight = self.weights[right] - self.weights[left]
        if left == right or weight <= 0:
            return 0.0, 0.0
        return weight, (self.moments[right] - self.moments[left]) / weight
