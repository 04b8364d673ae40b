"""Writes: what is sent, and that every outcome is a value."""

from collections.abc import Callable
from typing import Any

import pytest

from adapters.kubernetes.fake_api import Answer, FakeApi, Fault, Request
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.writes import Writer
from kvscale.core.spec import PoolKey
from kvscale.ports import ScaleWrite, WriteOutcome
from kvscale.records import WorkloadRef

SCALE = "/apis/apps/v1/namespaces/prod/deployments/llama/scale"
STATUS = "/apis/kvscale.io/v1alpha1/namespaces/prod/inferencepools/llama/status"
LLAMA = WorkloadRef("Deployment", "prod", "llama")
KEY = PoolKey("prod", "llama")


@pytest.fixture
def writer(client: Client, now: Any) -> Writer:
    return Writer(client, now)


def scale_object(replicas: int, version: int) -> dict[str, Any]:
    metadata = {"uid": "u", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


def scale_endpoint(api: FakeApi, replicas: int, version: int, *, restless: bool = False) -> None:
    """A /scale that refuses any version but its own, which moves at each read if restless."""
    state = {"version": version}

    def read(_: Request) -> Answer:
        current = scale_object(replicas, state["version"])
        state["version"] += restless
        return 200, current

    def write(request: Request) -> Answer:
        if request.body["metadata"]["resourceVersion"] != str(state["version"]):
            return 409, {"reason": "Conflict", "message": "modified"}
        return 200, scale_object(request.body["spec"]["replicas"], state["version"] + 1)

    api.writes["GET", SCALE] = read
    api.writes["PUT", SCALE] = write


def test_scale_is_one_put_with_the_version_decided_upon(api: FakeApi, writer: Writer) -> None:
    scale_endpoint(api, 2, 10)
    result, scaled = writer.scale(ScaleWrite(LLAMA, 5, 2, "10"))
    assert result.outcome is WriteOutcome.APPLIED
    assert scaled is not None
    assert (scaled.uid, scaled.resource_version) == ("u", "11")
    assert len(api.requests) == 1
    assert api.requests[0].query == {"fieldManager": "kvscale"}
    assert api.requests[0].body == {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"namespace": "prod", "name": "llama", "resourceVersion": "10"},
        "spec": {"replicas": 5},
    }


def test_version_that_moved_without_the_count_is_read_and_written_again(
    api: FakeApi, writer: Writer
) -> None:
    scale_endpoint(api, 2, 14)
    result, _ = writer.scale(ScaleWrite(LLAMA, 5, 2, "10"))
    assert result.outcome is WriteOutcome.APPLIED
    assert [request.method for request in api.requests] == ["PUT", "GET", "PUT"]


def test_count_that_moved_is_a_conflict_and_left_alone(api: FakeApi, writer: Writer) -> None:
    scale_endpoint(api, 7, 14)
    result, scaled = writer.scale(ScaleWrite(LLAMA, 5, 2, "10"))
    assert result.outcome is WriteOutcome.CONFLICT
    assert result.message == "replicas is 7, no longer 2"
    assert scaled is None
    assert [request.method for request in api.requests] == ["PUT", "GET"]


def test_count_of_0_is_a_count(api: FakeApi, writer: Writer) -> None:
    scale_endpoint(api, 0, 14)
    result, _ = writer.scale(ScaleWrite(LLAMA, 1, 0, "10"))
    assert result.outcome is WriteOutcome.APPLIED


def test_workload_that_changes_all_the_time_is_a_conflict_after_five_attempts(
    api: FakeApi, writer: Writer
) -> None:
    scale_endpoint(api, 2, 14, restless=True)
    result, _ = writer.scale(ScaleWrite(LLAMA, 5, 2, "10"))
    assert result.outcome is WriteOutcome.CONFLICT
    assert api.count("write") == 5


def scale(writer: Writer) -> Any:
    return writer.scale(ScaleWrite(LLAMA, 5, 2, "10"))[0]


def apply_status(writer: Writer) -> Any:
    return writer.apply_status(KEY, {"observedGeneration": 1})


@pytest.mark.parametrize("write", [scale, apply_status])
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Fault(status=403, reason="Forbidden"), WriteOutcome.FORBIDDEN),
        (Fault(status=404, reason="NotFound"), WriteOutcome.NOT_FOUND),
        (Fault(status=422, reason="Invalid"), WriteOutcome.FAILED),
        (Fault(status=500), WriteOutcome.FAILED),
        (Fault(reset=True), WriteOutcome.FAILED),
        (Fault(body=b"no json"), WriteOutcome.FAILED),
    ],
    ids=["forbidden", "not found", "invalid", "server error", "reset", "no json"],
)
def test_every_failure_is_a_value(
    api: FakeApi,
    writer: Writer,
    write: Callable[[Writer], Any],
    fault: Fault,
    outcome: WriteOutcome,
) -> None:
    api.fail("write", fault)
    result = write(writer)
    assert result.outcome is outcome
    assert result.message


def test_status_is_applied_with_force_under_our_name(api: FakeApi, writer: Writer) -> None:
    api.writes["PATCH", STATUS] = lambda request: (200, request.body)
    assert apply_status(writer).outcome is WriteOutcome.APPLIED
    request = api.last("write")
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.query == {"fieldManager": "kvscale", "force": "true"}
    assert request.body["status"] == {"observedGeneration": 1}
    assert request.body["kind"] == "InferencePool"


def test_server_that_asks_to_wait_is_not_asked_before(
    api: FakeApi, writer: Writer, now: Any
) -> None:
    api.writes["PATCH", STATUS] = lambda request: (200, request.body)
    api.fail("write", Fault(status=429, headers={"Retry-After": "20"}))
    assert apply_status(writer).outcome is WriteOutcome.FAILED
    now.at += 19.0
    waiting = scale(writer)
    assert waiting.outcome is WriteOutcome.FAILED
    assert "asked to wait 1 s more" in waiting.message
    assert api.count("write") == 1
    now.at += 1.0
    assert apply_status(writer).outcome is WriteOutcome.APPLIED


def test_kind_without_a_scale_of_ours_is_refused_with_those_that_have_one(writer: Writer) -> None:
    ref = WorkloadRef("DaemonSet", "prod", "llama")
    result, _ = writer.scale(ScaleWrite(ref, 5, 2, "10"))
    assert result.outcome is WriteOutcome.FAILED
    assert "Deployment and StatefulSet" in result.message


def test_name_that_is_none_is_refused(api: FakeApi, writer: Writer) -> None:
    ref = WorkloadRef("Deployment", "prod", "../x")
    assert writer.scale(ScaleWrite(ref, 5, 2, "10"))[0].outcome is WriteOutcome.FAILED
    assert api.requests == []
