"""The Kubernetes adapter against the real API server, scheduler and controllers."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvscale.adapters.clock import SystemClock
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.cluster import KubernetesCluster
from kvscale.adapters.kubernetes.configuration import load_configuration
from kvscale.adapters.kubernetes.lease import KubernetesLease, LeaseTimes
from kvscale.adapters.kubernetes.reflector import Pace
from kvscale.core.spec import PoolKey
from kvscale.core.values import Known, Unknown
from kvscale.ports import ClusterView, EventNote, ScaleWrite, WriteOutcome
from kvscale.records import PodRecord, WorkloadRecord, WorkloadRef
from localcluster import Cluster, eventually

CRD = Path(__file__).parents[2] / "crds" / "kvscale.io_inferencepools.yaml"
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Applied",
    "message": "2 replicas",
    "lastTransitionTime": "2026-01-05T10:00:00Z",
}
STATUS = {"observedGeneration": 1, "conditions": [CONDITION]}


def workload(kind: str, replicas: int, selector: dict[str, str] | None = None) -> str:
    template = {
        "metadata": {"labels": {"app": "llama"}},
        "spec": {
            "nodeSelector": selector or {},
            "containers": [
                {
                    "name": "vllm",
                    "image": "vllm/vllm-openai:v0.32.0",
                    "args": ["--model", "meta-llama/Llama-3.1-8B-Instruct"],
                    "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "500m"}},
                }
            ],
        },
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "llama"}},
        "template": template,
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": "llama", "podManagementPolicy": "Parallel"}
    document = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "llama"}, "spec": spec}
    return json.dumps(document)


def pool(name: str = "llama") -> str:
    return json.dumps(
        {
            "apiVersion": "kvscale.io/v1alpha1",
            "kind": "InferencePool",
            "metadata": {"name": name},
            "spec": {"targets": [{"ref": {"name": "llama"}}]},
        }
    )


@pytest.fixture(scope="module")
def with_pools(control_plane: Cluster) -> Cluster:
    control_plane.apply(CRD.read_text())
    control_plane.kubectl(
        "wait", "--for=condition=Established", "crd/inferencepools.kvscale.io", "--timeout=30s"
    )
    return control_plane


@pytest.fixture
def client(with_pools: Cluster) -> Iterator[Client]:
    connection = Client(load_configuration(kubeconfig=str(with_pools.kubeconfig)))
    yield connection
    connection.close()


@pytest.fixture
def cluster(client: Client) -> Iterator[KubernetesCluster]:
    """Started, synced, and fast to try again."""
    started = KubernetesCluster(
        client,
        namespaces=(),
        instance="kvscale-0",
        now=SystemClock().now,
        on_change=lambda _: None,
        pace=Pace(first_wait=0.1, longest_wait=1.0, absent_wait=1.0),
    )
    started.start()
    eventually(lambda: started.view().not_synced == (), "the caches synced")
    yield started
    started.stop()


def pods_of(view: ClusterView, namespace: str) -> list[PodRecord]:
    return [pod for pod in view.pods if pod.namespace == namespace]


def seen(cluster: KubernetesCluster, ref: WorkloadRef) -> WorkloadRecord:
    return eventually(lambda: cluster.view().workloads.get(ref), f"{ref} in the cache")


def settled(cluster: KubernetesCluster, ref: WorkloadRef) -> WorkloadRecord:
    """The workload, once its controller has written the status of its current spec."""

    def check() -> WorkloadRecord | None:
        record = seen(cluster, ref)
        done = record.observed_generation == record.generation
        return record if done and record.status_replicas == record.replicas else None

    return eventually(check, f"{ref} settled")


def stored(cluster: Cluster, namespace: str, *what: str) -> dict[str, Any]:
    return cluster.get(*what, "-n", namespace, "--show-managed-fields")


def test_pods_are_seen_with_their_place_times_and_requests(
    with_pools: Cluster, cluster: KubernetesCluster, namespace: str, node_pool: Any
) -> None:
    node = node_pool.add(gpus=4)
    with_pools.apply(workload("Deployment", 3, node_pool.selector), namespace=namespace)

    def check() -> bool:
        pods = pods_of(cluster.view(), namespace)
        ready = [pod for pod in pods if pod.ready]
        waiting = [pod for pod in pods if pod.unschedulable_at is not None]
        assert len(ready) == 2
        assert len(waiting) == 1
        assert all(pod.node == node and pod.ip and pod.ready_at for pod in ready)
        assert all(pod.owner_kind == "ReplicaSet" for pod in pods)
        assert all(pod.requests["nvidia.com/gpu"] == 2 for pod in pods)
        assert all(pod.requests["cpu"] == 500 for pod in pods)
        return True

    eventually(check, "two pods ready and one unschedulable")
    with_pools.kubectl("scale", "deployment/llama", "--replicas=1", "-n", namespace)
    eventually(lambda: len(pods_of(cluster.view(), namespace)) == 1, "the other pods gone")


def test_nodes_are_seen_with_what_they_offer_and_when_they_drain(
    with_pools: Cluster, cluster: KubernetesCluster, node_pool: Any
) -> None:
    name = node_pool.add(gpus=8, taints=["nvidia.com/gpu=present:NoSchedule"])

    def node() -> Any:
        nodes = cluster.view().nodes
        assert not isinstance(nodes, Unknown)
        return next((each for each in nodes if each.name == name), None)

    first = eventually(lambda: (n := node()) and n.ready and n, "the node ready")
    assert first.allocatable["nvidia.com/gpu"] == 8
    assert first.allocatable["cpu"] == 192_000
    assert first.allocatable["memory"] == 2048 * 2**30
    assert not first.draining
    with_pools.kubectl("cordon", name)
    eventually(lambda: node().draining, "the node drains")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_scale_is_written_and_shown_at_once_as_ours(
    with_pools: Cluster, cluster: KubernetesCluster, namespace: str, kind: str
) -> None:
    with_pools.apply(workload(kind, 1), namespace=namespace)
    ref = WorkloadRef(kind, namespace, "llama")
    before = settled(cluster, ref)
    assert before.replicas_manager == "kubectl"
    assert before.replicas_changed_at is not None
    result = await cluster.scale(ScaleWrite(ref, 3, 1, before.resource_version))
    assert result.outcome is WriteOutcome.APPLIED, result.message
    after = cluster.view().workloads[ref]
    assert (after.replicas, after.replicas_manager) == (3, "kvscale")
    assert int(after.resource_version) > int(before.resource_version)
    real = stored(with_pools, namespace, kind.lower(), "llama")
    assert real["spec"]["replicas"] == 3
    assert real["metadata"]["generation"] == after.generation
    ours = [e for e in real["metadata"]["managedFields"] if e["manager"] == "kvscale"]
    assert [(e["operation"], e["subresource"]) for e in ours] == [("Update", "scale")]
    later = settled(cluster, ref)
    assert (later.replicas, later.replicas_manager) == (3, "kvscale")
    assert later.replicas_changed_at == after.replicas_changed_at


async def test_scale_of_a_count_that_has_moved_is_a_conflict_and_changes_nothing(
    with_pools: Cluster, cluster: KubernetesCluster, namespace: str
) -> None:
    with_pools.apply(workload("Deployment", 1), namespace=namespace)
    ref = WorkloadRef("Deployment", namespace, "llama")
    before = seen(cluster, ref)
    with_pools.kubectl("scale", "deployment/llama", "--replicas=7", "-n", namespace)
    result = await cluster.scale(ScaleWrite(ref, 3, 1, before.resource_version))
    assert result.outcome is WriteOutcome.CONFLICT
    assert result.message == "replicas is 7, no longer 1"
    assert stored(with_pools, namespace, "deployment", "llama")["spec"]["replicas"] == 7


async def test_scale_survives_a_version_that_moved_without_the_count(
    with_pools: Cluster, cluster: KubernetesCluster, namespace: str
) -> None:
    with_pools.apply(workload("Deployment", 1), namespace=namespace)
    ref = WorkloadRef("Deployment", namespace, "llama")
    before = seen(cluster, ref)
    with_pools.kubectl("annotate", "deployment/llama", "note=moved", "-n", namespace)
    result = await cluster.scale(ScaleWrite(ref, 3, 1, before.resource_version))
    assert result.outcome is WriteOutcome.APPLIED, result.message
    assert stored(with_pools, namespace, "deployment", "llama")["spec"]["replicas"] == 3


async def test_scale_of_what_does_not_exist_is_not_found(
    cluster: KubernetesCluster, namespace: str
) -> None:
    ref = WorkloadRef("Deployment", namespace, "nobody")
    result = await cluster.scale(ScaleWrite(ref, 3, 1, "1"))
    assert result.outcome is WriteOutcome.NOT_FOUND


async def test_equal_status_applied_again_leaves_the_object_as_it_was(
    with_pools: Cluster, cluster: KubernetesCluster, namespace: str
) -> None:
    with_pools.apply(pool(), namespace=namespace)
    key = PoolKey(namespace, "llama")
    first = await cluster.apply_status(key, STATUS)
    assert first.outcome is WriteOutcome.APPLIED, first.message
    one = stored(with_pools, namespace, "inferencepool.kvscale.io", "llama")
    assert one["status"] == STATUS
    again = await cluster.apply_status(key, STATUS)
    assert again.outcome is WriteOutcome.APPLIED
    two = stored(with_pools, namespace, "inferencepool.kvscale.io", "llama")
    assert two["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]
    await cluster.apply_status(key, {"observedGeneration": 1})
    three = stored(with_pools, namespace, "inferencepool.kvscale.io", "llama")
    assert three["status"] == {"observedGeneration": 1}
    assert (await cluster.apply_status(PoolKey(namespace, "nobody"), STATUS)).outcome is (
        WriteOutcome.NOT_FOUND
    )


async def test_pool_is_seen_and_its_own_status_is_no_change(
    with_pools: Cluster, client: Client, namespace: str
) -> None:
    changes: list[str] = []
    watching = KubernetesCluster(
        client, namespaces=(namespace,), instance="x", now=SystemClock().now,
        on_change=changes.append,
    )  # fmt: skip
    watching.start()
    try:
        eventually(lambda: watching.view().not_synced == (), "the caches synced")
        with_pools.apply(pool(), namespace=namespace)
        eventually(lambda: watching.view().pools, "the pool in the cache")
        assert watching.view().pools[0].key == PoolKey(namespace, "llama")
        assert isinstance(watching.view().nodes, Unknown)
        changes.clear()
        await watching.apply_status(PoolKey(namespace, "llama"), STATUS)
        eventually(lambda: watching.view().pools[0].status == STATUS, "the status in the cache")
        assert "inferencepools" not in changes
    finally:
        watching.stop()


async def test_config_map_is_read_and_absence_is_told(
    with_pools: Cluster, cluster: KubernetesCluster, namespace: str
) -> None:
    with_pools.kubectl(
        "create", "configmap", "model", "--from-literal=config.json={}", "-n", namespace
    )
    assert await cluster.config_map(namespace, "model") == {"config.json": "{}"}
    absent = await cluster.config_map(namespace, "nobody")
    assert isinstance(absent, Unknown)
    assert absent.reason == "ConfigMapNotFound"


async def test_event_is_accepted_and_points_at_its_pool(
    with_pools: Cluster, cluster: KubernetesCluster, namespace: str
) -> None:
    with_pools.apply(pool(), namespace=namespace)
    uid = stored(with_pools, namespace, "inferencepool.kvscale.io", "llama")["metadata"]["uid"]
    note = EventNote(PoolKey(namespace, "llama"), uid, "Normal", "ScaledUp", "Scale", "1 -> 3")
    await cluster.emit(note)
    await cluster.emit(note)
    events = with_pools.get("events.events.k8s.io", "-n", namespace)["items"]
    ours = [event for event in events if event["reason"] == "ScaledUp"]
    assert len(ours) == 1
    assert ours[0]["note"] == "1 -> 3"
    assert ours[0]["regarding"]["uid"] == uid
    assert ours[0]["reportingController"] == "kvscale.io/kvscale"


def test_api_server_that_dies_and_comes_back_is_caught_up_with(
    with_pools: Cluster, cluster: KubernetesCluster, namespace: str
) -> None:
    with_pools.apply(workload("Deployment", 2), namespace=namespace)
    ref = WorkloadRef("Deployment", namespace, "llama")
    settled(cluster, ref)
    with_pools.stop("kube-apiserver")
    with_pools.start("kube-apiserver")
    with_pools.kubectl("delete", "deployment/llama", "-n", namespace, "--cascade=foreground")
    eventually(lambda: ref not in cluster.view().workloads, "the deletion seen", within=60.0)
    eventually(lambda: not pods_of(cluster.view(), namespace), "its pods gone", within=60.0)
    eventually(lambda: cluster.view().not_synced == (), "the caches synced", within=60.0)


def test_stop_ends_watches_over_tls(cluster: KubernetesCluster) -> None:
    def watching() -> list[threading.Thread]:
        return [t for t in threading.enumerate() if t.name.startswith("reflector ")]

    assert len(watching()) == 8
    cluster.stop(seconds=5.0)
    assert watching() == []


def restricted(cluster: Cluster, namespace: str, rules: list[dict[str, Any]]) -> Path:
    """A kubeconfig of a service account that may do this much, in its namespace."""
    cluster.kubectl("create", "serviceaccount", "kvscale", "-n", namespace)
    role: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "kvscale"},
        "rules": rules,
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "kvscale"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kvscale"},
        "subjects": [{"kind": "ServiceAccount", "name": "kvscale", "namespace": namespace}],
    }
    documents = {"apiVersion": "v1", "kind": "List", "items": [role, binding]}
    cluster.apply(json.dumps(documents), namespace=namespace)
    return cluster.service_account_kubeconfig(namespace, "kvscale")


async def test_missing_permission_is_named_until_it_is_granted(
    with_pools: Cluster, namespace: str
) -> None:
    read = ["get", "list", "watch"]
    kubeconfig = restricted(
        with_pools,
        namespace,
        [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": read}],
    )
    connection = Client(load_configuration(kubeconfig=str(kubeconfig)))
    watching = KubernetesCluster(
        connection, namespaces=(namespace,), instance="x", now=SystemClock().now,
        on_change=lambda _: None, pace=Pace(first_wait=0.1, longest_wait=0.5, forbidden_wait=0.5),
    )  # fmt: skip
    watching.start()
    try:

        def refused() -> tuple[str, ...]:
            return tuple(m for m in watching.view().not_synced if "grant get, list and watch" in m)

        eventually(lambda: len(refused()) == 4, "four refusals told")
        assert not any(m.startswith("deployments") for m in refused())
        assert any(m.startswith(f"pods in {namespace}: grant") for m in refused())
        quotas = watching.view().quotas
        assert isinstance(quotas, Unknown)
        assert quotas.reason == "Forbidden"
        result = await watching.scale(
            ScaleWrite(WorkloadRef("Deployment", namespace, "llama"), 2, 1, "1")
        )
        assert result.outcome is WriteOutcome.FORBIDDEN
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": read}
        patch = json.dumps([{"op": "replace", "path": "/rules", "value": [everything]}])
        with_pools.kubectl("patch", "role/kvscale", "-n", namespace, "--type=json", "-p", patch)
        eventually(lambda: watching.view().not_synced == (), "the caches synced")
        assert watching.view().quotas == ()
    finally:
        watching.stop()


async def test_lease_has_one_holder_and_passes_on_when_released(
    client: Client, namespace: str
) -> None:
    def contender(identity: str, now: Callable[[], float]) -> KubernetesLease:
        return KubernetesLease(
            client, namespace=namespace, name="kvscale", identity=identity, now=now,
            times=LeaseTimes(duration=30, renew_deadline=20.0, renew_every=0.0),
        )  # fmt: skip

    first, second = contender("one", SystemClock().now), contender("two", SystemClock().now)
    assert isinstance(await first.acquire(), Known)
    assert isinstance(await first.acquire(), Known)
    refused = await second.acquire()
    assert isinstance(refused, Unknown)
    assert refused.reason == "NotLeader"
    assert "held by one" in refused.message
    await first.release()
    assert isinstance(await second.acquire(), Known)
    assert isinstance(await first.acquire(), Unknown)
    lease = client.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kvscale")
    assert lease["spec"]["holderIdentity"] == "two"
    assert lease["spec"]["leaseTransitions"] == 1
