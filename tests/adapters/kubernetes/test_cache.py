"""What a cache does with our own writes, and how it says that it must not be believed."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.objects import deployment, pod
from kvscale.adapters.kubernetes.cache import Cache
from kvscale.adapters.kubernetes.resources import DEPLOYMENTS, PODS, Resource
from kvscale.records import WorkloadRecord


def versioned(raw: dict[str, Any], version: int) -> dict[str, Any]:
    return raw | {"metadata": raw["metadata"] | {"resourceVersion": str(version)}}


def cache_of(resource: Resource[Any], *raws: dict[str, Any]) -> Cache[Any]:
    cache: Cache[Any] = Cache(resource, "", lambda: 0.0, stale_after=120.0)
    relist(cache, *raws)
    return cache


def relist(cache: Cache[Any], *raws: dict[str, Any]) -> None:
    entries: dict[str, tuple[int, Any]] = {}
    cache.contact()
    cache.project_into(entries, raws)
    cache.replace(entries)


def to_five(record: WorkloadRecord) -> WorkloadRecord:
    return replace(record, replicas=5)


def replicas(cache: Cache[Any]) -> int:
    return int(cache.records()[0].replicas)


def test_own_write_is_shown_and_events_from_before_it_do_not_undo_it() -> None:
    cache = cache_of(DEPLOYMENTS, versioned(deployment(replicas=2), 10))
    cache.amend("uid-llama", 14, to_five)
    assert replicas(cache) == 5
    assert not cache.upsert(versioned(deployment(replicas=2), 12))
    assert replicas(cache) == 5
    cache.upsert(versioned(deployment(replicas=5), 14))
    cache.upsert(versioned(deployment(replicas=7), 15))
    assert replicas(cache) == 7


def test_own_write_survives_a_list_from_before_it_but_not_the_next() -> None:
    cache = cache_of(DEPLOYMENTS, versioned(deployment(replicas=2), 10))
    cache.amend("uid-llama", 14, to_five)
    relist(cache, versioned(deployment(replicas=2), 12))
    assert replicas(cache) == 5
    relist(cache, versioned(deployment(replicas=2), 12))
    assert replicas(cache) == 2


def test_own_write_of_what_is_gone_or_newer_shows_nothing() -> None:
    cache = cache_of(DEPLOYMENTS, versioned(deployment(replicas=2), 20))
    cache.amend("uid-other", 30, to_five)
    cache.amend("uid-llama", 19, to_five)
    assert replicas(cache) == 2


def test_versions_that_are_no_numbers_are_all_new() -> None:
    cache = cache_of(DEPLOYMENTS)
    for version, count in (("b", 2), ("a", 3)):
        raw = deployment(replicas=count)
        raw["metadata"]["resourceVersion"] = version
        cache.upsert(raw)
    assert replicas(cache) == 3


def test_change_is_told_only_when_the_record_changes() -> None:
    cache = cache_of(PODS)
    assert cache.upsert(versioned(pod("a"), 1))
    noise = versioned(pod("a"), 2)
    noise["metadata"]["annotations"] = {"heartbeat": "1"}
    assert not cache.upsert(noise)
    assert cache.upsert(versioned(pod("a", nodeName="gpu-1"), 3))
    assert cache.delete(versioned(pod("a"), 4))
    assert not cache.delete(versioned(pod("a"), 4))


@given(data=st.data())
def test_events_in_any_order_and_number_leave_the_newest_and_nothing_deleted(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 12))
    events = [
        (version, data.draw(st.sampled_from("abc")), data.draw(st.booleans()))
        for version in range(1, count + 1)
    ]
    dead = {uid for _, uid, deleted in events if deleted}
    cache = cache_of(PODS)
    for version, uid, deleted in data.draw(st.permutations(events + events[:3])):
        raw = versioned(pod(uid, uid, nodeName=f"n{version}"), version)
        if deleted:
            cache.delete(raw)
        else:
            cache.upsert(raw)
    newest = {uid: f"n{version}" for version, uid, deleted in events if not deleted}
    expected = {uid: node for uid, node in newest.items() if uid not in dead}
    assert {record.uid: record.node for record in cache.records()} == expected
