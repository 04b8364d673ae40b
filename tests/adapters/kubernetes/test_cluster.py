"""The view over all caches: what is believed, what is Unknown, what holds everything up."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from adapters.kubernetes.fake_api import FakeApi, Fault
from adapters.kubernetes.objects import (
    DEPLOYMENTS,
    HPAS,
    NODES,
    PODS,
    POOLS,
    QUOTAS,
    SCALED_OBJECTS,
    STATEFUL_SETS,
    deployment,
    metadata,
    pod,
    pool,
)
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.cluster import KubernetesCluster
from kvscale.adapters.kubernetes.reflector import Pace
from kvscale.core.spec import PoolKey
from kvscale.core.values import Unknown
from kvscale.ports import ScaleWrite, WriteOutcome
from kvscale.records import WorkloadRef

FAST = Pace(first_wait=0.005, longest_wait=0.01, forbidden_wait=0.01, absent_wait=0.01)
EVERYTHING = {
    DEPLOYMENTS, HPAS, NODES, PODS, POOLS, QUOTAS, SCALED_OBJECTS, STATEFUL_SETS,
}  # fmt: skip
FORBIDDEN = (403, {"reason": "Forbidden", "message": "no"})


class ClusterFactory:
    def __init__(self, api: FakeApi, client: Client, now: Any) -> None:
        self._api, self._client, self._now = api, client, now
        self.changes: list[str] = []
        self._started: list[KubernetesCluster] = []

    def __call__(self, *namespaces: str) -> KubernetesCluster:
        def on_change(resource: str) -> None:
            self.changes.append(resource)
            self._api.poke()

        cluster = KubernetesCluster(
            self._client,
            namespaces=namespaces,
            instance="kvscale-0",
            now=self._now,
            on_change=on_change,
            pace=FAST,
        )
        self._started.append(cluster)
        cluster.start()
        return cluster

    def stop(self) -> None:
        for cluster in self._started:
            self._now.at = 0.0
            cluster.stop()


@pytest.fixture
def start(api: FakeApi, client: Client, now: Any) -> Iterator[ClusterFactory]:
    factory = ClusterFactory(api, client, now)
    yield factory
    factory.stop()


def synced(api: FakeApi, cluster: KubernetesCluster) -> None:
    api.eventually(lambda: cluster.view().not_synced == ())


def test_everything_is_watched_once_and_seen(api: FakeApi, start: ClusterFactory) -> None:
    api.put(POOLS, pool())
    api.put(DEPLOYMENTS, deployment())
    api.put(STATEFUL_SETS, deployment("other"))
    api.put(PODS, pod("llama-0"))
    api.put(NODES, {"metadata": {"name": "gpu-1", "uid": "n"}})
    api.put(QUOTAS, {"metadata": metadata("q")})
    target = {"scaleTargetRef": {"kind": "Deployment", "name": "llama"}}
    api.put(HPAS, {"metadata": metadata("h"), "spec": target})
    api.put(SCALED_OBJECTS, {"metadata": metadata("s"), "spec": target})
    cluster = start()
    synced(api, cluster)
    view = cluster.view()
    assert [p.key for p in view.pools] == [PoolKey("prod", "llama")]
    assert set(view.workloads) == {
        WorkloadRef("Deployment", "prod", "llama"),
        WorkloadRef("StatefulSet", "prod", "other"),
    }
    assert [p.name for p in view.pods] == ["llama-0"]
    assert not isinstance(view.nodes, Unknown)
    assert [n.name for n in view.nodes] == ["gpu-1"]
    assert not isinstance(view.quotas, Unknown)
    assert [q.name for q in view.quotas] == ["q"]
    assert {s.scaler.kind for s in view.scalers} == {"HorizontalPodAutoscaler", "ScaledObject"}
    api.eventually(lambda: api.count("watch") == len(EVERYTHING))
    assert {r.path for r in api.requests if r.kind == "watch"} == EVERYTHING
    assert api.count("list") == len(EVERYTHING)


def test_view_says_what_is_not_listed_yet(api: FakeApi, start: ClusterFactory) -> None:
    gate = api.hold("list")
    cluster = start()
    missing = cluster.view().not_synced
    assert "pods: not listed yet" in missing
    assert "deployments.apps: not listed yet" in missing
    assert len(missing) == len(EVERYTHING)
    gate.set()
    synced(api, cluster)


def test_namespaced_install_reads_its_namespaces_and_no_nodes(
    api: FakeApi, start: ClusterFactory
) -> None:
    for namespace in ("a", "b", "c"):
        raw = pod(f"pod-{namespace}")
        raw["metadata"]["namespace"] = namespace
        api.put(f"/api/v1/namespaces/{namespace}/pods", raw)
    cluster = start("a", "b")
    synced(api, cluster)
    view = cluster.view()
    assert {p.name for p in view.pods} == {"pod-a", "pod-b"}
    assert isinstance(view.nodes, Unknown)
    assert view.nodes.reason == "NoNodeAccess"
    assert all("/namespaces/" in request.path for request in api.requests)


@pytest.mark.parametrize(
    ("path", "what"), [(NODES, "nodes"), (QUOTAS, "quotas"), (SCALED_OBJECTS, "scalers")]
)
def test_what_may_be_missing_is_unknown_when_refused_and_holds_nothing_up(
    api: FakeApi, start: ClusterFactory, path: str, what: str
) -> None:
    api.writes["GET", path] = lambda _: FORBIDDEN
    cluster = start()
    synced(api, cluster)
    expected = {"nodes": "NoNodeAccess", "quotas": "Forbidden"}
    value = getattr(cluster.view(), what)
    assert value.reason == expected[what] if what in expected else value == ()


@pytest.mark.parametrize("path", [POOLS, PODS, DEPLOYMENTS, STATEFUL_SETS, HPAS])
def test_what_a_decision_cannot_do_without_holds_everything_up_when_refused(
    api: FakeApi, start: ClusterFactory, path: str
) -> None:
    api.writes["GET", path] = lambda _: FORBIDDEN
    cluster = start()
    api.eventually(lambda: len(cluster.view().not_synced) == 1)
    api.eventually(lambda: "grant get, list and watch" in cluster.view().not_synced[0])


def test_absent_crds_are_empty(api: FakeApi, start: ClusterFactory) -> None:
    api.absent |= {POOLS, SCALED_OBJECTS}
    cluster = start()
    synced(api, cluster)
    assert cluster.view().pools == ()
    api.absent.clear()
    api.put(POOLS, pool())
    api.eventually(lambda: cluster.view().pools)


def test_silent_server_makes_the_view_unusable_and_a_word_mends_it(
    api: FakeApi, start: ClusterFactory, now: Any
) -> None:
    cluster = start()
    synced(api, cluster)
    api.eventually(lambda: api.open_watches == len(EVERYTHING))
    now.at += 121.0
    assert set(cluster.ages().values()) == {121.0}
    assert len(cluster.view().not_synced) == len(EVERYTHING)
    for path in EVERYTHING:
        api.bookmark(path)
    synced(api, cluster)


def test_changes_name_their_resource(api: FakeApi, start: ClusterFactory) -> None:
    cluster = start()
    synced(api, cluster)
    api.eventually(lambda: api.open_watches == len(EVERYTHING))
    start.changes.clear()
    stored = api.put(POOLS, pool())
    api.eventually(lambda: start.changes == ["inferencepools"])
    api.put(POOLS, stored | {"status": {"x": 1}})
    api.eventually(lambda: cluster.view().pools[0].status == {"x": 1})
    assert start.changes == ["inferencepools"]


async def test_own_scale_is_in_the_view_before_the_watch_brings_it(
    api: FakeApi, start: ClusterFactory
) -> None:
    api.put(DEPLOYMENTS, deployment(replicas=2))
    ref = WorkloadRef("Deployment", "prod", "llama")
    written = {"metadata": {"uid": "uid-llama", "resourceVersion": "9999"}}
    api.writes["PUT", "/apis/apps/v1/namespaces/prod/deployments/llama/scale"] = lambda _: (
        200,
        written,
    )
    cluster = start()
    synced(api, cluster)
    before = cluster.view().workloads[ref]
    result = await cluster.scale(ScaleWrite(ref, 5, 2, before.resource_version))
    assert result.outcome is WriteOutcome.APPLIED
    after = cluster.view().workloads[ref]
    assert (after.replicas, after.resource_version) == (5, "9999")
    assert (after.replicas_manager, after.generation) == ("kvscale", before.generation + 1)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(status=404), "ConfigMapNotFound"),
        (Fault(status=403), "Forbidden"),
        (Fault(status=500), "ConfigMapUnavailable"),
        (Fault(reset=True), "ConfigMapUnavailable"),
    ],
    ids=["absent", "forbidden", "server error", "reset"],
)
async def test_config_map_that_cannot_be_had_is_unknown_with_the_reason(
    api: FakeApi, client: Client, now: Any, fault: Fault, reason: str
) -> None:
    cluster = KubernetesCluster(
        client, namespaces=(), instance="x", now=now, on_change=lambda _: None
    )
    api.fail("list", fault)
    answer = await cluster.config_map("prod", "model")
    assert isinstance(answer, Unknown)
    assert answer.reason == reason
    assert "ConfigMap prod/model" in answer.message


async def test_config_map_name_that_leads_elsewhere_is_refused(
    api: FakeApi, client: Client, now: Any
) -> None:
    cluster = KubernetesCluster(
        client, namespaces=(), instance="x", now=now, on_change=lambda _: None
    )
    answer = await cluster.config_map("prod", "../secrets/token")
    assert isinstance(answer, Unknown)
    assert answer.reason == "InvalidName"
    assert api.requests == []


def test_stop_ends_every_thread(api: FakeApi, start: ClusterFactory, now: Any) -> None:
    cluster = start()
    synced(api, cluster)
    api.eventually(lambda: api.open_watches == len(EVERYTHING))
    cluster.stop(seconds=5.0)
    assert not [t for t in threading.enumerate() if t.name.startswith("reflector ")]
