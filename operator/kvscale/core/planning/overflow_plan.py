"""Replicas by overflow probability: the plan of mode OverflowProbability.

The smallest number at which the residents of an engine exceed its usable blocks with at most the
accepted probability; `overflow` tells the probability, here it is turned into replicas.
"""

import math
from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.planning.growth import matching_variation
from kvscale.core.planning.occupation import Held, occupation
from kvscale.core.planning.overflow import Risk
from kvscale.core.planning.overflow_steps import OverflowCount, count_steps, largest_step, rare_step
from kvscale.core.planning.service import Service
from kvscale.core.spec import PER_MILLION
from kvscale.core.trace import Step, Trace
from kvscale.core.traffic.compound_poisson import moments
from kvscale.core.traffic.lengths import whole
from kvscale.core.traffic.profile import Profile
from kvscale.core.traffic.residency import FloorBound, Residence, significant
from kvscale.core.values import Unknown

RAREST = 0.999
"""The request that an engine must be able to hold by itself, as a quantile of prompt + output."""

Rates = tuple[int | None, int | None]
"""Of a whole pool at its mean and at its peak, in requests a minute; None where not declared."""

TAIL = 0.95
"""Requests longer than this quantile are the tail whose share of the cache is reported."""


@dataclass(frozen=True, slots=True)
class OverflowPlan:
    """What the declared rates need, by overflow probability.

    Attributes:
        per_million: the accepted probability, in millionths.
        largest: one engine at the largest rate that it may be given.
        replica_rate: requests a second that a replica of such engines serves.
        at_mean, at_peak: the replicas; None where that rate is not declared, or is 0.
        rare_tokens, rare_blocks: the p99.9 request, which one engine holds by itself.
        tail_share: the share, 0 to 1, of block-seconds that requests beyond p95 hold.
        bound: what limits one engine.
        resident_variation: coefficient of variation of the blocks that a resident holds, such
            that measured load is planned as the declared one (`growth`).
        trace: the arithmetic.
    """

    per_million: int
    largest: Residence
    replica_rate: float
    at_mean: OverflowCount | None
    at_peak: OverflowCount | None
    rare_tokens: int
    rare_blocks: int
    tail_share: float
    bound: FloorBound
    resident_variation: float
    trace: Trace


def overflow_plan(
    service: Service,
    requests: Profile,
    capacity: EngineCapacity,
    *,
    rates: Rates,
    per_million: int,
    engines_per_replica: int,
) -> OverflowPlan | Unknown:
    """The plan, sized on the low end of the capacity's band.

    Args:
        service: an engine under the traffic.
        requests: its lengths.
        capacity: what one engine holds.
        rates: of the whole pool.
        per_million: accepted overflow probability of an engine, in millionths.
        engines_per_replica: engines in one replica.

    Returns:
        Unknown(PlanningRequestDoesNotFit) where one p99.9 request does not fit an empty engine:
        no number of replicas mends that.
    """
    usable = capacity.usable_blocks.low
    rare_tokens = whole(requests.total.quantile(RAREST))
    rare_blocks = capacity.blocks_for(rare_tokens)
    if rare_blocks > usable:
        return Unknown(
            "PlanningRequestDoesNotFit",
            f"a p99.9 request of {rare_tokens} tokens needs {rare_blocks} KV blocks, an engine may "
            f"have only {usable}: add devices to the engine or lower its maximum length",
        )
    risk, accepted = Risk.of(service, requests, capacity), per_million / PER_MILLION
    largest = risk.largest(accepted)
    counts = [
        _count(risk, rate / 60, accepted, largest, engines_per_replica) if rate else None
        for rate in rates
    ]
    tail, everything = _block_seconds(risk, requests, capacity, largest)
    share = tail / everything if everything else 0.0
    bound: FloorBound = "KV" if largest.batch < capacity.max_num_seqs else "Sequences"
    if largest.prefill_bound:
        bound = "Prefill"
    steps = [
        largest_step(risk, largest, per_million),
        rare_step(capacity, rare_tokens, rare_blocks),
    ]
    for name, count in zip(("Mean", "Peak"), counts, strict=True):
        if count is not None:
            steps += count_steps(name, count, usable, per_million)
    steps.append(
        Step(
            "tailShareOfCache",
            significant(share),
            "",
            "tailBlockSeconds / blockSeconds; the tail: requests longer than p95"
            if everything
            else "0; no request holds a block",
            (("tailBlockSeconds", significant(tail)), ("blockSeconds", significant(everything)))
            if everything
            else (),
        )
    )
    return OverflowPlan(
        per_million=per_million,
        largest=largest,
        replica_rate=largest.requests_per_second * engines_per_replica,
        at_mean=counts[0],
        at_peak=counts[1],
        rare_tokens=rare_tokens,
        rare_blocks=rare_blocks,
        tail_share=share,
        bound=bound,
        resident_variation=_variation(risk, largest, accepted, bound),
        trace=tuple(steps),
    )


