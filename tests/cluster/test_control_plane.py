"""What the other tests rely on: scheduler, kwok, RBAC and an API server that comes back."""

import json
from typing import Any

import pytest

from localcluster import (
    STARTUP_SECONDS,
    Cluster,
    ControlPlane,
    KubectlError,
    Labelling,
    eventually,
)


def engine_deployment(
    replicas: int, gpus: int, selector: dict[str, str], annotations: dict[str, str] | None = None
) -> str:
    """A Deployment `engine` whose pods want `gpus` GPUs each, on the selected nodes."""
    container = {
        "name": "engine",
        "image": "engine:test",
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "engine"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "engine"}},
            "template": {
                "metadata": {"labels": {"app": "engine"}, "annotations": annotations or {}},
                "spec": {"nodeSelector": selector, "containers": [container]},
            },
        },
    }
    return json.dumps(deployment)


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = cluster.get("pods", "-n", namespace)["items"]
    return items


def condition(pod: dict[str, Any], kind: str) -> dict[str, Any]:
    found = [each for each in pod["status"].get("conditions", []) if each["type"] == kind]
    return found[0] if found else {"status": "Absent", "reason": "Absent"}


def is_ready(pod: dict[str, Any]) -> bool:
    return bool(condition(pod, "Ready")["status"] == "True")


def test_gpus_of_a_node_bound_how_many_pods_run(
    control_plane: Cluster, namespace: str, node_pool: Any
) -> None:
    node_pool.add(gpus=8)
    control_plane.apply(
        engine_deployment(replicas=6, gpus=2, selector=node_pool.selector), namespace=namespace
    )

    def settled() -> list[dict[str, Any]]:
        found = pods(control_plane, namespace)
        refused = [pod for pod in found if condition(pod, "PodScheduled")["status"] == "False"]
        running = [pod for pod in found if is_ready(pod)]
        return refused if len(running) + len(refused) == 6 else []

    refused = eventually(settled, "six pods running or refused")

    assert len(refused) == 2
    for pod in refused:
        assert pod["status"]["phase"] == "Pending"
        assert condition(pod, "PodScheduled")["reason"] == "Unschedulable"
        assert "Insufficient nvidia.com/gpu" in condition(pod, "PodScheduled")["message"]


def test_a_freed_gpu_goes_to_a_waiting_pod(
    control_plane: Cluster, namespace: str, node_pool: Any
) -> None:
    node_pool.add(gpus=1)
    control_plane.apply(
        engine_deployment(replicas=1, gpus=1, selector=node_pool.selector), namespace=namespace
    )
    first = eventually(
        lambda: next(filter(is_ready, pods(control_plane, namespace)), None), "a pod is ready"
    )

    control_plane.kubectl("delete", "pod", first["metadata"]["name"], "-n", namespace)

    second = eventually(
        lambda: next(filter(is_ready, pods(control_plane, namespace)), None),
        "its successor is ready",
    )
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


def test_startup_annotation_delays_readiness(
    control_plane: Cluster, namespace: str, node_pool: Any
) -> None:
    node_pool.add(gpus=2)
    seconds = 3600  # never within this test
    control_plane.apply(
        engine_deployment(1, 1, node_pool.selector, {STARTUP_SECONDS: str(seconds)}),
        namespace=namespace,
    )
    slow = eventually(
        lambda: next(
            (pod for pod in pods(control_plane, namespace) if pod["status"]["phase"] == "Running"),
            None,
        ),
        "the pod runs",
    )
    assert not is_ready(slow)
    assert condition(slow, "Ready")["reason"] == "ContainersNotReady"
    assert slow["status"]["podIP"]


