"""The measured load of a pool, in blocks and in requests.

KV is a stock: what is used now, what waits to be admitted, and how much the sum of both may still
grow. The growth is a quantile of the *sum* over all sequences: it concentrates, so a
large pool pays far less for the same risk than a percentile for each sequence would.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kvscale.core.decide import reasons
from kvscale.core.decide.blocks import EngineBlocks, usable_of
from kvscale.core.decide.decision import Demand
from kvscale.core.decide.demand_steps import Footprint, demand_steps
from kvscale.core.decide.newcomers import counted_shares
from kvscale.core.decide.state import EngineProgress
from kvscale.core.decide.supply import Supply
from kvscale.core.engines.sample import PodMetrics
from kvscale.core.planning.growth import planned_growth
from kvscale.core.snapshot import PodState
from kvscale.core.spec import Planning
from kvscale.core.trace import Trace
from kvscale.core.values import Known, Unknown

SAMPLE_MAX_AGE_SECONDS = 90.0
"""Older samples are missing samples: one and a half of Prometheus' default scrape interval."""


MILLI = 1000


@dataclass(frozen=True, slots=True)
class Load:
    """Demand with what the proof of a removal needs beside it.

    Attributes:
        full_blocks: what all samples show, if every pod without one were full.
        leaving_extra_blocks: most blocks that one pod's prefix hits save: they are misses
            elsewhere, once that pod has gone.
    """

    demand: Demand
    full_blocks: int
    leaving_extra_blocks: int
    footprint_blocks: float
    steps: Trace

    @property
    def planned_blocks(self) -> int:
        """Used, waiting, and the planned quantile of their growth."""
        d = self.demand
        return d.used_blocks + d.waiting_blocks + d.growth_blocks


def measure(
    supply: Supply,
    blocks: EngineBlocks,
    *,
    footprint: Footprint,
    planning: Planning,
    progress: Mapping[str, EngineProgress],
    now: float,
    engines_per_pod: int,
) -> Load | Unknown:
    """The load over all pods that serve, leave or are stuck.

    Unknown when nobody serves, or when no serving pod has a fresh sample. A missing sample of one
    pod counts as nothing here (it may not block an addition) and as full in `full_blocks` (it may
    block a removal): HPA's rule for missing pod metrics.
    """
    fresh = fresh_metrics(supply, now)
    if isinstance(fresh, Unknown):
        return fresh
    usable = full = preemptions = 0
    used_shares = running_shares = waiting_shares = extra = 0.0
    for (pod, metrics), share in zip(fresh, counted_shares(fresh), strict=True):
        pod_used = 0
        for sample in metrics.value:
            room = usable_of(sample, blocks.usable)
            usable += room
            pod_used += round(sample.kv_usage * room)
            running_shares += share * sample.running
            waiting_shares += share * sample.waiting
            seen = progress.get(f"{pod.uid}/{sample.engine}")
            if seen is not None and sample.preemptions_total is not None:
                preemptions += max(0, round(sample.preemptions_total - seen.preemptions_total))
        used_shares += share * pod_used
        full += pod_used
        extra = max(extra, pod_used * _shared_factor(pod))
    used, running, waiting = map(math.ceil, (used_shares, running_shares, waiting_shares))
    per_request, source = _blocks_per_request(used, running, footprint)
    waiting_blocks = math.ceil(waiting * per_request)
    growth = planned_growth(
        running + waiting,
        blocks.usable,
        mean_blocks=per_request,
        variation=footprint.variation,
        planning=planning,
    )
    measured = {pod.uid for pod, _ in fresh}
    missing = tuple(pod.name for pod in supply.loaded if pod.uid not in measured)
    demand = Demand(
        used_blocks=used,
        waiting_blocks=waiting_blocks,
        growth_blocks=growth,
        running=running,
        waiting=waiting,
        preemptions=preemptions,
        occupancy_milli=round(MILLI * full / usable) if usable else 0,
        sampled_at=min(metrics.at for _, metrics in fresh),
        missing_pods=missing,
    )
    return Load(
        demand=demand,
        full_blocks=full + len(missing) * blocks.usable * engines_per_pod,
        leaving_extra_blocks=math.ceil(extra),
        footprint_blocks=per_request,
        steps=demand_steps(demand, per_request, source, footprint, planning, usable=blocks.usable),
    )


def fresh_metrics(supply: Supply, now: float) -> list[tuple[PodState, Known[PodMetrics]]] | Unknown:
    """The pods that carry load and have a fresh sample; Unknown when there are none."""
    loaded = supply.loaded
    if not loaded:
        return Unknown(reasons.NO_READY_PODS, "no pod of the target is ready yet")
    fresh = [
        (pod, pod.metrics)
        for pod in loaded
        if isinstance(pod.metrics, Known) and now - pod.metrics.at <= SAMPLE_MAX_AGE_SECONDS
    ]
    return fresh or _why_missing(loaded, now)


def _why_missing(pods: tuple[PodState, ...], now: float) -> Unknown:
    stale = [now - pod.metrics.at for pod in pods if isinstance(pod.metrics, Known)]
    if stale:
        return Unknown(
            reasons.STALE_SAMPLES,
            f"the newest sample of {len(pods)} serving pods is {min(stale):.0f} s old; "
            f"samples count for {SAMPLE_MAX_AGE_SECONDS:.0f} s",
        )
    first = next(pod.metrics for pod in pods if isinstance(pod.metrics, Unknown))
    return Unknown(
        first.reason or reasons.NO_SAMPLES,
        first.message or f"none of {len(pods)} serving pods has metrics",
    )


def _shared_factor(pod: PodState) -> float:
    """Blocks that this pod's requests would need more, per used block, without its prefix hits.

    A share h of prompt tokens that hits blocks already there hides h / (1 - h) times what is
    used. Capped at 9 hits in 10: beyond that the estimate says more than the counters can.
    """
    if not isinstance(pod.metrics, Known):
        return 0.0
    hits = sum(s.prefix_hits_total or 0.0 for s in pod.metrics.value)
    queries = sum(s.prefix_queries_total or 0.0 for s in pod.metrics.value)
    if queries <= 0 or hits <= 0:
        return 0.0
    share = min(0.9, hits / queries)
    return share / (1 - share)


def _blocks_per_request(used: int, running: int, footprint: Footprint) -> tuple[float, str]:
    if running > 0 and used > 0:
        return used / running, "measured: used / running"
    if footprint.mean_blocks is not None:
        return footprint.mean_blocks, footprint.source
    return 1.0, "nothing runs and no lengths are declared: one block"
