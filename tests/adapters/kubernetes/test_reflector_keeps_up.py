"""The cache ends up equal to the server, whatever the way there."""

from typing import Any

from adapters.kubernetes.fake_api import FakeApi
from adapters.kubernetes.objects import PODS, pod


def test_first_list_then_changes_arrive(api: FakeApi, start_reflector: Any) -> None:
    api.put(PODS, pod("a"))
    harness = start_reflector()
    harness.shows("a")
    api.put(PODS, pod("b"))
    harness.shows("a", "b")
    api.remove(PODS, "prod/a")
    harness.shows("b")


def test_nothing_is_believed_before_the_first_list_is_complete(
    api: FakeApi, start_reflector: Any
) -> None:
    api.put(PODS, pod("a"))
    api.put(PODS, pod("b"))
    second_page = api.hold("page")
    harness = start_reflector(page=1)
    api.eventually(lambda: api.count("page") == 1)
    problem = harness.cache.problem()
    assert problem is not None
    assert problem.reason == "NotListed"
    assert harness.cache.records() == ()
    second_page.set()
    harness.shows("a", "b")


def test_list_is_read_in_pages_and_watched_from_its_own_version(
    api: FakeApi, start_reflector: Any
) -> None:
    for number in range(5):
        api.put(PODS, pod(f"p{number}"))
    harness = start_reflector(page=2)
    harness.shows("p0", "p1", "p2", "p3", "p4")
    api.eventually(lambda: api.count("watch"))
    first = api.last("list")
    assert first.query == {"limit": "2"}  # no resourceVersion: the newest, never a stale cache
    assert api.count("page") == 2
    watch = api.last("watch").query
    assert watch["resourceVersion"] == str(api.version)
    assert watch["allowWatchBookmarks"] == "true"


def test_watch_that_ended_cleanly_goes_on_from_the_last_event(
    api: FakeApi, start_reflector: Any
) -> None:
    harness = start_reflector()
    harness.shows()
    stored = api.put(PODS, pod("a"))
    harness.shows("a")
    api.end_watches()
    api.eventually(lambda: api.count("watch") >= 2)
    assert api.last("watch").query["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert api.count("list") == 1
    api.put(PODS, pod("b"))
    harness.shows("a", "b")


def test_bookmark_moves_the_version_that_the_next_watch_starts_from(
    api: FakeApi, start_reflector: Any
) -> None:
    harness = start_reflector()
    harness.shows()
    api.eventually(lambda: api.count("watch"))
    api.bookmark(PODS)
    api.end_watches()
    api.eventually(lambda: api.count("watch") >= 2)
    assert api.last("watch").query["resourceVersion"] == str(api.version)


def test_object_that_vanished_between_two_lists_is_not_kept(
    api: FakeApi, start_reflector: Any
) -> None:
    api.put(PODS, pod("stays"))
    api.put(PODS, pod("vanishes"))
    harness = start_reflector()
    harness.shows("stays", "vanishes")
    api.remove(PODS, "prod/vanishes", announce=False)
    api.compact()
    api.end_watches()
    harness.shows("stays")
    assert api.count("list") == 2


def test_duplicate_events_change_nothing(api: FakeApi, start_reflector: Any) -> None:
    stored = api.put(PODS, pod("a"))
    harness = start_reflector()
    harness.shows("a")
    changes = harness.changes.copy()
    api.send(PODS, {"type": "ADDED", "object": stored}, {"type": "MODIFIED", "object": stored})
    api.bookmark(PODS)
    api.end_watches()
    api.eventually(lambda: api.last("watch").query["resourceVersion"] == str(api.version))
    assert harness.names() == {"a"}
    assert harness.changes == changes


def test_older_event_that_comes_late_does_not_undo_a_newer_one(
    api: FakeApi, start_reflector: Any
) -> None:
    old = api.put(PODS, pod("a"))
    api.put(PODS, pod("a", nodeName="gpu-1"))
    harness = start_reflector()
    harness.shows("a")
    api.send(PODS, {"type": "MODIFIED", "object": old})
    api.put(PODS, pod("b"))
    harness.shows("a", "b")
    assert {record.node for record in harness.cache.records()} == {"gpu-1", ""}


def test_event_after_its_objects_deletion_raises_no_phantom(
    api: FakeApi, start_reflector: Any
) -> None:
    stored = api.put(PODS, pod("a"))
    harness = start_reflector()
    harness.shows("a")
    api.remove(PODS, "prod/a")
    late = stored | {"metadata": stored["metadata"] | {"resourceVersion": "999999"}}
    api.send(PODS, {"type": "MODIFIED", "object": late})
    api.put(PODS, pod("b"))
    harness.shows("b")


def test_object_created_again_under_its_name_is_another_one(
    api: FakeApi, start_reflector: Any
) -> None:
    api.put(PODS, pod("a", uid="first"))
    harness = start_reflector()
    harness.shows("a")
    api.remove(PODS, "prod/a")
    api.put(PODS, pod("a", uid="second"))
    api.eventually(lambda: [r.uid for r in harness.cache.records()] == ["second"])


def test_object_that_cannot_be_read_is_left_out_and_the_rest_lives(
    api: FakeApi, start_reflector: Any, caplog: Any
) -> None:
    api.put(PODS, pod("bad", overhead={"cpu": "lots"}))
    api.put(PODS, pod("good"))
    harness = start_reflector()
    harness.shows("good")
    assert "prod/bad is left out: cpu: 'lots'" in caplog.text
    api.put(PODS, pod("bad", overhead={"cpu": "1"}))
    harness.shows("bad", "good")
    api.put(PODS, pod("bad", overhead={"cpu": "lots"}))
    harness.shows("good")


def test_event_of_an_unknown_type_is_passed_over(
    api: FakeApi, start_reflector: Any, caplog: Any
) -> None:
    harness = start_reflector()
    harness.shows()
    api.send(PODS, {"type": "PUZZLED", "object": {}}, {"type": "ADDED", "object": "text"})
    api.put(PODS, pod("a"))
    harness.shows("a")
    assert "unknown type 'PUZZLED'" in caplog.text
