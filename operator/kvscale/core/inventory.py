"""What placement looks at: the nodes and quotas that there are, and what a pod asks of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Quantities = Mapping[str, int]
"""Resource name to amount, in the smallest unit: devices, millicores, bytes."""


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
