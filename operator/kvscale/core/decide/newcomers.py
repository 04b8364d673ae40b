"""Load that was seen twice: on a pod that has just begun to serve, and where it came from.

Pods are not sampled at the same moment; with Prometheus a minute may lie in between. When a new
pod takes its share, its first sample shows that share, while older samples of the others still
show all of it. Summed up, the pool seems to have grown by just what was added to it, and would be
asked to grow again.
"""

from bisect import bisect_left
from collections.abc import Sequence

from kvscale.core.engines.sample import PodMetrics
from kvscale.core.snapshot import PodState
from kvscale.core.values import Known


def counted_shares(fresh: Sequence[tuple[PodState, Known[PodMetrics]]]) -> list[float]:
    """The share of each pod's load that counts, 0 to 1, in the order given.

    A newcomer counts by the share of the others that have been sampled since it became ready:
    what these no longer show, it shows, so that an evenly spread load is summed up exactly.
    """
    oldest = min((metrics.at for _, metrics in fresh), default=0.0)
    # A pod that became ready after its own sample has another clock's time: it counts in full.
    since = [
        pod.ready_at if pod.ready_at is not None and oldest < pod.ready_at <= metrics.at else None
        for pod, metrics in fresh
    ]
    others = sorted(metrics.at for (_, metrics), at in zip(fresh, since, strict=True) if at is None)
    if not others:
        return [1.0] * len(since)
    return [
        1.0 if at is None else (len(others) - bisect_left(others, at)) / len(others) for at in since
    ]
