"""What survives a restart: written to the status, read back, whatever became of it there."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscale.api.memory import read_memory, write_memory
from kvscale.core.decide.state import KEPT_SCALINGS, PoolState, ScalingEvent

times = st.integers(0, 2**32).map(float)
counts = st.integers(0, 10_000)
events = st.builds(ScalingEvent, times, counts, counts, st.sampled_from(["", "TooFewReplicas"]))
states = st.builds(
    PoolState,
    uid=st.just("uid"),
    had_data=st.booleans(),
    last_written=st.none() | counts,
    last_written_at=st.none() | times,
    foreign=st.lists(times, max_size=16).map(tuple),
    foreign_manager=st.sampled_from(["", "helm"]),
    scalings=st.lists(events, max_size=KEPT_SCALINGS).map(tuple),
)


def written(state: PoolState) -> dict[str, Any]:
    memory, scalings = write_memory(state)
    return {
        "memory": memory.model_dump(mode="json", by_alias=True, exclude_none=True),
        "scalings": [
            item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in scalings
        ],
    }


@settings(deadline=None)
@given(states)
def test_what_must_survive_does(state: PoolState) -> None:
    stored = json.loads(json.dumps(written(state)))
    assert read_memory(stored, "uid") == state


def test_a_time_within_a_second_is_read_back_later_never_earlier() -> None:
    state = PoolState(last_written=2, last_written_at=100.25, foreign=(7.5,),
                      scalings=(ScalingEvent(100.25, 1, 2),))  # fmt: skip
    read = read_memory(written(state), "uid")
    assert read.last_written_at == 101
    assert read.foreign == (8.0,)
    assert read.scalings[0].at == 101


def test_the_newest_are_kept() -> None:
    state = PoolState(scalings=tuple(ScalingEvent(float(n), n, n + 1) for n in range(100)))
    read = read_memory(written(state), "uid")
    assert read.scalings == state.scalings[-KEPT_SCALINGS:]


def test_a_pool_that_was_never_written_starts_afresh() -> None:
    assert read_memory({}, "uid") == PoolState(uid="uid")


@pytest.mark.parametrize(
    "status",
    [
        {"memory": "x", "scalings": "y"},
        {"memory": {"lastWrittenReplicas": "many"}},
        {"memory": {"lastWrittenTime": "yesterday", "foreignTimes": ["soon"]}},
        {"scalings": [{}, None, {"time": "x", "before": 1, "after": 2}]},
        {"scalings": {"time": 1}},
    ],
)
def test_a_damaged_status_counts_as_never_written(status: dict[str, Any]) -> None:
    assert read_memory(status, "uid") == PoolState(uid="uid")


def test_one_damaged_event_does_not_cost_the_others() -> None:
    good = {"time": "1970-01-01T00:00:09Z", "before": 1, "after": 2}
    assert read_memory({"scalings": [{}, good]}, "uid").scalings == (ScalingEvent(9.0, 1, 2),)
