"""Which resources are watched, where they are, and how each becomes a record."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar
from urllib.parse import quote

from kvscale.adapters.kubernetes import project
from kvscale.adapters.kubernetes.project.fields import Raw
from kvscale.core.inventory import NodeState, Quota
from kvscale.records import PodRecord, PoolObject, ScalerRecord, WorkloadRecord

R = TypeVar("R")

POOL_API = "kvscale.io/v1alpha1"
POOL_KIND = "InferencePool"


@dataclass(frozen=True, slots=True)
class Resource(Generic[R]):
    """A watched resource.

    Attributes:
        name: plural, as in the URL and in RBAC.
        api: "v1" or "group/version".
        project: raw object to record; None: not of interest; raises `Malformed`.
        namespaced: False for resources of the cluster.
        optional: its CRD may be absent: then there are none of it.
        same: whether a change between two records is none to anybody who waits for changes.
    """

    name: str
    api: str
    project: Callable[[Raw], R | None]
    namespaced: bool = True
    optional: bool = False
    same: Callable[[R, R], bool] = operator.eq

    @property
    def group_resource(self) -> str:
        """As `kubectl` and RBAC messages write it ("deployments.apps")."""
        group, slash, _ = self.api.partition("/")
        return f"{self.name}.{group}" if slash else self.name

    def collection(self, namespace: str = "") -> str:
        """The path of all its objects, or of those of one namespace."""
        return collection_path(self.api, self.name, namespace)


POOLS: Resource[PoolObject] = Resource(
    "inferencepools", POOL_API, project.project_pool, optional=True, same=project.same_pool
)
DEPLOYMENTS: Resource[WorkloadRecord] = Resource(
    "deployments", "apps/v1", partial(project.project_workload, "Deployment")
)
STATEFUL_SETS: Resource[WorkloadRecord] = Resource(
    "statefulsets", "apps/v1", partial(project.project_workload, "StatefulSet")
)
PODS: Resource[PodRecord] = Resource("pods", "v1", project.project_pod)
NODES: Resource[NodeState] = Resource("nodes", "v1", project.project_node, namespaced=False)
QUOTAS: Resource[Quota] = Resource("resourcequotas", "v1", project.project_quota)
HPAS: Resource[ScalerRecord] = Resource(
    "horizontalpodautoscalers", "autoscaling/v2", project.project_hpa
)
SCALED_OBJECTS: Resource[ScalerRecord] = Resource(
    "scaledobjects", "keda.sh/v1alpha1", project.project_scaled_object, optional=True
)

SCALABLE = {"Deployment": DEPLOYMENTS, "StatefulSet": STATEFUL_SETS}
"""Kinds that have replicas and a /scale that we write."""


def collection_path(api: str, plural: str, namespace: str = "") -> str:
    """The path of a collection.

    Raises:
        ValueError: the namespace is no name.
    """
    root = f"/apis/{api}" if "/" in api else f"/api/{api}"
    return f"{root}/namespaces/{_segment(namespace)}/{plural}" if namespace else f"{root}/{plural}"


def object_path(api: str, plural: str, namespace: str, name: str, subresource: str = "") -> str:
    """The path of one object, or of a subresource of it.

    Raises:
        ValueError: namespace or name is no name; "../secrets/x" must not lead elsewhere.
    """
    path = f"{collection_path(api, plural, namespace)}/{_segment(name)}"
    return f"{path}/{subresource}" if subresource else path


def _segment(name: str) -> str:
    """A name as part of a path (kubernetes v1.37 api/validation/path: IsValidPathSegmentName)."""
    if name in {"", ".", ".."} or "/" in name or "%" in name:
        raise ValueError(f"{name!r} is no name of a Kubernetes object")
    return quote(name, safe="")
