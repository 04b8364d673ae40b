"""Workloads, nodes, quotas, other scalers and pools."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.kubernetes.objects import CREATED, CREATED_AT, deployment, metadata, pool
from kvscale.adapters.kubernetes.project import (
    project_hpa,
    project_node,
    project_pool,
    project_quota,
    project_scaled_object,
    project_workload,
    same_pool,
)
from kvscale.adapters.kubernetes.project.nodes import LEAVING_TAINTS
from kvscale.core.inventory import OtherScaler, Quota, Requirement, Taint, Toleration
from kvscale.core.spec import PoolKey
from kvscale.records import EnvVar, WorkloadRef

NODES = Path(__file__).parents[2] / "data" / "nodes"


def test_counts_are_read_and_absent_ones_are_0() -> None:
    raw = deployment(replicas=5)
    raw["status"] = {
        "observedGeneration": 2,
        "replicas": 4,
        "readyReplicas": 3,
        "updatedReplicas": 1,
    }
    record = project_workload("Deployment", raw)
    assert record.ref == WorkloadRef("Deployment", "prod", "llama")
    assert (record.generation, record.observed_generation) == (3, 2)
    assert (record.replicas, record.status_replicas, record.ready_replicas) == (5, 4, 3)
    assert (record.available_replicas, record.updated_replicas) == (0, 1)


def test_unset_replicas_read_1_and_0_reads_0() -> None:
    assert project_workload("Deployment", deployment(replicas=None)).replicas == 1
    assert project_workload("StatefulSet", deployment(replicas=0)).replicas == 0


def test_selector_takes_expressions_that_name_one_value() -> None:
    raw = deployment()
    raw["spec"]["selector"]["matchExpressions"] = [
        {"key": "role", "operator": "In", "values": ["decode"]},
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "NotIn", "values": ["yes"]},
    ]
    assert project_workload("Deployment", raw).selector == {"app": "llama", "role": "decode"}


def test_containers_keep_what_the_serving_arguments_need() -> None:
    raw = deployment(
        containers=[
            {
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.32.0",
                "command": ["vllm"],
                "args": ["serve", "m"],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "EMPTY"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "ports": [{"containerPort": 8000}, {"name": "no-number"}],
                "resources": {"limits": {"nvidia.com/gpu": "4"}},
            }
        ]
    )
    container = project_workload("Deployment", raw).containers[0]
    assert (container.command, container.args) == (("vllm",), ("serve", "m"))
    assert container.env == (EnvVar("A", "1"), EnvVar("EMPTY", ""), EnvVar("TOKEN", None))
    assert container.ports == (8000,)
    assert container.requests == {"nvidia.com/gpu": 4}


def test_needs_are_those_of_one_pod_of_the_template() -> None:
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["l4", "h100"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
        {},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    raw = deployment(
        nodeSelector={"pool": "gpu"},
        affinity={"nodeAffinity": required},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "a", "value": "b"}],
    )
    needs = project_workload("Deployment", raw).needs
    assert needs.requests == {"pods": 1}
    assert needs.node_selector == {"pool": "gpu"}
    assert needs.affinity_terms == (
        (Requirement("gpu", "In", ("l4", "h100")),),
        (Requirement("zone", "Exists"),),
        (),
    )
    assert needs.tolerations == (
        Toleration("nvidia.com/gpu", "Exists"),
        Toleration("a", "Equal", "b"),
    )


def test_template_key_changes_with_the_template_and_with_nothing_else() -> None:
    one = project_workload("Deployment", deployment(replicas=1)).template_key
    assert project_workload("Deployment", deployment(replicas=9)).template_key == one
    raw = deployment()
    template = raw["spec"]["template"]
    raw["spec"]["template"] = dict(reversed(template.items()))
    assert project_workload("Deployment", raw).template_key == one
    template["spec"]["containers"][0]["args"] = ["--max-num-seqs", "8"]
    assert project_workload("Deployment", raw).template_key != one


def owner(manager: str, time: str | None, *fields: str, subresource: str = "") -> dict[str, Any]:
    entry: dict[str, Any] = {
        "manager": manager,
        "operation": "Update",
        "fieldsV1": {"f:spec": {field: {} for field in fields}},
    }
    if time is not None:
        entry["time"] = time
    return entry | ({"subresource": subresource} if subresource else {})


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], ("", None)),
        ([owner("helm", CREATED, "f:template")], ("", None)),
        ([owner("helm", CREATED, "f:replicas", "f:template")], ("helm", CREATED_AT)),
        ([owner("kvscale", None, "f:replicas", subresource="scale")], ("kvscale", None)),
        (
            [
                owner("argocd", CREATED, "f:replicas"),
                owner("helm", "2026-01-05T10:00:09Z", "f:replicas"),
                owner("old", "2026-01-01T00:00:00Z", "f:replicas"),
            ],
            ("helm", CREATED_AT + 9),
        ),
    ],
    ids=["nobody", "no owner of replicas", "owner", "scale has no time", "newest of several"],
)
def test_manager_of_the_count_is_who_wrote_it_last(
    entries: list[dict[str, Any]], expected: tuple[str, float | None]
) -> None:
    raw = deployment()
    raw["metadata"]["managedFields"] = entries
    record = project_workload("Deployment", raw)
    assert (record.replicas_manager, record.replicas_changed_at) == expected


def node(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "gpu-1", "uid": "u", "labels": {"zone": "a"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "191450m", "memory": "2113512772Ki", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_node_offers_whole_numbers_of_the_smallest_unit() -> None:
    record = project_node(node())
    assert record.allocatable == {
        "cpu": 191_450,
        "memory": 2113512772 * 1024,
        "nvidia.com/gpu": 8,
    }
    assert record.ready
    assert not record.draining
    assert record.requested == {}


def test_node_that_does_not_report_is_not_ready() -> None:
    raw = node()
    raw["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert not project_node(raw).ready
    raw["status"]["conditions"] = []
    assert not project_node(raw).ready


@pytest.mark.parametrize("key", sorted(LEAVING_TAINTS))
def test_node_with_a_leaving_taint_drains(key: str) -> None:
    record = project_node(node(taints=[{"key": key, "effect": "NoSchedule"}]))
    assert record.draining
    assert record.taints == (Taint(key, "", "NoSchedule"),)


@pytest.mark.parametrize(
    "key",
    [
        "DeletionCandidateOfClusterAutoscaler",
        "aws-node-termination-handler/rebalance-recommendation",
        "kubernetes.azure.com/scalesetpriority",
        "cloud.google.com/gke-spot",
        "nvidia.com/gpu",
    ],
)
def test_taints_that_announce_nothing_do_not_drain(key: str) -> None:
    assert not project_node(node(taints=[{"key": key, "effect": "NoSchedule"}])).draining


def test_cordoned_or_deleted_node_drains() -> None:
    assert project_node(node(unschedulable=True)).draining
    raw = node()
    raw["metadata"]["deletionTimestamp"] = CREATED
    assert project_node(raw).draining


@pytest.mark.parametrize("path", sorted(NODES.glob("*.yaml")), ids=lambda path: path.stem)
def test_real_nodes_are_read(path: Path) -> None:
    raws = [
        raw for raw in yaml.safe_load_all(path.read_text()) if raw and raw.get("kind") == "Node"
    ]
    for raw in raws:
        record = project_node(raw)
        assert record.name == raw["metadata"]["name"]
        for name, amount in record.allocatable.items():
            assert amount >= 0, name


def test_quota_is_what_its_controller_published() -> None:
    raw = {
        "metadata": metadata("gpus"),
        "spec": {"hard": {"requests.nvidia.com/gpu": "99"}},
        "status": {
            "hard": {
                "requests.nvidia.com/gpu": "8",
                "requests.cpu": "64",
                "requests.memory": "1Ti",
            },
            "used": {"requests.nvidia.com/gpu": "6", "requests.cpu": "500m"},
        },
    }
    assert project_quota(raw) == Quota(
        "prod",
        "gpus",
        hard={"requests.nvidia.com/gpu": 8, "requests.cpu": 64_000, "requests.memory": 2**40},
        used={"requests.nvidia.com/gpu": 6, "requests.cpu": 500},
    )


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}}, False),
    ],
)
def test_quota_counts_only_where_it_covers_every_serving_pod(
    spec: dict[str, Any], counts: bool
) -> None:
    assert (project_quota({"metadata": metadata("q"), "spec": spec}) is not None) is counts


def test_hpa_says_what_it_scales_and_how_far() -> None:
    raw = {
        "metadata": metadata("h"),
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "llama"}, "maxReplicas": 9},
        "status": {"desiredReplicas": 4},
    }
    record = project_hpa(raw)
    assert record.target == WorkloadRef("Deployment", "prod", "llama")
    assert record.scaler == OtherScaler("HorizontalPodAutoscaler", "h", None, 9, 4)


def scaled_object(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": metadata("s", annotations=annotations),
        "spec": {"scaleTargetRef": {"name": "llama"}, "minReplicaCount": 0, "maxReplicaCount": 5},
    }


def test_scaled_object_scales_a_deployment_unless_it_says_otherwise() -> None:
    record = project_scaled_object(scaled_object())
    assert record is not None
    assert record.target == WorkloadRef("Deployment", "prod", "llama")
    assert record.scaler == OtherScaler("ScaledObject", "s", 0, 5)


def test_scaled_object_that_is_paused_is_no_scaler_unless_paused_at_a_count() -> None:
    paused = {"autoscaling.keda.sh/paused": "true"}
    assert project_scaled_object(scaled_object(**paused)) is None
    paused_at = paused | {"autoscaling.keda.sh/paused-replicas": "2"}
    assert project_scaled_object(scaled_object(**paused_at)) is not None


def test_pool_keeps_spec_and_status_raw() -> None:
    raw = pool(mode="Recommend") | {"status": {"observedGeneration": 1}}
    raw["metadata"]["annotations"] = {"kvscale.io/hold-until": CREATED}
    record = project_pool(raw)
    assert record is not None
    assert record.key == PoolKey("prod", "llama")
    assert record.spec["mode"] == "Recommend"
    assert record.status == {"observedGeneration": 1}
    assert record.annotations == {"kvscale.io/hold-until": CREATED}


def test_pool_being_deleted_is_gone() -> None:
    raw = pool()
    raw["metadata"]["deletionTimestamp"] = CREATED
    assert project_pool(raw) is None


def test_status_is_no_change_of_a_pool_but_annotations_and_spec_are() -> None:
    one = project_pool(pool())
    assert one is not None
    status = project_pool(pool() | {"status": {"x": 1}})
    assert status is not None
    assert same_pool(one, status)
    annotated = pool()
    annotated["metadata"]["annotations"] = {"kvscale.io/freeze": "ScaleDown"}
    edited = pool()
    edited["metadata"]["generation"] = 2
    for raw in (annotated, edited):
        record = project_pool(raw)
        assert record is not None
        assert not same_pool(one, record)
