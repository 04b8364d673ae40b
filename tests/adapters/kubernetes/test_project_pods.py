"""Pods: what the scheduler counts, and what the conditions say now."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.objects import CREATED, CREATED_AT, pod
from kvscale.adapters.kubernetes.project import Malformed, project_pod
from kvscale.adapters.kubernetes.project.quantities import pod_requests

REAL = Path(__file__).parents[2] / "data" / "pods" / "deployment_of_two_gpu_pods.json"


def container(**requests: str) -> dict[str, Any]:
    return {"resources": {"requests": requests}}


def sidecar(**requests: str) -> dict[str, Any]:
    return container(**requests) | {"restartPolicy": "Always"}


def condition(kind: str, status: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": CREATED} | more


def with_status(**status: Any) -> dict[str, Any]:
    return pod() | {"status": status}


def test_real_pods_that_wait_and_run_are_read() -> None:
    waiting, running = map(project_pod, json.loads(REAL.read_text())["items"])
    assert waiting.phase == "Pending"
    assert waiting.unschedulable_at is not None
    assert (waiting.node, waiting.ip, waiting.ready, waiting.scheduled_at) == ("", "", False, None)
    assert (running.phase, running.node, running.ready) == ("Running", "n1", True)
    assert running.ip == "10.128.0.2"
    assert running.ready_at == running.scheduled_at == running.created_at == 1795989468.0
    assert (running.owner_kind, running.owner_name) == ("ReplicaSet", "llama-56b5b449dd")
    assert running.labels == {"app": "llama", "pod-template-hash": "56b5b449dd"}
    assert running.requests == {"cpu": 500, "nvidia.com/gpu": 2, "pods": 1}


def test_pods_of_one_template_share_their_labels_and_requests() -> None:
    one, two = map(project_pod, json.loads(REAL.read_text())["items"])
    assert one.labels is two.labels
    assert one.requests is two.requests


def test_requests_are_summed_over_containers() -> None:
    spec = {"containers": [container(cpu="500m", memory="1Gi"), container(cpu="1.5")]}
    assert pod_requests(spec) == {"cpu": 2000, "memory": 2**30, "pods": 1}


def test_fractions_of_the_smallest_unit_round_up() -> None:
    assert pod_requests({"containers": [container(cpu="0.1m", memory="1500m")]}) == {
        "cpu": 1,
        "memory": 2,
        "pods": 1,
    }


def test_limit_without_a_request_is_the_request() -> None:
    resources = {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}, "requests": {"cpu": "1"}}
    assert pod_requests({"containers": [{"resources": resources}]}) == {
        "cpu": 1000,
        "nvidia.com/gpu": 2,
        "pods": 1,
    }


def test_larger_init_container_counts_alone() -> None:
    spec = {
        "containers": [container(memory="1Gi")],
        "initContainers": [container(memory="3Gi"), container(memory="2Gi")],
    }
    assert pod_requests(spec)["memory"] == 3 * 2**30


def test_sidecars_count_while_running_and_during_the_initialisation_after_them() -> None:
    spec = {
        "containers": [container(memory="1Gi")],
        "initContainers": [container(memory="4Gi"), sidecar(memory="2Gi"), container(memory="3Gi")],
    }
    assert pod_requests(spec)["memory"] == 5 * 2**30  # sidecar and the last init container
    running_wins = {
        "containers": [container(memory="9Gi")],
        "initContainers": [sidecar(memory="2Gi")],
    }
    assert pod_requests(running_wins)["memory"] == 11 * 2**30


def test_pod_level_requests_replace_the_sum_and_overhead_comes_on_top() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi", **{"nvidia.com/gpu": "1"})],
        "resources": {"requests": {"memory": "8Gi", "nvidia.com/gpu": "5"}},
        "overhead": {"memory": "1Gi"},
    }
    assert pod_requests(spec) == {
        "cpu": 1000,
        "memory": 9 * 2**30,
        "nvidia.com/gpu": 1,  # devices cannot be requested for the pod as a whole
        "pods": 1,
    }


amounts = st.integers(min_value=0, max_value=64)


@given(
    mains=st.lists(amounts, min_size=1, max_size=3),
    inits=st.lists(st.tuples(st.booleans(), amounts), max_size=5),
)
def test_requests_cover_every_moment_of_a_pods_life(
    mains: list[int], inits: list[tuple[bool, int]]
) -> None:
    spec = {
        "containers": [container(cpu=str(n)) for n in mains],
        "initContainers": [(sidecar if stays else container)(cpu=str(n)) for stays, n in inits],
    }
    moments, up = [], 0
    for stays, n in inits:
        moments.append(up + n)
        up += n if stays else 0
    moments.append(up + sum(mains))
    assert pod_requests(spec)["cpu"] == 1000 * max(moments)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_requests_nothing(phase: str) -> None:
    raw = pod(containers=[container(cpu="1")]) | {"status": {"phase": phase}}
    assert project_pod(raw).requests == {}


def test_ready_pod_says_since_when() -> None:
    record = project_pod(with_status(phase="Running", conditions=[condition("Ready", "True")]))
    assert record.ready
    assert record.ready_at == CREATED_AT


def test_condition_that_says_no_gives_no_time() -> None:
    record = project_pod(with_status(phase="Running", conditions=[condition("Ready", "False")]))
    assert not record.ready
    assert record.ready_at is None


def test_pod_held_back_by_a_gate_is_not_unschedulable() -> None:
    gate = condition("PodScheduled", "False", reason="SchedulingGated")
    assert project_pod(with_status(conditions=[gate])).unschedulable_at is None
    no_node = condition("PodScheduled", "False", reason="Unschedulable")
    assert project_pod(with_status(conditions=[no_node])).unschedulable_at == CREATED_AT


def waiting(reason: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason}}, "restartCount": 2}


def test_trouble_is_named_before_mere_waiting() -> None:
    record = project_pod(
        with_status(
            initContainerStatuses=[waiting("PodInitializing")],
            containerStatuses=[waiting("ContainerCreating"), waiting("CrashLoopBackOff")],
        )
    )
    assert record.waiting_reason == "CrashLoopBackOff"
    assert record.restarts == 6


def test_init_container_that_cannot_start_is_named() -> None:
    record = project_pod(
        with_status(
            initContainerStatuses=[waiting("ImagePullBackOff")],
            containerStatuses=[waiting("PodInitializing")],
        )
    )
    assert record.waiting_reason == "ImagePullBackOff"


def test_mere_waiting_is_named_when_there_is_no_trouble() -> None:
    record = project_pod(with_status(containerStatuses=[waiting("ContainerCreating")]))
    assert record.waiting_reason == "ContainerCreating"


def test_pod_being_deleted_is_marked() -> None:
    raw = pod()
    raw["metadata"]["deletionTimestamp"] = CREATED
    assert project_pod(raw).deleting


def test_owner_is_the_controller_among_the_owners() -> None:
    raw = pod()
    raw["metadata"]["ownerReferences"] = [
        {"kind": "Something", "name": "x"},
        {"kind": "StatefulSet", "name": "llama", "controller": True},
    ]
    record = project_pod(raw)
    assert (record.owner_kind, record.owner_name) == ("StatefulSet", "llama")


def test_pod_with_nothing_but_an_identity_is_read() -> None:
    raw = {"metadata": pod()["metadata"]}
    record = project_pod(raw)
    assert (record.phase, record.node, record.labels, record.restarts) == ("", "", {}, 0)
    assert record.requests == {"pods": 1}


@pytest.mark.parametrize("field", ["namespace", "name", "uid", "creationTimestamp"])
def test_pod_without_identity_or_age_is_malformed(field: str) -> None:
    raw = pod()
    del raw["metadata"][field]
    with pytest.raises(Malformed, match=f"metadata.{field} is absent"):
        project_pod(raw)


def test_quantity_that_cannot_be_read_is_named() -> None:
    with pytest.raises(Malformed, match="memory: 'much' is no quantity"):
        project_pod(pod(containers=[container(memory="much")]))


def test_moment_that_cannot_be_read_is_named() -> None:
    raw = pod()
    raw["metadata"]["creationTimestamp"] = "yesterday"
    with pytest.raises(Malformed, match="creationTimestamp: 'yesterday' is no RFC 3339 moment"):
        project_pod(raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    spec=json_values,
    status=json_values,
    key=st.sampled_from(["containers", "conditions", "containerStatuses", "resources"]),
    value=json_values,
)
def test_fields_of_any_type_are_read_as_empty_or_malformed_and_nothing_else(
    spec: Any, status: Any, key: str, value: Any
) -> None:
    raw = {"metadata": pod()["metadata"], "spec": spec, "status": status}
    for part in (spec, status):
        if isinstance(part, dict):
            part[key] = value
    with contextlib.suppress(Malformed):
        project_pod(raw)
