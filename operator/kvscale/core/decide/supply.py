"""Which pods are supply, and which only look like it (rules 5 and 12)."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from kvscale.core.decide.state import EngineProgress
from kvscale.core.snapshot import PodState
from kvscale.core.values import Known

PROVISIONING_DEADLINE_SECONDS = 900.0
"""An unschedulable pod is on its way for so long; cluster-autoscaler gives a node 15 minutes."""

STUCK_AFTER_SECONDS = 60.0
"""A ready engine with running requests that emits no token for so long serves nobody."""

MOST_STARTUP_SECONDS = 1800.0
"""What takes longer from creation to ready is no start-up: a pod lost its readiness for a while
and came back, which moves the same timestamp."""

WARM_SCHEDULING_SECONDS = 30.0
"""A pod that was bound to a node faster than this found the node there."""

BROKEN_REASONS = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Waiting reasons of a container that does not progress (kubelet, v1.37 pkg/kubelet)."""


@dataclass(frozen=True, slots=True)
class Supply:
    """The pods of a target, each in exactly one group.

    Attributes:
        ready: serve, and may be counted on.
        starting: progress towards ready.
        leaving: being deleted, or on a node that drains: no supply, but their load stays.
        stuck: ready by the kubelet's word, but emit nothing.
        broken: do not progress: neither supply nor a reason for more replicas.
        overdue: unschedulable past the provisioning deadline.
    """

    ready: tuple[PodState, ...] = ()
    starting: tuple[PodState, ...] = ()
    leaving: tuple[PodState, ...] = ()
    stuck: tuple[PodState, ...] = ()
    broken: tuple[PodState, ...] = ()
    overdue: tuple[PodState, ...] = ()

    @property
    def loaded(self) -> tuple[PodState, ...]:
        """Pods whose requests exist, whether they count as supply or not."""
        serving = (*self.ready, *self.stuck, *self.leaving)
        return tuple(pod for pod in serving if pod.ready)

    @property
    def placed(self) -> int:
        """Pods that have a node and are not on their way out."""
        pods = (*self.ready, *self.starting, *self.stuck, *self.broken)
        return sum(1 for pod in pods if pod.node)


def sort_pods(
    pods: tuple[PodState, ...], progress: Mapping[str, EngineProgress], now: float
) -> Supply:
    """Sort pods into the groups of `Supply`; failed pods are in none (they hold nothing)."""
    groups: dict[str, list[PodState]] = {
        name: [] for name in ("ready", "starting", "leaving", "stuck", "broken", "overdue")
    }
    for pod in pods:
        if not pod.failed:
            groups[_group(pod, progress, now)].append(pod)
    return Supply(**{name: tuple(members) for name, members in groups.items()})


def _group(pod: PodState, progress: Mapping[str, EngineProgress], now: float) -> str:
    if pod.deleting or pod.draining:
        return "leaving"
    if pod.ready:
        return "stuck" if is_stuck(pod, progress) else "ready"
    if pod.waiting_reason in BROKEN_REASONS:
        return "broken"
    if pod.unschedulable_at is not None and not pod.node:
        waited = now - pod.unschedulable_at
        return "overdue" if waited >= PROVISIONING_DEADLINE_SECONDS else "starting"
    return "starting"


def is_stuck(pod: PodState, progress: Mapping[str, EngineProgress]) -> bool:
    """Whether an engine of the pod runs requests and has emitted no token for 60 s.

    Measured between samples, so that a source that has stopped is not taken for an engine that
    has (that is missing data, and another rule's).
    """
    if not isinstance(pod.metrics, Known):
        return False
    for sample in pod.metrics.value:
        seen = progress.get(f"{pod.uid}/{sample.engine}")
        if seen is None or sample.running == 0:
            continue
        if pod.metrics.at - seen.at >= STUCK_AFTER_SECONDS:
            return True
    return False


def startup_seconds(pods: tuple[PodState, ...]) -> tuple[float | None, float | None]:
    """Median seconds from creation to ready: (on a node that was there, on one that was not).

    Pods that have restarted are left out: their last transition to ready is not their first.
    """
    warm: list[float] = []
    cold: list[float] = []
    for pod in pods:
        if pod.ready_at is None or pod.scheduled_at is None or pod.restarts:
            continue
        if pod.ready_at - pod.created_at > MOST_STARTUP_SECONDS:
            continue
        found_node = pod.scheduled_at - pod.created_at < WARM_SCHEDULING_SECONDS
        (warm if found_node else cold).append(max(0.0, pod.ready_at - pod.created_at))
    return (
        statistics.median(warm) if warm else None,
        statistics.median(cold) if cold else None,
    )
