"""Raw objects as the API server sends them, with as much in them as a test needs."""

from typing import Any

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/deployments"
STATEFUL_SETS = "/apis/apps/v1/statefulsets"
POOLS = "/apis/kvscale.io/v1alpha1/inferencepools"
QUOTAS = "/api/v1/resourcequotas"
HPAS = "/apis/autoscaling/v2/horizontalpodautoscalers"
SCALED_OBJECTS = "/apis/keda.sh/v1alpha1/scaledobjects"
CREATED = "2026-01-05T10:00:00Z"
CREATED_AT = 1767607200.0


def metadata(name: str, uid: str = "", **more: Any) -> dict[str, Any]:
    return {
        "namespace": "prod",
        "name": name,
        "uid": uid or f"uid-{name}",
        "creationTimestamp": CREATED,
        "resourceVersion": "1",
    } | more


def pod(name: str = "llama-0", uid: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": metadata(name, uid),
        "spec": {"containers": [{"name": "vllm"}]} | spec,
        "status": {"phase": "Pending"},
    }


def deployment(name: str = "llama", replicas: int | None = 2, **template: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.32.0"}]}
            | template,
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"metadata": metadata(name, generation=3), "spec": spec, "status": {}}


def pool(name: str = "llama", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": metadata(name, generation=1),
        "spec": {"targets": [{"ref": {"name": name}}]} | spec,
    }
