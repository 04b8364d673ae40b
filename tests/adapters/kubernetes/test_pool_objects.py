"""A pool's workload and ConfigMap, read once; what cannot be read is a value."""

from typing import Any

import pytest

from kvscale.adapters.kubernetes.errors import ApiError
from kvscale.adapters.kubernetes.pool_objects import config_map_of, workload_of
from kvscale.core.values import Unknown
from kvscale.records import WorkloadRecord

DEPLOYMENT = {
    "metadata": {"name": "llama", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {}}},
    "status": {},
}
STORED: dict[str, Any] = {
    "/apis/apps/v1/namespaces/ns/deployments/llama": DEPLOYMENT,
    "/apis/apps/v1/namespaces/ns/deployments/broken": {"metadata": 1},
    "/api/v1/namespaces/ns/configmaps/model": {"data": {"config.json": "{}", "other": 1}},
    "/api/v1/namespaces/ns/configmaps/empty": {},
}


def get(path: str) -> Any:
    if path not in STORED:
        raise ApiError(404, "NotFound", f"{path} not found")
    return STORED[path]


def target(**ref: Any) -> dict[str, Any]:
    return {"targets": [{"ref": ref}]}


def test_the_workload_is_read_by_its_reference() -> None:
    found = workload_of(get, "ns", target(name="llama"))
    assert isinstance(found, WorkloadRecord)
    assert found.replicas == 2


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "names no workload"),
        ({"targets": []}, "names no workload"),
        ({"targets": [{"ref": "x"}]}, "names no workload"),
        (target(name="llama", kind="DaemonSet"), "DaemonSet"),
        (target(name="absent"), "NotFound"),
        (target(name="broken"), "cannot be read"),
        (target(name="../secrets/x"), "is no name"),
        (target(), "is no name"),
    ],
)
def test_a_workload_that_cannot_be_read_is_said(spec: dict[str, Any], why: str) -> None:
    found = workload_of(get, "ns", spec)
    assert isinstance(found, Unknown)
    assert why in found.message


def test_the_config_map_is_read_where_the_spec_names_one() -> None:
    def of(name: str) -> Any:
        return config_map_of(get, "ns", {"model": {"configMapRef": {"name": name}}})

    assert of("model") == {"config.json": "{}"}
    assert of("empty") == {}
    assert isinstance(of("absent"), Unknown)
    assert isinstance(of("../x"), Unknown)
    assert config_map_of(get, "ns", {}) is None
    assert config_map_of(get, "ns", {"model": {"preset": "x"}}) is None
