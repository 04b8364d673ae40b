"""What is wrong with one pool stays with it, and what is wrong with the server passes."""

import json

import pytest

from support.engine_pages import Load
from support.operator_rig import Account, Operator, kvscale
from support.scaled_target import Target

MALFORMED = (
    b'# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine="0",model_name="'
)
AT_MOST_TWO = {"maxReplicas": 2}
HEAVY = Load(used=1000, running=40)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return tmp_path_factory.mktemp("record")


@pytest.fixture(scope="module", autouse=True)
def operator(control_plane, engines, shared_node, tmp_path_factory, record):
    """The operator of this module also records its rounds."""
    folder = tmp_path_factory.mktemp("operator")
    template = f"--scrape-url-template={engines.template}"
    with (
        Account(control_plane) as account,
        Operator(account, folder, template, f"--record={record}") as running,
    ):
        yield running


def test_a_malformed_page_costs_its_own_pod_alone(control_plane, engines, target):
    target.deploy(3).declare()
    broken, *healthy = sorted(pod["metadata"]["name"] for pod in target.pods())
    for pod in healthy:
        engines.show(target.namespace, HEAVY, pod)
    engines.show(target.namespace, MALFORMED, broken)
    available = target.until_condition("MetricsAvailable", "True", "NoSamples")
    assert available["message"] == f"no fresh sample of 1 pods: {broken}"
    assert target.status()["demand"]["missingPods"] == [broken]
    assert target.status()["decision"]["bindingBound"] == "KV"
    assert target.replicas() == 3  # 2,000 blocks need 2.4
    engines.show(target.namespace, Load(used=1000, running=40, waiting=60), healthy[0])
    target.until_replicas(5)  # with 1,500 blocks that wait: missing data block no addition
    alone = Target(control_plane, target.namespace, "alone").deploy().declare()
    only = alone.pods()[0]["metadata"]["name"]
    engines.show(target.namespace, MALFORMED, only)
    gone = alone.until_condition("MetricsAvailable", "False", "MalformedMetrics")
    assert gone["message"].startswith("line 2 of the answer")
    assert alone.condition("Ready")["status"] == "True"
    target.until_rounds(engines)


def test_a_config_map_that_is_no_json_is_told_with_its_mend(control_plane, target):
    def store(text):
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "model"}}
        control_plane.apply(
            json.dumps(document | {"data": {"config.json": text}}), namespace=target.namespace
        )

    store("{not json")
    target.deploy().declare(model={"configMapRef": {"name": "model"}})
    unknown = target.until_condition("CapacityKnown", "False", "ConfigMapInvalid")
    assert "key 'config.json' of ConfigMap 'model' is no JSON" in unknown["message"]
    assert target.until_condition("Ready", "False")["reason"] == "ConfigMapInvalid"
    target.declare(model={"configMapRef": {"name": "model", "configKey": "other.json"}})
    target.until(
        lambda it: (
            "has no key 'other.json' (it has config.json)"
            in it.condition("CapacityKnown")["message"]
        ),
        "the missing key",
    )
    target.declare(model={"configMapRef": {"name": "nothing"}})
    target.until_condition("CapacityKnown", "False", "ConfigMapNotFound")


def test_a_target_that_comes_later_is_found(target):
    target.declare()
    missing = target.until_condition("TargetResolved", "False", "TargetNotFound")
    assert missing["message"] == (
        "spec.targets[0].ref: Deployment/llama does not exist in namespace "
        f"{target.namespace}: create it or correct the name"
    )
    assert target.condition("Ready")["status"] == "False"
    target.deploy(ready=False)
    target.until_condition("TargetResolved", "True")
    target.until_condition("Ready", "True")


def test_an_api_server_that_goes_and_comes_back(control_plane, engines, operator, target):
    engines.show(target.namespace, Load(used=400, running=20))
    target.deploy().declare(scaling=AT_MOST_TWO)
    target.until_condition("MetricsAvailable", "True")
    pod = target.pods()[0]["metadata"]["name"]
    process = operator.child.pid
    # kopf tells each attempt of its own watch as an error; and a server that has just started
    # answers 403 until it has read the roles
    operator.excused += ["Request attempt #", target.namespace]
    control_plane.stop("kube-apiserver")
    try:
        engines.show(target.namespace, HEAVY)
        seen = engines.asked(target.namespace, pod)
        # the lease was renewed a moment ago, so the rounds go on for a while; a write cannot
        target.until(lambda _: engines.asked(target.namespace, pod) > seen + 1, "rounds go on")
        assert operator.child.pid == process
    finally:
        control_plane.start("kube-apiserver")
    target.until_replicas(2, within=60)
    target.until_condition("Ready", "True")
    target.until(lambda _: operator.round_done(), "a healthy loop")
    assert operator.child.pid == process
    target.annotate("kvscale.io/freeze=ScaleUp")
    target.until(lambda it: it.status().get("freeze") == "ScaleUp", "its watches go on", within=60)


def test_what_was_recorded_decides_the_same_again(operator, record, target, engines):
    engines.show(target.namespace, HEAVY)
    before = set(record.glob("*.json"))
    target.deploy().declare(scaling=AT_MOST_TWO)
    target.until_replicas(2)
    target.until(lambda it: it.status().get("scalings"), "our write in the status")
    written = [
        file
        for file in set(record.glob("*.json")) - before
        if any(
            one["key"] == {"namespace": target.namespace, "name": "llama"} and one["write"] == 2
            for one in json.loads(file.read_bytes())["decisions"]
        )
    ]
    assert len(written) == 1
    for file in (max(before), *written):
        kvscale("decide", str(file), "--check")
