"""What a pool needs, before any limit: the bounds, and what stands in for them without data."""

from kvscale.core.decide import bounds as bound
from kvscale.core.decide import reasons
from kvscale.core.decide.assessment import Assessment, Need
from kvscale.core.decide.behavior import within_tolerance
from kvscale.core.decide.blocks import EngineBlocks
from kvscale.core.decide.decision import Bound
from kvscale.core.decide.demand import Load
from kvscale.core.decide.supply import startup_seconds
from kvscale.core.decide.trend import find_trend, growth_until_ready
from kvscale.core.scaling import OnUnknown
from kvscale.core.trace import Step
from kvscale.core.traffic.declared import TrafficSource
from kvscale.core.traffic.residency import significant
from kvscale.core.values import Unknown

FLOOR_AFTER_SECONDS = 300.0
"""Demand that has been Unknown for so long is replaced by the declared floor (rule 2)."""

ASSUMED_STARTUP_SECONDS = 120.0
"""Start-up looked ahead by until one has been measured: image present, weights on local disk."""


def find_need(found: Assessment, now: float) -> Need:
    """What is needed, by what is measured or, while nothing is, by what was declared."""
    always = _declared_bounds(found)
    if isinstance(found.load, Unknown) or isinstance(found.blocks, Unknown):
        return _need_unknown(found, found.load, always, now)
    return _need_measured(found, found.load, found.blocks, always, now)


def _declared_bounds(found: Assessment) -> tuple[Bound, ...]:
    """The declared floor, where the pool makes it a bound always (rule 2)."""
    traffic = found.spec.traffic
    if traffic is None or traffic.source is TrafficSource.OBSERVED:
        return ()
    if traffic.source is TrafficSource.DECLARED and found.declared.floor_at_peak is not None:
        return (bound.floor_bound(found.declared.floor_at_peak, "peak"),)
    if found.declared.floor_at_mean is not None:
        return (bound.floor_bound(found.declared.floor_at_mean, "mean"),)
    return ()


def _need_measured(
    found: Assessment, load: Load, blocks: EngineBlocks, always: tuple[Bound, ...], now: float
) -> Need:
    trend = find_trend(found.memory.load, now)
    warm, cold = startup_seconds(found.pool.pods)
    ahead = next((s for s in (warm, cold) if s is not None), ASSUMED_STARTUP_SECONDS)
    held = load.demand.used_blocks + load.demand.waiting_blocks
    coming = growth_until_ready(trend, ahead, held)
    measured = measured_bounds(found, load, blocks, coming)
    asked = (*always, bound.min_bound(found.spec.scaling.min_replicas))
    found_bounds = (*measured, *asked)
    binding = bound.binding(found_bounds)
    stuck = len(found.supply.stuck)
    wanted = binding.replicas + stuck
    exact: int | None = max(b.exact_milli for b in measured)
    told = f"{binding.name} needs {binding.replicas}: {binding.detail}"
    if stuck:
        names = ", ".join(pod.name for pod in found.supply.stuck[:3])
        told += f"; {stuck} more for engines that run requests and emit no token ({names})"
    if not found.samples.new and found.memory.wanted is not None:
        # One decision per new sample (rule 10): the last one stands, tolerance and all.
        wanted, exact = found.memory.wanted, found.memory.wanted_milli
    least = max(b.replicas for b in asked)
    if least >= wanted and least > max(b.replicas for b in measured):
        wanted, exact = least, None
    step = Step(
        "startupLookahead",
        coming,
        "blocks",
        "min(load, ceil(blocksPerSecond * startupSeconds)); 0 a second where no slope is "
        "significant",
        (
            ("load", held),
            ("blocksPerSecond", significant(trend.blocks_per_second)),
            ("startupSeconds", significant(ahead)),
            ("startupFrom", "assumed" if warm is None and cold is None else "measured"),
        ),
    )
    return Need(
        wanted,
        exact,
        reasons.AS_NEEDED,
        told,
        stuck,
        found_bounds,
        (*blocks.steps, *load.steps, step, *bound.steps(found_bounds)),
    )


def measured_bounds(
    found: Assessment, load: Load, blocks: EngineBlocks, extra_blocks: int
) -> tuple[Bound, ...]:
    """The bounds that the measured load gives, with so many blocks more."""
    return bound.observed_bounds(
        load,
        blocks,
        max_num_seqs=found.max_num_seqs,
        engines_per_pod=found.engines_per_pod,
        target_percent=found.spec.occupancy_percent,
        extra_blocks=extra_blocks,
    )


def recommended(found: Assessment, need: Need) -> int:
    """What the stabilisation windows remember of a need: HPA's own recommendation.

    Within the tolerance that is the present count, and pods without a sample count as full where
    the rest would allow fewer (replica_calculator.go): unseen pods are no proof of a low need.
    """
    scaling = found.spec.scaling
    current = max(found.target.replicas, scaling.min_replicas)
    rules = scaling.scale_up if need.wanted > current else scaling.scale_down
    exact = need.exact_milli
    if exact is not None and within_tolerance(exact, current - need.stuck, rules):
        return current
    load, blocks = found.load, found.blocks
    if need.wanted >= current or isinstance(load, Unknown) or isinstance(blocks, Unknown):
        return need.wanted
    unseen = load.full_blocks - load.demand.used_blocks
    full = max(b.replicas for b in measured_bounds(found, load, blocks, unseen))
    return min(current, max(need.wanted, full))


def _need_unknown(
    found: Assessment, why: Load | Unknown, always: tuple[Bound, ...], now: float
) -> Need:
    """What is needed while demand is not known: never less than there is."""
    current = found.target.replicas
    message = why.message or why.reason if isinstance(why, Unknown) else ""
    floor = found.declared.floor_at_mean
    since = found.memory.unknown_since
    lasted = 0.0 if since is None else now - since
    bounds = (*always, bound.min_bound(found.spec.scaling.min_replicas))
    reason = reasons.HOLD_ON_UNKNOWN
    told = f"demand is not known ({message}): nothing is taken away"
    if floor is not None and not found.memory.had_data:
        bounds = (*bounds, bound.floor_bound(floor, "mean"))
        reason = reasons.FIRST_SIZE
        told = f"no data yet: the declared traffic needs {floor} at its mean rate"
    elif (
        floor is not None
        and found.spec.scaling.on_unknown is OnUnknown.FLOOR
        and lasted >= FLOOR_AFTER_SECONDS
    ):
        bounds = (*bounds, bound.floor_bound(floor, "mean"))
        reason = reasons.FLOOR_ON_UNKNOWN
        told = (
            f"demand has not been known for {lasted:.0f} s ({message}): at least the "
            f"{floor} that the declared traffic needs at its mean rate"
        )
    binding = bound.binding(bounds)
    if binding.replicas > current and reason == reasons.HOLD_ON_UNKNOWN:
        told += f", and {binding.name} needs {binding.replicas}: {binding.detail}"
    wanted = max(current, binding.replicas)
    steps = found.blocks.steps if isinstance(found.blocks, EngineBlocks) else ()
    return Need(wanted, None, reason, told, 0, bounds, (*steps, *bound.steps(bounds)))
