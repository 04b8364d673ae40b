"""What the loop needs from the outside, one small Protocol each; adapters implement them.

Adapters translate and bound (every call has a time limit); they take no decision. Errors of the
outside are values here: an adapter does not let an HTTP or client exception through.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from kvscale.core.engines.sample import PodMetrics
from kvscale.core.inventory import NodeState, Quota
from kvscale.core.spec import PoolKey
from kvscale.core.values import Known, Unknown
from kvscale.records import Json, PodRecord, PoolObject, ScalerRecord, WorkloadRecord, WorkloadRef


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The caches at one moment; `synced` only when every first list has been complete.

    Attributes:
        nodes: with `requested` left empty: the loop sums it from the pods.
        not_synced: what is still missing, for a person; () when synced.
    """

    not_synced: tuple[str, ...] = ()
    pools: tuple[PoolObject, ...] = ()
    workloads: Mapping[WorkloadRef, WorkloadRecord] = field(default_factory=dict)
    pods: tuple[PodRecord, ...] = ()
    nodes: tuple[NodeState, ...] | Unknown = Unknown("NoNodeAccess")
    quotas: tuple[Quota, ...] | Unknown = ()
    scalers: tuple[ScalerRecord, ...] = ()


class WriteOutcome(StrEnum):
    """How a write ended. Only APPLIED changed anything."""

    APPLIED = "Applied"
    CONFLICT = "Conflict"
    NOT_FOUND = "NotFound"
    FORBIDDEN = "Forbidden"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of a write and, unless APPLIED, why."""

    outcome: WriteOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class ScaleWrite:
    """A write of the /scale subresource.

    Attributes:
        expected_replicas, resource_version: what was decided upon; a target that has moved since
            is answered CONFLICT and left alone.
    """

    target: WorkloadRef
    replicas: int
    expected_replicas: int
    resource_version: str


@dataclass(frozen=True, slots=True)
class EventNote:
    """A Kubernetes event about a pool."""

    key: PoolKey
    pool_uid: str
    type: str
    reason: str
    action: str
    message: str


class Cluster(Protocol):
    """The API server: one read of the caches, four small calls."""

    def view(self) -> ClusterView:
        """The caches as they are now; no I/O."""
        ...

    async def config_map(self, namespace: str, name: str) -> Mapping[str, str] | Unknown:
        """The data of a ConfigMap (get only; never listed or watched)."""
        ...

    async def scale(self, write: ScaleWrite) -> WriteResult:
        """Write a replica count, with its precondition."""
        ...

    async def apply_status(self, key: PoolKey, status: Json) -> WriteResult:
        """Server-side apply of a pool's whole status."""
        ...

    async def emit(self, note: EventNote) -> None:
        """Post an event; failures are logged by the adapter, never raised."""
        ...


@dataclass(frozen=True, slots=True)
class MetricsTarget:
    """Where the metrics of one pod are.

    Attributes:
        pod_ip: "" when the pod has none yet.
        port, path: as the pool declares or the operator's defaults say.
        served_model_name: only series with this `model_name`, when not "".
    """

    namespace: str
    pod: str
    uid: str
    pod_ip: str
    port: int
    path: str
    served_model_name: str = ""


class MetricsSource(Protocol):
    """One way to get the engines' metrics."""

    async def collect(
        self, targets: Sequence[MetricsTarget]
    ) -> Mapping[str, Known[PodMetrics] | Unknown]:
        """The newest samples by pod uid; every target is answered, if only by Unknown.

        The number of queries must not grow with the number of pools (rule 9), where the source
        has queries.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; nothing is collected afterwards."""
        ...


class Clock(Protocol):
    """Time, the only one that the loop knows."""

    def now(self) -> float:
        """Epoch seconds; never steps back within a process."""
        ...

    def at(self, stamp: float) -> float:
        """This clock's time at an epoch second that somebody else stamped (the API server)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Lease(Protocol):
    """The right to write: at most one operator holds it."""

    async def acquire(self) -> Known[str] | Unknown:
        """Take or renew the lease; Unknown says who holds it or why it could not be had."""
        ...