def _count(
    risk: Risk, per_second: float, accepted: float, largest: Residence, engines: int
) -> OverflowCount:
    """The fewest replicas of so many engines for a rate: guessed, then checked one by one."""
    seen: dict[int, tuple[Residence | None, float]] = {0: (None, 1.0)}

    def probability(replicas: int) -> float:
        if replicas not in seen:
            # What floating point adds to a rate that fits exactly is not a request.
            rate = per_second / (replicas * engines) * (1 - 1e-9)
            stay = risk.service.at_rate(rate, float(risk.max_num_seqs))
            seen[replicas] = (stay, 1.0 if stay is None else risk.probability(stay))
        return seen[replicas][1]

    enough = max(1, math.ceil(round(per_second / engines / largest.requests_per_second, 9)))
    stride = 1
    few = 0
    while probability(enough) > accepted:
        few, enough, stride = enough, enough + stride, 2 * stride
    stride = 1
    while not few and probability(max(0, enough - stride)) <= accepted:
        enough, stride = enough - stride, 2 * stride
    few = few or max(0, enough - stride)
    while enough - few > 1:
        middle = (few + enough) // 2
        if probability(middle) > accepted:
            few = middle
        else:
            enough = middle
    stay = seen[enough][0]
    parts = [] if stay is None else risk.parts(stay)
    return OverflowCount(
        replicas=enough,
        probability=probability(enough),
        probability_of_one_less=probability(enough - 1),
        residents=math.fsum(part.expected for part in parts),
        blocks=moments(parts),
    )


def _block_seconds(
    risk: Risk, requests: Profile, capacity: EngineCapacity, stay: Residence
) -> tuple[float, float]:
    """Mean block-seconds of a request, those of the tail alone and those of all."""
    points = requests.requests(capacity.max_model_len)
    tail = points.longer_than(requests.total.quantile(TAIL))
    step = stay.step_seconds / (1 - stay.prefill_share)

    def held(stays: tuple[Held, ...]) -> float:
        return math.fsum(
            one.blocks * (one.prefill_seconds + step * one.decode_steps) for one in stays
        )

    everything = held(risk.held)
    if tail is None:
        return 0.0, everything
    return held(occupation(tail, capacity, risk.service.model)), everything


def _variation(risk: Risk, largest: Residence, accepted: float, bound: FloorBound) -> float:
    """The coefficient of variation of a resident's blocks, for `growth`."""
    parts = risk.parts(largest)
    residents, sums = math.fsum(part.expected for part in parts), moments(parts)
    if sums.mean <= 0:
        return 0.0
    if bound == "KV":
        room = risk.usable_blocks * residents / sums.mean
        return matching_variation(room, residents, accepted)
    # Of a Poisson number: variance = residents * E[blocks ^ 2].
    return math.sqrt(max(0.0, residents * (sums.deviation / sums.mean) ** 2 - 1))
