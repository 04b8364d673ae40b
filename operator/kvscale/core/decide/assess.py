"""The first half of a decision, pool by pool: what is there, what is needed, and why.

What only all pools together can say (who gets the free devices, whether arrivals fell together)
comes after it, and the limits of how far the target may move now come last (`limits`).
"""

from dataclasses import dataclass, replace

from kvscale.core.capacity.ceiling import EngineCapacity, Refusal
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.decide import bounds as bound
from kvscale.core.decide import reasons
from kvscale.core.decide.blocks import EngineBlocks, engine_blocks, read_reports
from kvscale.core.decide.decision import Bound
from kvscale.core.decide.declared import Declared, read_declared
from kvscale.core.decide.demand import Load, fresh_metrics, measure
from kvscale.core.decide.memory import Samples, forget_old, read_samples, remember, start
from kvscale.core.decide.ownership import Conflict, find_conflict, see_target
from kvscale.core.decide.placement import Wish
from kvscale.core.decide.state import PoolState
from kvscale.core.decide.supply import Supply, sort_pods, startup_seconds
from kvscale.core.decide.trend import find_trend, growth_until_ready
from kvscale.core.snapshot import PoolSnapshot, TargetState
from kvscale.core.spec import OnUnknown, PoolSpec, TrafficSource
from kvscale.core.trace import Step, Trace
from kvscale.core.values import Known, Unknown

FLOOR_AFTER_SECONDS = 300.0
"""Demand that has been Unknown for so long is replaced by the declared floor (rule 2)."""

ASSUMED_STARTUP_SECONDS = 120.0
"""Start-up looked ahead by until one has been measured: image present, weights on local disk."""


@dataclass(frozen=True, slots=True)
class Need:
    """What the bounds ask for, before any limit.

    Attributes:
        wanted: replicas.
        exact_milli: before rounding, in thousandths; None: a whole number by its nature.
        stuck: of `wanted`, replicas that stand in for engines that emit nothing.
        reason, message: what gave it.
    """

    wanted: int
    exact_milli: int | None
    reason: str
    message: str
    stuck: int = 0
    bounds: tuple[Bound, ...] = ()
    steps: Trace = ()


@dataclass(frozen=True, slots=True)
class Assessment:
    """A pool with everything that was concluded from its own part of the snapshot."""

    pool: PoolSnapshot
    spec: PoolSpec
    target: TargetState
    memory: PoolState
    samples: Samples
    supply: Supply
    capacity: EngineCapacity | Refusal | Unknown
    blocks: EngineBlocks | Unknown
    load: Load | Unknown
    declared: Declared
    need: Need
    conflict: Conflict | None
    engines_per_pod: int

    @property
    def max_num_seqs(self) -> int | None:
        """The running batch's limit, where it is known."""
        return self.capacity.max_num_seqs if isinstance(self.capacity, EngineCapacity) else None

    @property
    def wish(self) -> Wish:
        """What the pool asks of the nodes."""
        created = len(self.pool.pods) - sum(pod.deleting for pod in self.pool.pods)
        return Wish(
            key=self.pool.key,
            needs=self.target.needs,
            placed=self.supply.placed,
            created=created,
            wanted=max(self.need.wanted, self.target.replicas),
            device_resource=self.pool.device_resource,
        )


@dataclass(frozen=True, slots=True)
class NotAssessed:
    """A pool of which nothing can be concluded: reason and message for its conditions."""

    pool: PoolSnapshot
    memory: PoolState
    reason: str
    message: str


def assess(pool: PoolSnapshot, state: PoolState | None, now: float) -> Assessment | NotAssessed:
    """Conclude what one pool's part of the snapshot says."""
    memory = start(pool, state)
    if isinstance(pool.spec, Unknown):
        return NotAssessed(pool, memory, reasons.INVALID_SPEC, pool.spec.message)
    if isinstance(pool.target, Unknown):
        return NotAssessed(pool, memory, pool.target.reason, pool.target.message)
    spec, target = pool.spec, pool.target
    memory = see_target(memory, target, now)
    capacity = capacity_of(pool)
    samples = read_samples(pool.pods, memory)
    supply = sort_pods(pool.pods, samples.progress, now)
    reports = read_reports(pool.pods, memory.reported)
    memory = replace(memory, reported=reports)
    blocks = engine_blocks(capacity, reports, target.template_hash)
    engines = _engines_per_pod(pool)
    declared = read_declared(spec, pool, capacity, blocks, engines)
    load = _load(
        blocks,
        supply,
        spec,
        declared=declared,
        memory=memory,
        now=now,
        engines_per_pod=engines,
    )
    found = Assessment(
        pool=pool,
        spec=spec,
        target=target,
        memory=memory,
        samples=samples,
        supply=supply,
        capacity=capacity,
        blocks=blocks,
        load=load,
        declared=declared,
        need=Need(target.replicas, None, "", ""),
        conflict=find_conflict(pool, spec, memory, now),
        engines_per_pod=engines,
    )
    need = _need(found, now)
    windows = (
        spec.scaling.scale_up.stabilization_window_seconds,
        spec.scaling.scale_down.stabilization_window_seconds,
    )
    memory = forget_old(
        remember(memory, samples, load, need.wanted, now), float(max(windows)) + 1, now
    )
    return replace(found, need=need, memory=memory)


