"""The first half of a decision, pool by pool: what is there, what is needed, and why.

What only all pools together can say (who gets the free devices, whether arrivals fell together)
comes after it, and the limits of how far the target may move now come last (`limits`).
"""

from dataclasses import replace

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.decide import reasons
from kvscale.core.decide.assessment import Assessment, Need, NotAssessed
from kvscale.core.decide.blocks import EngineBlocks, engine_blocks, read_reports
from kvscale.core.decide.declared import Declared, read_declared
from kvscale.core.decide.demand import Load, fresh_metrics, measure
from kvscale.core.decide.memory import (
    forget_old,
    read_samples,
    remember,
    remember_unknown,
    start,
)
from kvscale.core.decide.need import find_need, recommended
from kvscale.core.decide.ownership import find_conflict, see_target
from kvscale.core.decide.state import PoolState
from kvscale.core.decide.supply import Supply, sort_pods
from kvscale.core.refusal import Refusal
from kvscale.core.snapshot import PoolSnapshot
from kvscale.core.spec import Mode, PoolSpec, most_cautious
from kvscale.core.values import Known, Unknown


def assess(
    pool: PoolSnapshot, state: PoolState | None, now: float, operator_mode: Mode | None = None
) -> Assessment | NotAssessed:
    """Conclude what one pool's part of the snapshot says."""
    memory = start(pool, state)
    if isinstance(pool.spec, Unknown):
        return NotAssessed(pool, memory, reasons.INVALID_SPEC, pool.spec.message)
    if isinstance(pool.target, Unknown):
        return NotAssessed(pool, memory, pool.target.reason, pool.target.message)
    spec, target = pool.spec, pool.target
    mode = most_cautious(spec.mode, operator_mode)
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
        mode=mode,
        target=target,
        memory=memory,
        samples=samples,
        supply=supply,
        capacity=capacity,
        blocks=blocks,
        load=load,
        declared=declared,
        need=Need(target.replicas, None, "", ""),
        conflict=find_conflict(pool, spec, memory, mode, now),
        engines_per_pod=engines,
    )
    need = find_need(found, now)
    return replace(found, need=need, memory=_remembered(found, need, now))


def _remembered(found: Assessment, need: Need, now: float) -> PoolState:
    """The memory after this tick, trimmed to what is ever asked of it."""
    memory, load = found.memory, found.load
    if isinstance(load, Unknown):
        idle = found.target.replicas == 0
        memory = remember_unknown(memory, found.samples, now, idle=idle)
    else:
        memory = remember(
            memory,
            found.samples,
            load,
            wanted=need.wanted,
            wanted_milli=need.exact_milli,
            recommended=recommended(found, need),
            now=now,
        )
    scaling = found.spec.scaling
    windows = (
        scaling.scale_up.stabilization_window_seconds,
        scaling.scale_down.stabilization_window_seconds,
    )
    return forget_old(memory, float(max(windows)) + 1, now)


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
        planning=spec.planning,
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
