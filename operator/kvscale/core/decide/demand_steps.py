"""What is known of one request beforehand, and the trace of a load that is measured in such."""

from dataclasses import dataclass
from statistics import NormalDist

from kvscale.core.decide.decision import Demand
from kvscale.core.planning.growth import residents_allowed
from kvscale.core.spec import PER_MILLION, Planning
from kvscale.core.trace import Scalar, Step, Trace
from kvscale.core.traffic.residency import significant

ASSUMED_VARIATION = 1.0
"""Coefficient of variation of a request's footprint where no lengths are declared.

Output lengths of production traces vary at least so much (Azure 2023 conversation: 1.2); 1 is the
exponential distribution's.
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What is known beforehand of one request.

    Attributes:
        mean_blocks: of a resident request by the declared lengths; None: not declared.
        variation: coefficient of variation of the footprint.
        p99_blocks: of the request at the 99th percentile; None: not declared.
        source: where it comes from, for the trace.
    """

    mean_blocks: float | None = None
    variation: float = ASSUMED_VARIATION
    p99_blocks: int | None = None
    source: str = "not declared: coefficient of variation 1 assumed"


def demand_steps(
    demand: Demand,
    per_request: float,
    source: str,
    footprint: Footprint,
    planning: Planning,
    *,
    usable: int,
) -> Trace:
    """What the load consists of."""
    return (
        Step(
            "usedBlocks",
            demand.used_blocks,
            "blocks",
            "measured: sum over engines of usage * usable blocks",
            (("occupancyMilli", demand.occupancy_milli), ("running", demand.running)),
        ),
        Step(
            "waitingBlocks",
            demand.waiting_blocks,
            "blocks",
            "ceil(waiting * blocksPerRequest)",
            (
                ("waiting", demand.waiting),
                ("blocksPerRequest", significant(per_request)),
                ("blocksPerRequestFrom", source),
            ),
        ),
        _growth_step(demand, per_request, usable, footprint, planning),
    )


def _growth_step(
    demand: Demand, per_request: float, usable: int, footprint: Footprint, planning: Planning
) -> Step:
    requests: tuple[tuple[str, Scalar], ...] = (
        ("running", demand.running),
        ("waiting", demand.waiting),
        ("blocksPerRequest", significant(per_request)),
        ("variation", significant(footprint.variation)),
        ("variationFrom", footprint.source),
    )
    if planning.by_overflow:
        share = planning.overflow_per_million / PER_MILLION
        allowed = residents_allowed(usable / per_request, footprint.variation, share)
        quantile: tuple[tuple[str, Scalar], ...] = (
            ("overflowPerMillion", planning.overflow_per_million),
            ("residentsAllowed", significant(allowed)),
        )
        formula = (
            "max(0, ceil((running + waiting) * (usableBlocksPerEngine / residentsAllowed - "
            "blocksPerRequest))); residents of that variation that exceed an engine with "
            "overflowPerMillion"
        )
        source = "Poisson residents, each gamma distributed"
    else:
        quantile = (
            ("percentile", planning.percentile),
            ("z", significant(max(0.0, NormalDist().inv_cdf(planning.quantile)))),
        )
        formula = (
            "ceil(z * sqrt(running + waiting) * blocksPerRequest * variation); z of the normal "
            "distribution at the percentile"
        )
        source = "central limit theorem over the resident requests"
    return Step(
        "growthBlocks", demand.growth_blocks, "blocks", formula, (*quantile, *requests), source
    )
