"""What the reflector does about each thing that a server or a network does wrong."""

from typing import Any

import pytest

from adapters.kubernetes.fake_api import FakeApi, Fault
from adapters.kubernetes.objects import PODS, SCALED_OBJECTS, pod
from kvscale.adapters.kubernetes import resources

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}


def test_version_that_expired_while_watching_means_a_new_list_at_once(
    api: FakeApi, start_reflector: Any
) -> None:
    harness = start_reflector()
    harness.shows()
    api.put(PODS, pod("a"), announce=False)
    api.send(PODS, GONE)
    harness.shows("a")
    assert api.count("list") == 2
    assert harness.waits == [0.0]


def test_watch_refused_as_gone_means_a_new_list(api: FakeApi, start_reflector: Any) -> None:
    api.fail("watch", Fault(status=410, reason="Expired"))
    harness = start_reflector()
    api.eventually(lambda: api.count("list") == 2)
    api.put(PODS, pod("a"))
    harness.shows("a")


def test_server_whose_versions_are_always_gone_is_not_asked_in_a_tight_loop(
    api: FakeApi, start_reflector: Any
) -> None:
    api.fail("watch", *[Fault(status=410, reason="Expired")] * 6)
    harness = start_reflector()
    api.eventually(lambda: len(harness.waits) == 6)
    assert harness.waits[0] == 0.0
    assert all(wait >= 1.0 for wait in harness.waits[1:])
    assert harness.waits[5] > harness.waits[1]


def test_other_error_event_means_a_new_list_after_a_wait(
    api: FakeApi, start_reflector: Any
) -> None:
    harness = start_reflector()
    harness.shows()
    api.put(PODS, pod("a"), announce=False)
    api.send(PODS, {"type": "ERROR", "object": {"code": 500, "message": "etcd"}})
    harness.shows("a")
    assert api.count("list") == 2
    assert harness.waits[0] >= 1.0


def test_page_that_expired_means_the_whole_list_in_one(api: FakeApi, start_reflector: Any) -> None:
    for number in range(5):
        api.put(PODS, pod(f"p{number}"))
    api.fail("page", Fault(status=410, reason="Expired"))
    harness = start_reflector(page=2)
    harness.shows("p0", "p1", "p2", "p3", "p4")
    assert api.last("list").query == {}
    assert harness.waits == []


@pytest.mark.parametrize("kind", ["list", "watch"])
def test_too_many_requests_waits_as_long_as_the_server_says(
    api: FakeApi, start_reflector: Any, kind: str
) -> None:
    api.fail(kind, Fault(status=429, headers={"Retry-After": "17"}))
    harness = start_reflector()
    api.eventually(lambda: api.count(kind) == 2)
    assert harness.waits == [17.0]
    assert api.count("list") == (2 if kind == "list" else 1)


def test_retry_after_is_bounded(api: FakeApi, start_reflector: Any) -> None:
    api.fail("list", Fault(status=429, headers={"Retry-After": "999999"}))
    harness = start_reflector()
    harness.shows()
    assert harness.waits == [300.0]


def test_waits_double_up_to_their_bound_and_begin_anew_after_an_event(
    api: FakeApi, start_reflector: Any
) -> None:
    api.fail("list", *[Fault(status=500)] * 9)
    harness = start_reflector()
    harness.shows()
    bounds = [(1, 2), (2, 4), (4, 8), (8, 16), (15, 30), (15, 30), (15, 30), (15, 30), (15, 30)]
    assert all(low <= wait <= high for wait, (low, high) in zip(harness.waits, bounds, strict=True))
    api.put(PODS, pod("a"))
    harness.shows("a")
    api.watched()
    api.fail("watch", Fault(status=503))
    api.end_watches()
    api.eventually(lambda: len(harness.waits) == 10)
    assert 1.0 <= harness.waits[9] <= 2.0


