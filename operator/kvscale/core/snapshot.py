"""One consistent picture of the world: everything that a decision may look at.

A Snapshot is a plain value. Written out and read elsewhere, `decide` gives the same answer on it.
Facts only: what follows from them (supply, demand, bounds) is computed in `core.decide`.
"""

from dataclasses import dataclass

from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.sample import PodMetrics
from kvscale.core.inventory import NodeState, OtherScaler, PodNeeds, Quota
from kvscale.core.model.shape import ModelShape
from kvscale.core.spec import Freeze, Mode, PoolKey, PoolSpec
from kvscale.core.values import Known, Unknown


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
