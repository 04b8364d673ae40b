"""Overflow probability: how often what an engine's requests hold is more than its memory.

Requests are split over the engines at random and come by themselves, so an engine's residents are
Poisson in number, and each is met in proportion to the time that it stays (`occupation`). The sum
of what they hold has a known distribution (`compound_poisson`), and it depends on the engine's
rate alone: the largest rate at which an engine overflows with at most the accepted probability
gives the replicas for any rate of the pool.

The sum concentrates. An engine that holds hundreds of requests needs little room beyond their
mean, where a percentile for each of them asks for twice the memory; one that holds three needs
more than the percentile says.

Slots (`max_num_seqs`) and prompt time limit the rate as they do in mode Percentile, on average.
An engine that overflows preempts: it computes a request again, later.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.planning.occupation import Held, occupation
from kvscale.core.planning.service import Service
from kvscale.core.traffic.compound_poisson import Part, exceedance, moments
from kvscale.core.traffic.profile import Profile
from kvscale.core.traffic.residency import Residence

NARROW = 5e-3
"""The largest batch is found to this relative width; replicas are then checked one by one."""

ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Risk:
    """One engine under growing load.

    Attributes:
        service: what it serves at a batch.
        held: how long a request holds how many blocks.
        usable_blocks: what its residents may hold together.
        max_num_seqs: sequences that it runs at once.
    """

    service: Service
    held: tuple[Held, ...]
    usable_blocks: int
    max_num_seqs: int

    @classmethod
    def of(cls, service: Service, requests: Profile, capacity: EngineCapacity) -> "Risk":
        """The risk of an engine, on the low end of its band."""
        points = requests.requests(capacity.max_model_len)
        held = occupation(points, capacity, service.model)
        return cls(service, held, capacity.usable_blocks.low, capacity.max_num_seqs)

    def parts(self, stay: Residence) -> list[Part]:
        """The residents of an engine by what they hold (Little's law, size by size)."""
        step = stay.step_seconds / (1 - stay.prefill_share)
        rate = stay.requests_per_second
        return [
            Part(blocks, rate * (prefill_seconds + step * decode_steps))
            for blocks, prefill_seconds, decode_steps in self.held
        ]

    def probability(self, stay: Residence) -> float:
        """That they hold more than the engine has."""
        return exceedance(self.parts(stay), self.usable_blocks)

    def full(self) -> Residence:
        """The engine with every slot taken, or with all the time that prompts may have."""
        most = float(self.max_num_seqs)
        full = self.service.at(most)
        if not full.prefill_bound:
            return full
        return self.service.at_rate(full.requests_per_second * (1 - 5e-10), most) or full

    def largest(self, accepted: float) -> Residence:
        """The engine at the largest rate that overflows with at most the accepted probability."""
        full = self.full()
        most = full.batch
        fits = moments(self.parts(full)).mean <= self.usable_blocks
        if fits and self.probability(full) <= accepted:
            return full
        # Two moments and the skewness tell almost where to look.
        low, high = self._bracket(self._guess(accepted, most), accepted, most)
        while high[0] > low[0] * (1 + NARROW):
            low, high = self._narrowed(low, high, accepted)
        return self.service.at(low[0])

    def _guess(self, accepted: float, most: float) -> float:
        """The batch by the first three moments of the sum."""
        low, high = 0.0, most
        for _ in range(ROUNDS // 2):
            middle = (low + high) / 2
            sums = moments(self.parts(self.service.at(middle)))
            if sums.quantile(1 - accepted) > self.usable_blocks:
                high = middle
            else:
                low = middle
        return high

    def _bracket(
        self, guess: float, accepted: float, most: float
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Two batches around the right one, each with its probability."""
        step = 1.02
        first = (guess, self.probability(self.service.at(guess)))
        low = high = first
        while low[1] > accepted:
            high, batch = low, low[0] / step
            low = (batch, self.probability(self.service.at(batch)))
            step *= step
        while high[1] <= accepted:
            low, batch = high, min(most, high[0] * step)
            high = (batch, self.probability(self.service.at(batch)))
            step *= step
        return low, high

    def _narrowed(
        self, low: tuple[float, float], high: tuple[float, float], accepted: float
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """The bracket cut where a straight line in (log batch, score) crosses the accepted one."""
        wanted, below, above = _score(accepted), _score(low[1]), _score(high[1])
        share = (wanted - below) / (above - below) if above > below else 0.5
        width = high[0] / low[0]
        # Not at an end: the other one would never move.
        least = min(0.5, NARROW / 2 / math.log(width))
        batch = low[0] * width ** min(max(share, least), 1 - least)
        found = (batch, self.probability(self.service.at(batch)))
        return (low, found) if found[1] > accepted else (found, high)


def _score(probability: float) -> float:
    """The normal score, bounded: beyond it nothing is told apart."""
    return NormalDist().inv_cdf(min(max(probability, 1e-12), 1 - 1e-12))
