"""Which pods belong to a target, and how they look to the decision."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kvscale.core.engines.sample import PodMetrics
from kvscale.core.inventory import NodeState
from kvscale.core.snapshot import PodState, TargetState
from kvscale.core.values import Known, Unknown
from kvscale.records import TERMINAL_PHASES, PodRecord, WorkloadRecord, WorkloadRef

TEMPLATE_HASH = "pod-template-hash"
"""Label by which a Deployment's controller marks the revision; its ReplicaSet's name ends in it."""

REVISION_HASH = "controller-revision-hash"
"""The same for a StatefulSet."""

NOT_RUNNING = Unknown("NotRunning", "the pod does not run yet")


@dataclass(frozen=True, slots=True)
class PodIndex:
    """The pods of a cluster, indexed once for however many pools ask.

    Attributes:
        by_workload: pods by the workload that made them.
        requested: by node name, what its pods request.
    """

    by_workload: Mapping[WorkloadRef, tuple[PodRecord, ...]]
    requested: Mapping[str, Mapping[str, int]]

    @classmethod
    def of(cls, pods: Iterable[PodRecord]) -> "PodIndex":
        """Index the pods; those without a controller are of no workload but hold their node."""
        owned: dict[WorkloadRef, list[PodRecord]] = {}
        requested: dict[str, dict[str, int]] = {}
        for pod in pods:
            workload = _workload_of(pod)
            if workload is not None:
                owned.setdefault(workload, []).append(pod)
            if pod.node and pod.phase not in TERMINAL_PHASES:
                sums = requested.setdefault(pod.node, {})
                sums["pods"] = sums.get("pods", 0) + 1
                for name, amount in pod.requests.items():
                    if name != "pods":
                        sums[name] = sums.get(name, 0) + amount
        return cls({ref: tuple(members) for ref, members in owned.items()}, requested)

    def members(self, workload: WorkloadRecord) -> tuple[PodRecord, ...]:
        """The pods of a workload by name; the selector keeps out what was orphaned from it."""
        found = self.by_workload.get(workload.ref, ())
        wanted = workload.selector.items()
        matching = [
            pod for pod in found if all(pod.labels.get(key) == value for key, value in wanted)
        ]
        return tuple(sorted(matching, key=lambda pod: pod.name))

    def with_requests(self, nodes: Iterable[NodeState]) -> tuple[NodeState, ...]:
        """The nodes with what their pods request."""
        return tuple(replace(node, requested=self.requested.get(node.name, {})) for node in nodes)


def _workload_of(pod: PodRecord) -> WorkloadRef | None:
    """The Deployment or StatefulSet that a pod comes from, without asking for ReplicaSets."""
    if pod.owner_kind == "StatefulSet":
        return WorkloadRef("StatefulSet", pod.namespace, pod.owner_name)
    suffix = f"-{pod.labels.get(TEMPLATE_HASH, '')}"
    if pod.owner_kind == "ReplicaSet" and len(suffix) > 1 and pod.owner_name.endswith(suffix):
        return WorkloadRef("Deployment", pod.namespace, pod.owner_name.removesuffix(suffix))
    return None


def revision_of(pod: PodRecord) -> str:
    """The revision of its workload that a pod belongs to; "" when it is not marked."""
    return pod.labels.get(TEMPLATE_HASH) or pod.labels.get(REVISION_HASH, "")


def pod_state(
    pod: PodRecord,
    metrics: Known[PodMetrics] | Unknown,
    nodes: Mapping[str, NodeState] | None,
    at: Callable[[float], float],
) -> PodState:
    """A pod as the decision sees it.

    Args:
        pod: the record.
        metrics: its newest samples.
        nodes: by name; None when nodes may not be read (draining is then not seen).
        at: the loop's time at an API server's stamp.
    """
    node = nodes.get(pod.node) if nodes is not None and pod.node else None
    node_lost = nodes is not None and bool(pod.node) and node is None
    return PodState(
        name=pod.name,
        uid=pod.uid,
        node=pod.node,
        ready=pod.ready and pod.phase == "Running",
        created_at=at(pod.created_at),
        template_hash=revision_of(pod),
        ready_at=_at(pod.ready_at, at),
        scheduled_at=_at(pod.scheduled_at, at),
        unschedulable_at=_at(pod.unschedulable_at, at),
        deleting=pod.deleting,
        draining=node_lost or (node is not None and node.draining),
        failed=pod.phase in TERMINAL_PHASES,
        waiting_reason=pod.waiting_reason,
        restarts=pod.restarts,
        metrics=metrics,
    )


def _at(stamp: float | None, at: Callable[[float], float]) -> float | None:
    return None if stamp is None else at(stamp)


def target_state(
    workload: WorkloadRecord, members: Iterable[PodRecord], at: Callable[[float], float]
) -> TargetState:
    """A workload as the decision sees it.

    The current revision is that of the newest pod: a rollout makes new pods of the new revision.
    A rollout is under way while pods of an older one remain, or its controller has not looked.
    """
    newest = max(members, key=lambda pod: (pod.created_at, pod.name), default=None)
    return TargetState(
        kind=workload.ref.kind,
        name=workload.ref.name,
        uid=workload.uid,
        resource_version=workload.resource_version,
        replicas=workload.replicas,
        ready_replicas=workload.ready_replicas,
        available_replicas=workload.available_replicas,
        updated_replicas=workload.updated_replicas,
        progressing=workload.status_replicas > workload.updated_replicas
        or workload.observed_generation < workload.generation,
        needs=workload.needs,
        template_hash=revision_of(newest) if newest is not None else "",
        replicas_manager=workload.replicas_manager,
        replicas_changed_at=_at(workload.replicas_changed_at, at),
    )