def test_a_pod_is_ready_after_its_startup_seconds(
    control_plane: Cluster, namespace: str, node_pool: Any
) -> None:
    node_pool.add(gpus=2)
    control_plane.apply(
        engine_deployment(1, 1, node_pool.selector, {STARTUP_SECONDS: "3"}), namespace=namespace
    )
    ready = eventually(
        lambda: next(filter(is_ready, pods(control_plane, namespace)), None), "the pod is ready"
    )
    started = ready["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    became = condition(ready, "Ready")["lastTransitionTime"]
    # both are written by kwok, in whole seconds: how loaded this machine is does not matter
    assert seconds_between(started, became) >= 2


def seconds_between(earlier: str, later: str) -> float:
    from datetime import datetime

    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def test_node_labels_are_those_of_the_chosen_labeller(
    control_plane: Cluster, node_pool: Any
) -> None:
    by_discovery = node_pool.add(product="NVIDIA-L4", gpus=1)
    by_gke = node_pool.add(product="NVIDIA-L4", gpus=1, labelling=Labelling.GKE)

    def labels(name: str) -> dict[str, str]:
        found: dict[str, str] = control_plane.get("node", name)["metadata"]["labels"]
        return found

    assert labels(by_discovery)["nvidia.com/gpu.product"] == "NVIDIA-L4"
    assert labels(by_discovery)["nvidia.com/gpu.memory"] == "23034"
    assert labels(by_gke)["cloud.google.com/gke-accelerator"] == "nvidia-l4"
    assert not [key for key in labels(by_gke) if key.startswith("nvidia.com/")]


def test_a_tainted_node_takes_no_pod_without_toleration(
    control_plane: Cluster, namespace: str, node_pool: Any
) -> None:
    node_pool.add(gpus=8, taints=["nvidia.com/gpu=present:NoSchedule"])
    control_plane.apply(engine_deployment(1, 1, node_pool.selector), namespace=namespace)

    refused = eventually(
        lambda: [
            pod
            for pod in pods(control_plane, namespace)
            if condition(pod, "PodScheduled")["reason"] == "Unschedulable"
        ],
        "the scheduler refuses the pod",
    )
    assert "untolerated taint" in condition(refused[0], "PodScheduled")["message"]


def test_a_service_account_may_do_what_it_is_granted_and_nothing_else(
    control_plane: Cluster, namespace: str
) -> None:
    control_plane.kubectl("create", "serviceaccount", "operator", "-n", namespace)
    control_plane.kubectl(
        "create", "role", "reader", "--verb=get,list", "--resource=pods", "-n", namespace
    )
    control_plane.kubectl(
        "create", "rolebinding", "reader", "--role=reader",
        f"--serviceaccount={namespace}:operator", "-n", namespace,
    )  # fmt: skip
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "operator")

    listed = eventually(  # the API server's authorizer learns of a new binding by a watch
        lambda: control_plane.kubectl_as(kubeconfig, "get", "pods", "-o", "name") == "",
        "the account may list pods",
        retry_on=(KubectlError,),
    )

    assert listed
    with pytest.raises(
        KubectlError, match=rf"{namespace}:operator.* cannot list resource .secrets"
    ):
        control_plane.kubectl_as(kubeconfig, "get", "secrets")
    with pytest.raises(
        KubectlError, match=r"cannot list resource .pods. .* in the namespace .default"
    ):
        control_plane.kubectl_as(kubeconfig, "get", "pods", "-n", "default")


def test_a_token_for_an_account_that_does_not_exist_is_refused(
    control_plane: Cluster, namespace: str
) -> None:
    with pytest.raises(KubectlError, match='serviceaccounts "nobody" not found'):
        control_plane.service_account_kubeconfig(namespace, "nobody")


def test_an_api_server_that_crashed_returns_at_its_address_with_its_data(
    control_plane: Cluster, namespace: str, node_pool: Any
) -> None:
    node_pool.add(gpus=1)
    control_plane.kubectl("create", "configmap", "kept", "-n", namespace, "--from-literal=a=b")
    url = control_plane.url

    control_plane.stop("kube-apiserver")
    with pytest.raises(KubectlError, match="refused"):
        control_plane.kubectl("get", "configmap", "kept", "-n", namespace)
    control_plane.start("kube-apiserver")

    assert control_plane.url == url
    assert control_plane.get("configmap", "kept", "-n", namespace)["data"] == {"a": "b"}
    # scheduler, controllers and kwok found their way back as well
    control_plane.apply(engine_deployment(1, 1, node_pool.selector), namespace=namespace)
    eventually(
        lambda: any(map(is_ready, pods(control_plane, namespace))), "a new pod is ready", within=90
    )


def test_an_unknown_component_is_refused_by_name(control_plane: Cluster) -> None:
    if not isinstance(control_plane, ControlPlane):
        pytest.skip("kind names its components by itself")
    with pytest.raises(RuntimeError, match="no component 'kube-proxy'; there are etcd, kube-api"):
        control_plane.stop("kube-proxy")
