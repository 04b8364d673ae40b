"""One consistent picture of the world: everything that a decision may look at.

A Snapshot is a plain value. Written out and read elsewhere, `decide` gives the same answer on it.
Facts only: what follows from them (supply, demand, bounds) is computed in `core.decide`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kvscale.core.capacity.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.spec import Mode, PoolSpec
from kvscale.core.values import Known, Unknown

Quantities = Mapping[str, int]
"""Resource name to amount, in the smallest unit: devices, millicores, bytes."""


@dataclass(frozen=True, slots=True, order=True)
class PoolKey:
    """Namespace and name of an InferencePool."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class EngineSample:
    """What one engine reported of itself; None where its version does not report it.

    Attributes:
        engine: the data-parallel index, as the engine names it ("0").
        kv_usage: used blocks / usable blocks, 0 to 1.
        running: requests in the running batch.
        waiting: requests queued for capacity.
        preemptions_total, prompt_tokens_total, generation_tokens_total: counters.
        prefix_hits_total, prefix_queries_total: counters of prompt tokens.
        kv_blocks: total blocks the engine allocated (`num_gpu_blocks`).
        block_tokens: its block size.
        kv_cache_size_tokens: its own statement of capacity in tokens.
    """

    engine: str
    kv_usage: float
    running: int
    waiting: int
    preemptions_total: float | None = None
    prompt_tokens_total: float | None = None
    generation_tokens_total: float | None = None
    prefix_hits_total: float | None = None
    prefix_queries_total: float | None = None
    kv_blocks: int | None = None
    block_tokens: int | None = None
    kv_cache_size_tokens: int | None = None


PodMetrics = tuple[EngineSample, ...]
"""The samples of a pod's engines, by engine index; never empty when Known."""


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod of a target.

    Attributes:
        created_at, ready_at, unschedulable_at: epoch seconds by the API server; None: not (yet).
        draining: its node drains, is being reclaimed, or is gone.
        waiting_reason: a container's waiting reason ("CrashLoopBackOff", "ImagePullBackOff").
        template_hash: which revision of the workload it belongs to.
    """

    name: str
    uid: str
    node: str
    ready: bool
    created_at: float
    template_hash: str = ""
    ready_at: float | None = None
    scheduled_at: float | None = None
    unschedulable_at: float | None = None
    deleting: bool = False
    draining: bool = False
    failed: bool = False
    waiting_reason: str = ""
    restarts: int = 0
    metrics: Known[PodMetrics] | Unknown = Unknown("NotScraped")


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of the pod template; "" matches everything, as in the API."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What one pod of the template asks of a node.

    Attributes:
        requests: devices, `cpu` in millicores, `memory` in bytes, `pods` 1.
        node_selector: labels that the node must carry.
        affinity_terms: required node affinity: any one term, all its expressions.
    """

    requests: Quantities = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity_terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetState:
    """The workload that a pool scales.

    Attributes:
        replicas: desired, as the workload's spec says now (an unset field reads 1).
        replicas_manager: field manager that last wrote the replica count; "" if nobody did.
        replicas_changed_at: when, epoch seconds, as `managedFields` says.
        updated_replicas, available_replicas: of the current revision; available of any.
        progressing: a rollout is under way (old and new revision both exist, or not observed).
        template_hash: of the current revision; "" when not known.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    replicas: int
    ready_replicas: int
    available_replicas: int
    updated_replicas: int
    progressing: bool
    needs: PodNeeds
    template_hash: str = ""
    replicas_manager: str = ""
    replicas_changed_at: float | None = None


@dataclass(frozen=True, slots=True)
class OtherScaler:
    """Another controller that has the same target as its own.

    Attributes:
        kind: "HorizontalPodAutoscaler", "ScaledObject" or "InferencePool".
        name: its name.
        min_replicas, max_replicas, desired_replicas: where it states them.
    """

    kind: str
    name: str
    min_replicas: int | None = None
    max_replicas: int | None = None
    desired_replicas: int | None = None


class Freeze(StrEnum):
    """One direction that a person has frozen by annotation."""

    NONE = ""
    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """One pool with all that belongs to it.

    Attributes:
        spec: as declared; Unknown when the object fails validation.
        target: the workload; Unknown when it does not exist or has not been seen.
        shape, engine, device: resolved from spec, server arguments and nodes.
        device_resource, devices_per_pod: what one pod requests ("nvidia.com/gpu", 1).
        contradictions: where an override of the spec disagrees with the server's arguments.
        hold_until: epoch seconds of the hold annotation; None: no hold.
        annotation_error: an annotation that could not be read, for the status.
    """

    key: PoolKey
    uid: str
    generation: int
    spec: PoolSpec | Unknown
    target: TargetState | Unknown
    shape: ModelShape | Unknown
    engine: EngineConfig | Unknown
    device: Device | Unknown
    device_resource: str = ""
    devices_per_pod: int = 0
    pods: tuple[PodState, ...] = ()
    other_scalers: tuple[OtherScaler, ...] = ()
    contradictions: tuple[str, ...] = ()
    hold_until: float | None = None
    freeze: Freeze = Freeze.NONE
    annotation_error: str = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as placement sees it.

    Attributes:
        requested: what the pods that are bound to it request, of any namespace.
        draining: cordoned, being drained, or being reclaimed.
    """

    name: str
    labels: Mapping[str, str]
    allocatable: Quantities
    requested: Quantities
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota: what may be requested in a namespace, and what is."""

    namespace: str
    name: str
    hard: Quantities
    used: Quantities


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole picture at one moment.

    Attributes:
        at: epoch seconds when it was taken.
        pools: sorted by key.
        nodes: Unknown(NoNodeAccess) in a namespaced install: placement then limits nothing.
        quotas: Unknown when they may not be read: they then limit nothing.
        operator_mode: an operator-wide mode that overrides the pools' own (never towards Auto).
    """

    at: float
    pools: tuple[PoolSnapshot, ...]
    nodes: tuple[NodeState, ...] | Unknown
    quotas: tuple[Quota, ...] | Unknown = ()
    operator_mode: Mode | None = None
