"""The operator on the real API server: from a pool to a replica count, and why."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from localcluster import KubectlError
from support.engine_pages import Load
from support.operator_rig import kvscale
from support.scaled_target import Target, deployment, is_true, pool

pytestmark = pytest.mark.usefixtures("operator")

TRAFFIC = {
    "requestsPerMinute": {"mean": 4000, "peak": 8000},
    "promptTokens": {"mean": 900, "p95": 3300},
    "outputTokens": {"mean": 220, "p95": 640},
}
NO_WINDOW = {"stabilizationWindowSeconds": 0}
ONE_AT_ONCE = {"scaleDown": NO_WINDOW | {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 600}]}}  # fmt: skip
AT_MOST_TWO = {"maxReplicas": 2}
HEAVY = Load(used=1000, running=40)
"""Of one engine: all of its blocks; 850 are planned for, so it takes 1.18 replicas."""


@pytest.fixture(scope="module")
def shrinking(operator, control_plane, engines):
    """A pool that has too many replicas since the module began: its proof takes a minute."""
    namespace = control_plane.create_namespace("operator-shrinks")
    engines.show(namespace, Load(used=200, running=10))
    target = Target(control_plane, namespace).deploy(4)
    target.declare(scaling={"behavior": ONE_AT_ONCE})
    target.until_condition("MetricsAvailable", "True")
    yield target
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture(autouse=True)
def _early(shrinking):
    """The minute of that proof passes while the other tests run."""


def test_a_pool_is_answered_in_every_way_that_kubectl_asks(control_plane, engines, target):
    engines.show(target.namespace, Load(used=400, running=20))
    target.deploy(2).declare()
    where = ("-n", target.namespace)
    control_plane.kubectl("wait", "--for=condition=Ready", "kvp/llama", *where, "--timeout=30s")
    target.until_condition("MetricsAvailable", "True", "Fresh")
    status = target.status()
    assert status["observedGeneration"] == target.pool()["metadata"]["generation"]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Ready": "True",
        "TargetResolved": "True",
        "CapacityKnown": "True",
        "MetricsAvailable": "True",
        "CeilingVerified": "False",  # the engines say 1,001 blocks, an H100 has 28,000
        "TrafficAsDeclared": "Unknown",
        "ScalingLimited": "True",
        "Stalled": "False",
    }
    assert status["replicas"]["current"] == status["replicas"]["ready"] == 2
    header, row = control_plane.kubectl("get", "kvp", *where).splitlines()
    cells = dict(zip(header.split(), row.split(), strict=True))
    assert cells["TARGET"] == "llama"
    assert (cells["DESIRED"], cells["SERVING"], cells["OCCUPANCY%"]) == ("2", "2", "40")
    assert (cells["BOUND"], cells["READY"]) == ("KV", "True")
    described = control_plane.kubectl("describe", "kvp/llama", *where)
    assert "Binding Bound:" in described
    # events are found by the pool's uid: describe shows them beneath the object
    events = described.partition("\nEvents:")[2]
    assert "EngineDiffers" in events, described


def test_explain_prints_the_trace_of_the_decision(target, engines, control_plane):
    engines.show(target.namespace, Load(used=400, running=20))
    target.deploy().declare()
    target.until_condition("MetricsAvailable", "True")
    page = kvscale(
        "explain", f"{target.namespace}/llama", "--kubeconfig", str(control_plane.kubeconfig)
    )
    assert page.startswith(f"InferencePool {target.namespace}/llama")
    assert "400 blocks / (1,000 usable a replica at 85 %) = 0.47" in page
    for step in ("usableBlocksPerEngine", "usedBlocks", "growthBlocks", "boundKV"):
        assert step in page
    assert "40 % of the blocks used; 20 running" in page


def test_the_first_size_is_the_floor_that_plan_computes_before_there_is_a_metric(target, tmp_path):
    manifest = [deployment("llama", 1), pool("llama", traffic=TRAFFIC)]
    file = tmp_path / "pool.yaml"
    file.write_text("\n---\n".join(map(json.dumps, manifest)))
    planned = json.loads(kvscale("plan", "-f", str(file), "--gpu=H100", "-o", "json"))["floor"]
    assert planned["atMean"] > 1
    target.deploy(ready=False).declare(traffic=TRAFFIC)
    target.until_replicas(planned["atMean"])
    status = target.until(
        lambda it: (s := it.status()).get("scalings") and s, "the scaling in the status"
    )
    assert status["floor"]["meanReplicas"] == planned["atMean"]
    assert status["floor"]["peakReplicas"] == planned["atPeak"]
    assert [(one["before"], one["reason"]) for one in status["scalings"]] == [(1, "FirstSize")]


def test_cache_pressure_adds_replicas_by_the_scale_subresource(target, engines):
    engines.show(target.namespace, Load(used=400, running=20))
    target.deploy().declare()
    target.until_condition("MetricsAvailable", "True")
    assert target.replicas() == 1
    pod = target.pods()[0]["metadata"]["name"]
    engines.show(target.namespace, Load())  # the others
    engines.show(target.namespace, Load(used=900, running=40, waiting=40), pod)
    target.until_replicas(3)  # (900 used + 40 that wait at 22.5 each) / 850 = 2.1
    status = target.until(
        lambda it: (s := it.status()).get("scalings") and s, "the scaling in the status"
    )
    assert [(s["before"], s["after"], s["reason"]) for s in status["scalings"]] == [
        (1, 3, "AsNeeded")
    ]
    assert status["memory"]["lastWrittenReplicas"] == 3
    fields = target.deployment()["metadata"]["managedFields"]
    owners = [
        (one["manager"], one["operation"], one.get("subresource"))
        for one in fields
        if "f:replicas" in one["fieldsV1"].get("f:spec", {})
    ]
    assert owners == [("kvscale", "Update", "scale")]
    target.until(lambda it: it.ready_pods() == 3, "three ready pods")


def test_what_cannot_be_placed_waits_in_small_number(control_plane, engines, target, node_pool):
    node_pool.add(gpus=2)
    engines.show(target.namespace, Load(used=900, running=40, waiting=160))
    target.deploy(nodeSelector=node_pool.selector).declare()
    target.until_replicas(4)  # 2 devices, and maxPendingReplicas is 2
    limited = target.until_condition("ScalingLimited", "True", "NotPlaceable")
    assert "2 placeable, 2 more may wait for nodes" in limited["message"]
    assert "nvidia.com/gpu" in limited["message"]
    waiting = target.until(
        lambda it: (p := [one for one in it.pods() if not is_true(one, "PodScheduled")])
        and len(it.pods()) == 4 and p,
        "pods that the scheduler leaves",
    )  # fmt: skip
    target.until(lambda it: it.ready_pods() == 2, "two ready pods")
    assert len(waiting) == 2
    counts = target.status()["replicas"]
    assert counts["wanted"] > counts["desired"] == 4
    assert counts["placeable"] == 2
    target.until_rounds(engines)
    assert target.replicas() == 4


def test_a_lowered_maximum_acts_at_once_and_without_metrics(target):
    target.deploy(5).declare()
    target.until_condition("MetricsAvailable", "False")
    assert target.replicas() == 5
    target.declare(scaling={"maxReplicas": 2})
    target.until_replicas(2, within=10)
    target.until_condition("Stalled", "False")
    assert target.status()["decision"]["reason"] in {"TooManyReplicas", "HoldOnUnknown"}


def test_a_deleted_pool_leaves_its_deployment_as_it_is(control_plane, engines, target):
    engines.show(target.namespace, HEAVY)
    target.deploy().declare(scaling=AT_MOST_TWO)
    finalizers = []

    def written(it):
        finalizers.extend(it.pool()["metadata"].get("finalizers", []))
        return it.replicas() == 2 and it.status().get("scalings")

    target.until(written, "a scaling")
    target.until(lambda it: it.deployment()["status"].get("observedGeneration") == 2, "settled")
    control_plane.kubectl("delete", "kvp/llama", "-n", target.namespace, "--timeout=5s")
    with pytest.raises(KubectlError, match="NotFound"):
        target.pool()
    before = target.deployment()
    pod = target.pods()[0]["metadata"]["name"]
    asked = engines.asked(target.namespace, pod)
    other = Target(control_plane, target.namespace, "other").deploy().declare()
    other.until_rounds(engines)
    # whoever is still asked for metrics is still being looked after; one round may have been under way
    assert engines.asked(target.namespace, pod) <= asked + 1
    after = target.deployment()
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert "finalizers" not in after["metadata"]
    assert finalizers == []


def test_recommend_says_what_it_would_do_and_does_nothing(target, engines):
    engines.show(target.namespace, HEAVY)
    target.deploy().declare(mode="Recommend")
    status = target.until(
        lambda it: (s := it.status()).get("replicas", {}).get("desired") == 2 and s, "2 desired"
    )
    assert status["mode"] == "Recommend"
    assert "nothing is written" in status["decision"]["message"]
    target.until_rounds(engines)
    assert target.replicas() == 1
    assert target.status()["scalings"] == []
    managers = {one["manager"] for one in target.deployment()["metadata"]["managedFields"]}
    assert "kvscale" not in managers


def test_pause_hold_and_freeze_keep_the_count_until_they_end(target, engines):
    engines.show(target.namespace, HEAVY)
    target.deploy()
    later = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    target.declare(mode="Paused", scaling=AT_MOST_TWO)

    def decided(reason):
        return lambda it: it.status().get("decision", {}).get("reason") == reason

    target.until(decided("Paused"), "paused")
    target.annotate(f"kvscale.io/hold-until={later}")
    target.declare(scaling=AT_MOST_TWO)
    target.until(decided("OnHold"), "on hold")
    target.annotate("kvscale.io/freeze=ScaleUp", "kvscale.io/hold-until-")
    target.until(decided("Frozen"), "frozen")
    assert target.replicas() == 1
    target.annotate("kvscale.io/freeze-")
    target.until_replicas(2)


def test_the_smallest_example_of_the_repository_works_as_it_stands(
    control_plane, engines, namespace, shared_node
):
    examples = Path(__file__).parents[2] / "examples"
    for name in ("vllm-llama-3.1-8b-l4.yaml", "smallest.yaml"):
        control_plane.apply((examples / name).read_text(), namespace=namespace)
    engines.show(namespace, HEAVY)
    target = Target(control_plane, namespace)
    target.until_condition("Ready", "True")
    known = target.until_condition("CapacityKnown", "True", "Reported")
    assert known["message"].startswith("1,000 usable blocks")
    target.until(lambda it: it.replicas() > 1, "a scaling")


def test_one_replica_is_removed_once_its_removal_is_proven(shrinking, engines):
    """200 blocks on each of 4 engines fit 1; the proof wants 60 s of samples without a gap."""
    shrinking.until_replicas(3, within=90)
    status = shrinking.until(
        lambda it: (s := it.status()).get("scalings") and s, "the scaling in the status"
    )
    assert [(s["before"], s["after"]) for s in status["scalings"]] == [(4, 3)]
    at = datetime.fromisoformat(status["scalings"][0]["time"])
    created = datetime.fromisoformat(shrinking.pool()["metadata"]["creationTimestamp"])
    assert (at - created).total_seconds() >= 60
    shrinking.until(lambda it: it.ready_pods() == 3 and len(it.pods()) == 3, "three pods")
    shrinking.until_rounds(engines)
    assert shrinking.replicas() == 3  # one in ten minutes
    assert shrinking.status()["replicas"]["wanted"] == 1
    shrinking.until_condition("ScalingLimited", "True", "ScaleDownLimit")
