"""Placement: a count that somebody else wrote does not hold up the round."""

from kvscale.core.decide.placement import MOST_LOOKED_AT, Wish, place
from kvscale.core.inventory import NodeState, PodNeeds
from kvscale.core.spec import PoolKey
from kvscale.core.values import Unknown

KEY = PoolKey("ns", "llama")
MOST_OF_KUBERNETES = 2**31 - 1


def wish(wanted: int, **requests: int) -> Wish:
    return Wish(KEY, PodNeeds(requests=requests), placed=3, created=3, wanted=wanted)


def test_a_workload_of_two_thousand_million_replicas_is_placed_at_once() -> None:
    unknown = Unknown("NoNodeAccess")
    assert place([wish(MOST_OF_KUBERNETES)], unknown, unknown)[KEY].placeable is None


def test_pods_that_ask_for_nothing_have_room_without_counting_them_all() -> None:
    node = NodeState("a", {}, {"cpu": 8}, {})
    found = place([wish(MOST_OF_KUBERNETES)], (node,), Unknown("No"))[KEY]
    assert found.placeable == MOST_OF_KUBERNETES
    assert found.limit == ""


def test_what_may_be_asked_for_is_looked_at_one_by_one() -> None:
    node = NodeState("a", {}, {"gpu": 50}, {})
    found = place([wish(MOST_LOOKED_AT, gpu=1)], (node,), Unknown("No"))[KEY]
    assert found.placeable == 53
    assert found.limit != ""
