"""The bounds: each one reason to need n replicas. The largest one binds."""

import math

from kvscale.core.decide.blocks import EngineBlocks
from kvscale.core.decide.decision import Bound, BoundName, Demand
from kvscale.core.decide.demand import Load
from kvscale.core.trace import Step, Trace

MILLI = 1000


_KV = (
    "ceil(plannedBlocks / (usableBlocksPerEngine * enginesPerReplica * targetOccupancy)) where "
    "plannedBlocks = usedBlocks + waitingBlocks + growthBlocks + startupLookahead"
)
_SEQUENCES = "ceil((running + waiting) / (maxNumSeqs * enginesPerReplica))"


def kv_bound(
    planned_blocks: int, blocks: EngineBlocks, engines_per_pod: int, target_percent: int
) -> Bound:
    """Replicas whose usable blocks, filled to the target occupancy, hold the planned blocks."""
    per_replica = blocks.usable * engines_per_pod * target_percent / 100
    if per_replica <= 0:
        # A capacity of zero blocks is refused before it gets here; never divide by it all the same.
        return Bound(BoundName.KV, 0, 0, "the engine has no usable blocks", "0")
    exact = planned_blocks / per_replica
    return Bound(
        BoundName.KV,
        math.ceil(exact),
        round(exact * MILLI),
        f"{planned_blocks:,} blocks / ({blocks.usable * engines_per_pod:,} usable a replica "
        f"at {target_percent} %) = {exact:.2f}",
        _KV,
        (
            ("plannedBlocks", planned_blocks),
            ("usableBlocksPerEngine", blocks.usable),
            ("enginesPerReplica", engines_per_pod),
            ("targetOccupancy", target_percent / 100),
        ),
    )


def sequences_bound(demand: Demand, max_num_seqs: int, engines_per_pod: int) -> Bound:
    """Replicas whose running batch has a place for every request."""
    requests = demand.running + demand.waiting
    exact = requests / (max_num_seqs * engines_per_pod)
    return Bound(
        BoundName.SEQUENCES,
        math.ceil(exact),
        round(exact * MILLI),
        f"{requests:,} requests / {max_num_seqs * engines_per_pod:,} sequences a replica "
        f"= {exact:.2f}",
        _SEQUENCES,
        (
            ("running", demand.running),
            ("waiting", demand.waiting),
            ("maxNumSeqs", max_num_seqs),
            ("enginesPerReplica", engines_per_pod),
        ),
    )


def floor_bound(replicas: int, which: str) -> Bound:
    """The declared traffic's own requirement."""
    return Bound(
        BoundName.FLOOR, replicas, replicas * MILLI, f"declared traffic at its {which} rate"
    )


def min_bound(replicas: int) -> Bound:
    """The pool's minimum."""
    return Bound(BoundName.MIN, replicas, replicas * MILLI, "spec.scaling.minReplicas")


def observed_bounds(
    load: Load,
    blocks: EngineBlocks,
    *,
    max_num_seqs: int | None,
    engines_per_pod: int,
    target_percent: int,
    extra_blocks: int = 0,
) -> tuple[Bound, ...]:
    """The bounds that measured load gives; `extra_blocks` is what more is to be planned for."""
    kv = kv_bound(load.planned_blocks + extra_blocks, blocks, engines_per_pod, target_percent)
    if max_num_seqs is None:
        return (kv,)
    return (kv, sequences_bound(load.demand, max_num_seqs, engines_per_pod))


def binding(bounds: tuple[Bound, ...]) -> Bound:
    """The bound with the largest n; of equals the first. There is always one: the minimum."""
    return max(bounds, key=lambda bound: bound.replicas)


def steps(bounds: tuple[Bound, ...]) -> Trace:
    """Each bound as a step of the trace."""
    return tuple(
        Step(
            f"bound{bound.name}",
            bound.replicas,
            "replicas",
            bound.formula or bound.detail,
            bound.inputs,
        )
        for bound in bounds
    )