def _load(
    blocks: EngineBlocks | Unknown,
    supply: Supply,
    spec: PoolSpec,
    *,
    declared: Declared,
    memory: PoolState,
    now: float,
    engines_per_pod: int,
) -> Load | Unknown:
    if isinstance(blocks, Unknown):
        fresh = fresh_metrics(supply, now)
        if isinstance(fresh, Unknown):
            return fresh
        return Unknown(reasons.CAPACITY_UNKNOWN, blocks.message or blocks.reason)
    if len(supply.stuck) > 1 and not supply.ready:
        # One silent engine is broken; when all are, what they have in common is, or what tells us
        # of them. More of the same would not help.
        told = f"all {len(supply.stuck)} serving engines run requests and emit no token"
        return Unknown(reasons.ENGINES_SILENT, told)
    return measure(
        supply,
        blocks,
        footprint=declared.footprint,
        percentile=spec.percentile,
        progress=memory.progress,
        now=now,
        engines_per_pod=engines_per_pod,
    )


def capacity_of(pool: PoolSnapshot) -> EngineCapacity | Refusal | Unknown:
    """The computed ceiling of one engine, or the first thing that is missing for it."""
    for part in (pool.shape, pool.engine, pool.device):
        if isinstance(part, Unknown):
            return part
    if (
        isinstance(pool.shape, Unknown)
        or isinstance(pool.engine, Unknown)
        or isinstance(pool.device, Unknown)
    ):
        return Unknown(reasons.CAPACITY_UNKNOWN)
    return engine_capacity(pool.shape, pool.engine, pool.device)


def _engines_per_pod(pool: PoolSnapshot) -> int:
    """KV pools of one pod: as it was started, or as it reports."""
    if not isinstance(pool.engine, Unknown):
        return max(1, pool.engine.data_parallel)
    reported = [len(pod.metrics.value) for pod in pool.pods if isinstance(pod.metrics, Known)]
    return max(reported, default=1)


def _need(found: Assessment, now: float) -> Need:
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
    found_bounds = (
        *bound.observed_bounds(
            load,
            blocks,
            max_num_seqs=found.max_num_seqs,
            engines_per_pod=found.engines_per_pod,
            target_percent=found.spec.scaling.target_occupancy_percent,
            extra_blocks=coming,
        ),
        *always,
        bound.min_bound(found.spec.scaling.min_replicas),
    )
    binding = max(found_bounds, key=lambda b: b.replicas)
    stuck = len(found.supply.stuck)
    wanted = binding.replicas + stuck
    exact: int | None = max(b.exact_milli for b in found_bounds)
    told = f"{binding.name} needs {binding.replicas}: {binding.detail}"
    if stuck:
        names = ", ".join(pod.name for pod in found.supply.stuck[:3])
        told += f"; {stuck} more for engines that run requests and emit no token ({names})"
    if not found.samples.new and found.memory.wanted is not None:
        # One decision per new sample (rule 10): the last one stands.
        wanted, exact = found.memory.wanted, None
    step = Step(
        "startupLookahead",
        coming,
        "blocks",
        "min(load, slope of the load * start-up seconds), if the slope is significant",
        (
            ("blocksPerSecond", round(trend.blocks_per_second, 3)),
            ("startupSeconds", round(ahead, 1)),
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
    told = f"demand is not known ({message}): {current} replicas are kept"
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
    wanted = max(current, *(b.replicas for b in bounds))
    steps = found.blocks.steps if isinstance(found.blocks, EngineBlocks) else ()
    return Need(wanted, None, reason, told, 0, bounds, (*steps, *bound.steps(bounds)))
