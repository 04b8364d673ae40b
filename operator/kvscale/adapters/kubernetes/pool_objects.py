"""What a pool names, read once: its workload and its ConfigMap."""

from collections.abc import Callable, Mapping
from typing import Any

from kvscale.adapters.kubernetes.errors import ApiError
from kvscale.adapters.kubernetes.project import Malformed
from kvscale.adapters.kubernetes.resources import SCALABLE, object_path
from kvscale.core.values import Unknown
from kvscale.records import WorkloadRecord

Get = Callable[[str], Mapping[str, Any]]
"""An object by its path; raises ApiError, or ValueError of a path that is none."""


def workload_of(get: Get, namespace: str, spec: Mapping[str, Any]) -> WorkloadRecord | Unknown:
    """The workload of a pool's spec, or why it cannot be read.

    Args:
        get: of the cluster.
        namespace: of the pool.
        spec: raw.
    """
    targets = spec.get("targets")
    ref = targets[0].get("ref") if isinstance(targets, list) and targets else None
    if not isinstance(ref, Mapping):
        return Unknown("InvalidSpec", "spec.targets[0].ref names no workload")
    kind, name = str(ref.get("kind", "Deployment")), str(ref.get("name", ""))
    resource = SCALABLE.get(kind)
    if resource is None:
        return Unknown("InvalidSpec", f"spec.targets[0].ref.kind is {kind}, which has no rule here")
    try:
        found = resource.project(get(object_path(resource.api, resource.name, namespace, name)))
    except (ApiError, Malformed, ValueError) as error:
        return Unknown("TargetNotFound", f"{kind} {namespace}/{name} cannot be read: {error}")
    return found or Unknown("TargetNotFound", f"{kind} {namespace}/{name} cannot be read")


def config_map_of(
    get: Get, namespace: str, spec: Mapping[str, Any]
) -> Mapping[str, str] | Unknown | None:
    """Data of the ConfigMap that the spec names; None when it names none.

    Args:
        get: of the cluster.
        namespace: of the pool.
        spec: raw.
    """
    model = spec.get("model")
    ref = model.get("configMapRef") if isinstance(model, Mapping) else None
    if not isinstance(ref, Mapping):
        return None
    name = str(ref.get("name", ""))
    try:
        data = get(object_path("v1", "configmaps", namespace, name)).get("data")
    except (ApiError, ValueError) as error:
        return Unknown("ConfigMapNotFound", f"ConfigMap {namespace}/{name} cannot be read: {error}")
    pairs: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
    return {key: text for key, text in pairs.items() if isinstance(text, str)}