def test_reset_watch_goes_on_from_the_last_event_without_a_list(
    api: FakeApi, start_reflector: Any
) -> None:
    harness = start_reflector()
    harness.shows()
    stored = api.put(PODS, pod("a"))
    harness.shows("a")
    api.end_watches(reset=True)
    api.eventually(lambda: api.count("watch") >= 2)
    assert api.last("watch").query["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert api.count("list") == 1
    api.put(PODS, pod("b"))
    harness.shows("a", "b")


def test_reset_list_is_asked_for_again(api: FakeApi, start_reflector: Any) -> None:
    api.put(PODS, pod("a"))
    api.fail("list", Fault(reset=True))
    harness = start_reflector()
    harness.shows("a")


def test_event_cut_off_in_the_middle_is_not_applied_but_asked_for_again(
    api: FakeApi, start_reflector: Any
) -> None:
    stored = api.put(PODS, pod("a"))
    api.fail("watch", Fault(torn={"type": "ADDED", "object": pod("b")}))
    harness = start_reflector()
    api.eventually(lambda: api.count("watch") >= 2)
    assert harness.names() == {"a"}
    assert api.last("watch").query["resourceVersion"] == stored["metadata"]["resourceVersion"]
    api.put(PODS, pod("b"))
    harness.shows("a", "b")


def test_watch_that_falls_silent_is_left_and_opened_again(
    api: FakeApi, start_reflector: Any
) -> None:
    api.fail("watch", Fault(stall=True))
    harness = start_reflector(watch_silence=0.2)
    api.eventually(lambda: api.count("watch") >= 2)
    api.put(PODS, pod("a"))
    harness.shows("a")
    assert api.count("list") == 1


def test_server_that_ends_watches_at_once_is_not_asked_in_a_tight_loop(
    api: FakeApi, start_reflector: Any
) -> None:
    api.fail("watch", *[Fault()] * 4)
    harness = start_reflector()
    api.eventually(lambda: api.count("watch") >= 5)
    assert len(harness.waits) >= 4
    assert all(wait >= 1.0 for wait in harness.waits)


def test_answer_that_is_no_json_is_a_failure_like_any_other(
    api: FakeApi, start_reflector: Any
) -> None:
    api.put(PODS, pod("a"))
    api.fail("list", Fault(body=b"<html>a proxy</html>"), Fault(body=b"[]"))
    harness = start_reflector()
    harness.shows("a")
    assert len(harness.waits) == 2


def test_refusal_is_forbidden_and_asked_again_ever_more_slowly(
    api: FakeApi, start_reflector: Any
) -> None:
    api.put(PODS, pod("a"))
    api.fail("list", *[Fault(status=403, reason="Forbidden")] * 8)
    harness = start_reflector()
    api.eventually(lambda: len(harness.waits) == 8)
    assert 30.0 <= harness.waits[7] <= 60.0
    harness.shows("a")


def test_refusal_says_what_to_grant(api: FakeApi, start_reflector: Any) -> None:
    api.fail("list", *[Fault(status=403, reason="Forbidden")] * 1000)
    harness = start_reflector()
    api.eventually(lambda: harness.waits)
    problem = harness.cache.problem()
    assert problem is not None
    assert problem.reason == "Forbidden"
    assert problem.message.startswith("pods: grant get, list and watch")


def test_refusal_after_success_keeps_the_cache_until_it_is_stale(
    api: FakeApi, start_reflector: Any, now: Any
) -> None:
    api.put(PODS, pod("a"))
    harness = start_reflector()
    harness.shows("a")
    api.watched()
    api.fail("list", *[Fault(status=403, reason="Forbidden")] * 1000)
    api.fail("watch", *[Fault(status=403, reason="Forbidden")] * 1000)
    api.end_watches()
    api.eventually(lambda: len(harness.waits) >= 2)
    assert harness.cache.problem() is None
    assert harness.names() == {"a"}
    now.at += 121.0
    problem = harness.cache.problem()
    assert problem is not None
    assert problem.reason == "Forbidden"


def test_absent_crd_is_an_empty_list_looked_at_again_every_minute(
    api: FakeApi, start_reflector: Any
) -> None:
    api.absent.add(SCALED_OBJECTS)
    harness = start_reflector(resources.SCALED_OBJECTS)
    api.eventually(lambda: harness.waits)
    assert harness.cache.problem() is None
    assert harness.cache.records() == ()
    assert harness.waits[0] == 60.0
    api.absent.clear()
    raw = {"metadata": pod("keda")["metadata"], "spec": {"scaleTargetRef": {"name": "llama"}}}
    api.put(SCALED_OBJECTS, raw)
    api.eventually(lambda: len(harness.cache.records()) == 1)


def test_absence_of_a_built_in_resource_is_a_failure_not_an_empty_list(
    api: FakeApi, start_reflector: Any
) -> None:
    api.put(PODS, pod("a"))
    harness = start_reflector()
    harness.shows("a")
    api.watched()
    api.fail("watch", Fault(status=404))
    api.fail("list", Fault(status=404))
    api.end_watches()
    api.eventually(lambda: len(harness.waits) >= 2)
    assert harness.names() == {"a"}


def test_crd_that_is_removed_takes_its_records_along(api: FakeApi, start_reflector: Any) -> None:
    raw = {"metadata": pod("keda")["metadata"], "spec": {"scaleTargetRef": {"name": "llama"}}}
    api.put(SCALED_OBJECTS, raw)
    harness = start_reflector(resources.SCALED_OBJECTS)
    api.eventually(lambda: len(harness.cache.records()) == 1)
    api.watched()
    api.absent.add(SCALED_OBJECTS)
    api.fail("watch", Fault(status=404))
    api.end_watches()
    api.eventually(lambda: harness.cache.records() == ())


def test_silence_beyond_what_is_tolerated_makes_the_cache_stale(
    api: FakeApi, start_reflector: Any, now: Any
) -> None:
    api.put(PODS, pod("a"))
    harness = start_reflector()
    harness.shows("a")
    api.watched()
    now.at += 130.0
    problem = harness.cache.problem()
    assert problem is not None
    assert problem.reason == "Stale"
    assert "pods: no word from the API server for 130 s" in problem.message
    api.bookmark(PODS)
    api.eventually(lambda: harness.cache.age() == 0.0)
    assert harness.cache.problem() is None


def test_unforeseen_error_does_not_end_the_thread(
    api: FakeApi, start_reflector: Any, caplog: Any
) -> None:
    answer = b'{"metadata": {"resourceVersion": "1"}, "items": 7}'
    api.put(PODS, pod("a"))
    api.fail("list", Fault(body=answer))
    harness = start_reflector()
    harness.shows("a")
    assert "pods: listing again" in caplog.text


@pytest.mark.parametrize("fault", [None, Fault(stall=True)], ids=["quiet watch", "dead watch"])
def test_stop_ends_a_reflector_that_waits_for_events(
    api: FakeApi, start_reflector: Any, fault: Fault | None
) -> None:
    if fault is not None:
        api.fail("watch", fault)
    harness = start_reflector(watch_silence=60.0)
    harness.shows()
    api.eventually(lambda: api.count("watch"))
    harness.reflector.stop()
    assert harness.reflector.join(5.0)


def test_list_that_was_stopped_half_way_is_not_taken_for_complete(
    api: FakeApi, start_reflector: Any
) -> None:
    for name in ("a", "b", "c"):
        api.put(PODS, pod(name))
    seen = api.hold("page")
    harness = start_reflector(page=1)
    api.eventually(lambda: api.count("page") == 1)
    harness.reflector.stop()
    seen.set()
    assert harness.reflector.join(5.0)
    assert harness.cache.records() == ()
    assert harness.cache.problem() is not None
