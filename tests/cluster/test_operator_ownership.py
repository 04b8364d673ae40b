"""One writer: whom the operator gives way to on the real API server, and whom it does not."""

import json

import pytest

from support.engine_pages import Load
from support.scaled_target import Target

pytestmark = pytest.mark.usefixtures("operator")

AT_MOST_TWO = {"maxReplicas": 2}
HEAVY = Load(used=1000, running=40)
"""Of one engine: more than one replica's 850 planned blocks."""


def scaler(minimum):
    """An HPA for the Deployment; it has no metrics, so that it only keeps its minimum."""
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    return json.dumps(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "llama-hpa"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama"},
                "minReplicas": minimum,
                "maxReplicas": 9,
                "metrics": [{"type": "Resource", "resource": cpu}],
            },
        }
    )


def managers_of_replicas(target):
    fields = target.deployment()["metadata"]["managedFields"]
    return [one["manager"] for one in fields if "f:replicas" in one["fieldsV1"].get("f:spec", {})]


def test_an_hpa_on_the_target_stalls_the_pool_unless_it_is_the_actuator(
    control_plane, engines, target
):
    engines.show(target.namespace, HEAVY)
    target.deploy()
    control_plane.apply(scaler(1), namespace=target.namespace)
    target.declare()
    stalled = target.until_condition("Stalled", "True", "ConflictingAutoscaler")
    assert stalled["message"].startswith("HorizontalPodAutoscaler/llama-hpa scales the same target")
    assert target.condition("Ready")["status"] == "False"
    target.until_rounds(engines)
    assert target.replicas() == 1
    target.declare(scaling={"actuation": "External"})
    target.until_condition("Stalled", "False")
    status = target.until(
        lambda it: (s := it.status()).get("replicas", {}).get("desired") == 2 and s, "2 desired"
    )
    assert "another autoscaler writes it" in status["decision"]["message"]
    target.until_rounds(engines)
    assert managers_of_replicas(target) == ["kubectl"]
    control_plane.apply(scaler(3), namespace=target.namespace)
    target.until_replicas(3)  # the real HPA controller acts on its own bounds
    target.until(lambda it: it.status()["replicas"]["current"] == 3, "its write in the status")
    target.until_condition("Stalled", "False")
    assert target.status()["scalings"] == []
    # back to Scale, and the HPA gone: the pool goes on from what it finds there
    engines.show(target.namespace, Load(used=500, running=20))
    target.declare()
    target.until_condition("Stalled", "True", "ConflictingAutoscaler")
    control_plane.kubectl("delete", "hpa/llama-hpa", "-n", target.namespace)
    target.until_condition("Ready", "True")
    target.until_condition("Stalled", "False")
    assert target.status()["memory"]["lastWrittenReplicas"] == 3


def test_an_edit_by_a_person_is_adopted(engines, target):
    target.deploy().declare()
    engines.show(target.namespace, Load())  # the others
    engines.show(target.namespace, HEAVY, target.pods()[0]["metadata"]["name"])
    target.until_replicas(2)
    target.until(lambda it: it.status()["memory"]["lastWrittenReplicas"] == 2, "our write")
    target.scale(5)
    memory = target.until(
        lambda it: (m := it.status()["memory"])["lastWrittenReplicas"] == 5 and m, "5 adopted"
    )
    assert "lastWrittenTime" not in memory
    assert len(memory["foreignTimes"]) == 1
    assert memory["foreignManager"] == "kubectl"
    target.until_rounds(engines)
    assert target.replicas() == 5
    assert target.condition("Stalled")["status"] == "False"
    assert target.condition("Ready")["status"] == "True"
    # what somebody else set may be changed by them again: it is not our value
    target.scale(4)
    target.until(lambda it: it.status()["memory"]["lastWrittenReplicas"] == 4, "4 adopted")
    assert target.condition("Stalled")["status"] == "False"


def test_whoever_changes_our_count_twice_is_left_alone_with_it(engines, target):
    engines.show(target.namespace, HEAVY)
    target.deploy().declare(scaling=AT_MOST_TWO)
    target.until_replicas(2)
    target.until(lambda it: it.status().get("scalings"), "our write in the status")
    target.scale(1)
    target.until(lambda it: len(it.status()["scalings"]) == 2, "our second write")
    assert target.replicas() == 2
    target.scale(1)
    stalled = target.until_condition("Stalled", "True", "ConflictingWriter")
    assert stalled["message"].startswith('"kubectl" changed the replica count')
    assert "Recommend" in stalled["message"]  # the mend
    target.until_rounds(engines)
    assert target.replicas() == 1
    assert len(target.status()["scalings"]) == 2
    assert managers_of_replicas(target) == ["kubectl"]


def test_two_pools_on_one_target_both_stall_and_one_goes_on_when_the_other_is_gone(
    control_plane, engines, target
):
    # Idle at first: whoever comes first is alone for a moment, and would scale at once.
    engines.show(target.namespace, Load(used=100, running=5))
    target.deploy()
    one, two = (Target(control_plane, target.namespace, name) for name in ("one", "two"))
    spec = {"targets": [{"ref": {"name": "llama"}}], "scaling": AT_MOST_TWO}
    one.declare(**spec)
    two.declare(**spec)
    for pool, other in ((one, "two"), (two, "one")):
        stalled = pool.until_condition("Stalled", "True", "ConflictingAutoscaler")
        assert stalled["message"].startswith(f"InferencePool/{other} scales the same target")
    engines.show(target.namespace, HEAVY)
    target.until_rounds(engines)
    assert target.replicas() == 1
    control_plane.kubectl("delete", "kvp/two", "-n", target.namespace)
    one.until_condition("Stalled", "False")
    target.until_replicas(2)


def test_a_target_that_a_person_set_to_zero_stays_there(engines, target):
    engines.show(target.namespace, HEAVY)
    target.deploy().declare(scaling=AT_MOST_TWO)
    target.until_replicas(2)
    target.scale(0)
    target.until(lambda it: it.status()["decision"]["reason"] == "ScaledToZero", "left at 0")
    target.until(lambda it: it.pods() == [], "no pods")
    assert target.replicas() == 0
    target.scale(1)
    target.until_replicas(2)  # raised by hand, it is looked after again
