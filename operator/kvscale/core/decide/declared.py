"""What the declared traffic says to a decision: floors, and what one request holds."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.decide import reasons
from kvscale.core.decide.blocks import EngineBlocks
from kvscale.core.decide.demand import Load
from kvscale.core.decide.demand_steps import Footprint
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.floor import floor
from kvscale.core.refusal import Refusal
from kvscale.core.snapshot import PoolSnapshot
from kvscale.core.spec import Planning, PoolSpec
from kvscale.core.trace import Trace
from kvscale.core.traffic.declared import Traffic
from kvscale.core.traffic.lengths import ONE, whole
from kvscale.core.traffic.profile import Profile, profile
from kvscale.core.values import Band, Unknown

P99 = 99


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared traffic on this pool's engines.

    Attributes:
        floor_at_mean, floor_at_peak: replicas without any metric; None where not declared or not
            computable (`why_no_floor`).
        footprint: of one request.
        mean_prompt_tokens: of an arriving request.
        problem: where the declaration contradicts itself or the engine.
    """

    floor_at_mean: int | None = None
    floor_at_peak: int | None = None
    footprint: Footprint = Footprint()
    mean_prompt_tokens: float | None = None
    max_blocks: int | None = None
    why_no_floor: Unknown | None = None
    problem: Unknown | None = None
    steps: Trace = ()

    def p99_blocks(self, load: Load, blocks: EngineBlocks) -> int:
        """Blocks of a request at the 99th percentile: declared, else from the measured mean.

        Never more than the longest request that the engine accepts, nor than an empty engine.
        """
        wanted = self.footprint.p99_blocks
        if wanted is None:
            z = NormalDist().inv_cdf(P99 / 100)
            wanted = math.ceil(load.footprint_blocks * (1 + z * self.footprint.variation))
        return min(wanted, self.max_blocks or wanted, blocks.usable)


def read_declared(
    spec: PoolSpec,
    pool: PoolSnapshot,
    capacity: EngineCapacity | Refusal | Unknown,
    blocks: EngineBlocks | Unknown,
    engines_per_pod: int,
) -> Declared:
    """Read the pool's declared traffic; nothing is declared without `spec.traffic`."""
    if (
        not isinstance(capacity, EngineCapacity)
        or isinstance(pool.shape, Unknown)
        or isinstance(pool.engine, Unknown)
        or isinstance(pool.device, Unknown)
    ):
        return Declared(why_no_floor=Unknown(reasons.CAPACITY_UNKNOWN, "no computed ceiling"))
    if spec.traffic is None:
        longest = capacity.blocks_for(capacity.max_model_len)
        return Declared(
            max_blocks=longest,
            why_no_floor=Unknown(reasons.NOT_DECLARED, "spec.traffic is not set"),
        )
    return _declared(
        traffic=spec.traffic,
        shape=pool.shape,
        engine=pool.engine,
        device=pool.device,
        capacity=capacity,
        reported=blocks.reported if isinstance(blocks, EngineBlocks) else None,
        planning=spec.planning,
        target_percent=spec.scaling.target_occupancy_percent,
        engines_per_pod=engines_per_pod,
    )


@lru_cache(maxsize=4096)
def _declared(
    *,
    traffic: Traffic,
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    capacity: EngineCapacity,
    reported: int | None,
    planning: Planning,
    target_percent: int,
    engines_per_pod: int,
) -> Declared:
    if reported is not None:
        # An engine's own count narrows the band to a point (rule 7).
        capacity = replace(capacity, kv_blocks=Band.point(reported + capacity.reserved_blocks))
    longest = capacity.blocks_for(capacity.max_model_len)
    lengths = profile(traffic, capacity.max_model_len)
    if isinstance(lengths, Unknown):
        return Declared(max_blocks=longest, why_no_floor=lengths)
    problem = next((Unknown(p.reason, p.message) for p in lengths.problems), None)
    told = Declared(
        footprint=_footprint(lengths, capacity),
        mean_prompt_tokens=lengths.prompt.mean(),
        max_blocks=longest,
        problem=problem,
    )
    found = floor(
        shape,
        engine,
        device,
        capacity,
        traffic=traffic,
        percentile=planning.percentile,
        target_occupancy_percent=target_percent,
        engines_per_replica=engines_per_pod,
        mode=planning.mode,
        overflow_per_million=planning.overflow_per_million,
    )
    if isinstance(found, Unknown):
        return replace(told, why_no_floor=found)
    if found.overflow is not None:
        told = replace(
            told,
            footprint=replace(told.footprint, variation=found.overflow.resident_variation),
        )
    return replace(
        told, floor_at_mean=found.at_mean, floor_at_peak=found.at_peak, steps=found.trace
    )


def _footprint(lengths: Profile, capacity: EngineCapacity) -> Footprint:
    """What the declared lengths hold, by the engine's own arithmetic: a window forgets."""
    held = [
        (weight, capacity.resident_blocks(whole(tokens)))
        for weight, tokens in lengths.total.cells()
    ]
    mean = sum(weight * blocks for weight, blocks in held) / ONE
    square = sum(weight * blocks * blocks for weight, blocks in held) / ONE
    return Footprint(
        mean_blocks=float(capacity.resident_blocks(whole(lengths.residents.resident_tokens))),
        variation=math.sqrt(max(0.0, square - mean * mean)) / mean if mean > 0 else 0.0,
        p99_blocks=capacity.blocks_for(lengths.total.tokens(P99)),
        source="declared lengths",
    )
