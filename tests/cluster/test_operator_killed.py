"""The operator killed at each of its writes: the next one goes on, and takes no step twice.

The proxy between operator and API server holds a call at the moment in question, so that the kill
falls exactly there. Each kill is told with what the server had then: the count, and the status.
"""

import time

import pytest

from support.api_proxy import ApiProxy, Moment
from support.engine_pages import Load
from support.operator_rig import Account, Operator
from support.scaled_target import Target

LEASE_SECONDS = 30
IDLE = Load(used=400, running=20)
BUSY = Load(used=1000, running=40, waiting=200)
"""7 replicas are wanted of it, and the pace below allows one step of two."""

ONE_STEP = {
    "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 1800}]}}
}


@pytest.fixture(scope="module")
def proxy(control_plane):
    with ApiProxy(control_plane.url, control_plane.directory / "pki" / "ca.crt") as running:
        yield running


@pytest.fixture(scope="module")
def operator(control_plane, engines, shared_node, tmp_path_factory, proxy):
    """A cluster-wide operator behind the proxy; by the end no call of it was forbidden."""
    folder = tmp_path_factory.mktemp("operator")
    with Account(control_plane) as account:
        arguments = (
            f"--scrape-url-template={engines.template}",
            f"--kubeconfig={proxy.kubeconfig(account.kubeconfig)}",
        )
        with Operator(account, folder, *arguments) as running:
            yield running
        in_what_ends = "/namespaces/test-"  # an event in a namespace that is being deleted
        refused = [
            call
            for call in proxy.calls
            if call.status in {401, 403}
            and not (call.path.startswith("/apis/events.k8s.io") and in_what_ends in call.path)
        ]
        assert refused == []


@pytest.fixture
def pair(control_plane, engines, operator, namespace):
    """Two pools with one replica each, in a steady state that their status tells."""
    engines.show(namespace, IDLE)
    found = [Target(control_plane, namespace, name).deploy() for name in ("one", "two")]
    for each in found:
        each.declare(scaling=ONE_STEP)
    for each in found:
        each.until_condition("MetricsAvailable", "True")
    return found


def release_lease(control_plane, operator):
    """Let the next operator start at once: who was killed gives nothing up."""
    control_plane.kubectl("delete", "lease/kvscale", "-n", operator.account.namespace)


def assert_one_step(target, proxy):
    """Exactly one step of two was made, the pace knows of it, and nobody is blamed."""
    target.until_replicas(3)
    limited = target.until_condition("ScalingLimited", "True", "ScaleUpLimit")
    assert "allows 3 now" in limited["message"]
    status = target.until(
        lambda it: (s := it.status()).get("memory", {}).get("lastWrittenReplicas") == 3 and s,
        "the step in the status",
    )
    assert proxy.count("PUT", target.scale_path) == 1
    assert [(s["before"], s["after"]) for s in status["scalings"]] == [(1, 3)]
    assert target.condition("Stalled")["status"] == "False"
    assert status["memory"]["foreignTimes"] == []


def test_killed_at_the_write_of_the_count(control_plane, engines, operator, proxy, pair):
    unseen, unanswered = pair
    before = proxy.hold("PUT", unseen.scale_path, Moment.BEFORE)
    after = proxy.hold("PUT", unanswered.scale_path, Moment.AFTER)
    engines.show(unseen.namespace, BUSY)
    assert before.reached.wait(20)
    assert after.reached.wait(20)
    operator.kill()
    killed = time.monotonic()
    assert (unseen.replicas(), unanswered.replicas()) == (1, 3)
    assert unanswered.status()["scalings"] == []
    # nobody gave the lease up: the next operator waits until its holder must be dead
    operator.child.start()
    unseen.until_replicas(3, within=90)
    assert time.monotonic() - killed >= LEASE_SECONDS - 5  # renewed at most so long before
    for each in pair:
        assert_one_step(each, proxy)
        each.until_rounds(engines)
        assert each.replicas() == 3


def test_killed_at_the_write_of_the_status(control_plane, engines, operator, proxy, pair):
    unwritten, unanswered = pair
    before = proxy.hold("PATCH", unwritten.status_path, Moment.BEFORE)
    after = proxy.hold("PATCH", unanswered.status_path, Moment.AFTER)
    engines.show(unwritten.namespace, BUSY)
    assert before.reached.wait(20)
    assert after.reached.wait(20)
    operator.kill()
    assert [each.replicas() for each in pair] == [3, 3]
    assert unwritten.status()["scalings"] == []
    assert unanswered.status()["scalings"][0]["after"] == 3
    release_lease(control_plane, operator)
    operator.start()
    for each in pair:
        assert_one_step(each, proxy)
        each.until_rounds(engines)
        assert each.replicas() == 3


def test_a_second_operator_stands_by_and_takes_over_what_is_given_up(
    engines, operator, proxy, pair, tmp_path
):
    one, _ = pair
    second = operator.beside(tmp_path)
    second.child.start()
    try:
        standing_by = lambda _: "is held by" in second.probe().get("problem", "")  # noqa: E731
        one.until(standing_by, "the second operator stands by")
        engines.show(one.namespace, BUSY)
        one.until_replicas(3)
        one.until(lambda it: it.status()["scalings"], "the step in the status")
        assert standing_by(one)
        operator.child.stop(graceful=True)  # gives the lease up
        one.until(lambda _: second.round_done(), "the second operator at work", within=10)
        assert_one_step(one, proxy)
    finally:
        second.child.stop(graceful=True)
    assert second.complaints() == []
    operator.start()
