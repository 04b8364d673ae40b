"""Objects of the cluster, projected to what kvscale reads of them.

Adapters make them from the API server's objects or from manifests in a file; nobody else knows how
those look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvscale.core.inventory import OtherScaler, PodNeeds
from kvscale.core.spec import PoolKey

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PoolObject:
    """An InferencePool as the API server stores it; `spec` and `status` are raw."""

    key: PoolKey
    uid: str
    generation: int
    resource_version: str
    annotations: Mapping[str, str]
    spec: Json
    status: Json


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """Kind, namespace and name of something scalable."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class EnvVar:
    """An environment variable; `value` is None when it comes from somewhere we do not read."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container of a pod template, as far as the serving arguments need it."""

    name: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[EnvVar, ...]
    requests: Mapping[str, int]
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A Deployment or StatefulSet, projected.

    Attributes:
        generation, observed_generation: of its spec, and the one that its controller has acted on.
        replicas: desired, by its spec (1 where unset).
        status_replicas: pods that it has.
        ready_replicas, available_replicas, updated_replicas: of those, by its status.
        paused: its rollout is held (`spec.paused`).
        selector: `matchLabels` (and single-value `matchExpressions`) of its selector.
        containers: of its pod template.
        needs: of one pod of its template.
        template_key: changes when the template changes; resolution is cached by it.
        replicas_manager: field manager that last wrote the desired count; "" if nobody did.
        replicas_changed_at: when, epoch seconds; None where the server notes no time (a write of
            /scale).
    """

    ref: WorkloadRef
    uid: str
    resource_version: str
    generation: int
    observed_generation: int
    replicas: int
    status_replicas: int
    ready_replicas: int
    available_replicas: int
    updated_replicas: int
    paused: bool
    selector: Mapping[str, str]
    containers: tuple[ContainerRecord, ...]
    needs: PodNeeds
    template_key: str
    replicas_manager: str = ""
    replicas_changed_at: float | None = None


TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that has ended: it holds nothing of its node any more."""


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod, projected to what supply and placement need (not its body: 10,000 must fit).

    Attributes:
        owner_kind, owner_name: its controller ("ReplicaSet", "llama-5d9f").
        scheduled_at, ready_at, unschedulable_at: epoch seconds of the condition's transition,
            None unless the condition says so now.
        requests: summed over containers (init containers and overhead as the scheduler does).
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner_kind: str
    owner_name: str
    node: str
    ip: str
    phase: str
    ready: bool
    deleting: bool
    created_at: float
    scheduled_at: float | None
    ready_at: float | None
    unschedulable_at: float | None
    waiting_reason: str
    restarts: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ScalerRecord:
    """An HPA or ScaledObject and what it scales."""

    target: WorkloadRef
    scaler: OtherScaler
