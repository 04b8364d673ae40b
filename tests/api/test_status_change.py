"""Rule 9: at once on a change of decision or condition, otherwise at most once a minute."""

import copy
from typing import Any

import pytest

from kvscale.api.status_change import REFRESH_SECONDS, RUNNING_SECONDS, same_decision, write_due
from kvscale.api.times import format_time

START = 1_795_975_200.0
STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "updatedTime": format_time(START),
    "mode": "Auto",
    "replicas": {"current": 2, "desired": 2, "ready": 2, "wanted": 2},
    "ceiling": {"devices": 1},
    "demand": {"usedBlocks": 3500, "sampledTime": format_time(START)},
    "decision": {"id": "a", "desired": 2, "reason": "AsNeeded", "message": "m", "trace": [1]},
    "effective": {"maxReplicas": 12},
    "scalings": [],
    "memory": {"lastWrittenReplicas": 2},
    "conditions": [{"type": "Ready", "status": "True", "reason": "Decided", "message": "m"}],
}


def later(seconds: float, **changes: Any) -> dict[str, Any]:
    """The status some seconds later; `a__b` is a path."""
    status = copy.deepcopy(STATUS)
    status["updatedTime"] = format_time(START + seconds)
    for path, value in changes.items():
        *parents, leaf = path.split("__")
        node: Any = status
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node[part]
        node[leaf] = value
    return status


@pytest.mark.parametrize(
    "change",
    [
        {"decision__id": "b"},
        {"decision__reason": "ScaleUpLimit"},
        {"decision__bindingBound": "KV"},
        {"replicas__desired": 3},
        {"replicas__current": 3},
        {"conditions__0__status": "False"},
        {"conditions__0__reason": "WriteFailed"},
        {"conditions": []},
        {"observedGeneration": 2},
        {"mode": "Paused"},
        {"freeze": "ScaleUp"},
        {"holdUntil": format_time(START + 60)},
        {"effective__maxReplicas": 13},
        {"memory__lastWrittenReplicas": 3},
        {"scalings": [{"time": format_time(START)}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_decision_or_condition_is_written_at_once(change: dict[str, Any]) -> None:
    assert not same_decision(STATUS, later(0, **change))
    assert write_due(STATUS, later(0, **change))


@pytest.mark.parametrize(
    "change",
    [
        {"demand__usedBlocks": 3600},
        {"replicas__ready": 1},
        {"replicas__wanted": 3},
        {"ceiling": {}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_number_that_moved_is_written_at_most_once_a_minute(change: dict[str, Any]) -> None:
    assert same_decision(STATUS, later(0, **change))
    assert not write_due(STATUS, later(RUNNING_SECONDS - 1, **change))
    assert write_due(STATUS, later(RUNNING_SECONDS, **change))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"demand__sampledTime": format_time(START + 99)},
        {"decision__message": "other"},
        {"decision__trace": [2]},
        {"conditions__0__message": "other"},
    ],
    ids=lambda change: next(iter(change), "nothing"),
)
def test_what_no_reader_would_call_a_change_waits_for_the_refresh(change: dict[str, Any]) -> None:
    assert not write_due(STATUS, later(REFRESH_SECONDS - 1, **change))
    assert write_due(STATUS, later(REFRESH_SECONDS, **change))


def test_the_first_status_is_written() -> None:
    assert write_due({}, STATUS)


@pytest.mark.parametrize("broken", ["yesterday", None, 7])
def test_a_stored_time_that_cannot_be_read_is_replaced(broken: Any) -> None:
    assert write_due({**STATUS, "updatedTime": broken}, later(1))


def test_an_absent_list_equals_an_empty_one() -> None:
    pruned = {name: value for name, value in STATUS.items() if name != "scalings"}
    assert same_decision(pruned, STATUS)
