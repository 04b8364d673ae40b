"""Conditions: complete, and stable while their status is."""

from typing import Any

import pytest

from kvscale.api.conditions import CONDITION_TYPES, merge_conditions
from kvscale.core.decide.decision import Condition, Status

READY = Condition("Ready", Status.TRUE, "Decided", "decided and applied")
OLD, NEW = "2026-11-29T17:00:00Z", "2026-11-29T18:00:00Z"
NOW = 1_795_975_200.0


def stored(status: str = "True", **more: Any) -> list[dict[str, Any]]:
    return [{"type": "Ready", "status": status, "reason": "X", "lastTransitionTime": OLD, **more}]


def ready(previous: Any, condition: Condition = READY) -> Any:
    merged = merge_conditions(previous, [condition], 3, NOW)
    return next(item for item in merged if item.type == "Ready")


def test_the_transition_time_is_kept_while_the_status_is_equal() -> None:
    merged = ready(stored(reason="Other", message="other"))
    assert merged.last_transition_time == OLD
    assert (merged.reason, merged.message) == ("Decided", "decided and applied")
    assert merged.observed_generation == 3


def test_the_transition_time_moves_with_the_status() -> None:
    assert ready(stored("False")).last_transition_time == NEW


@pytest.mark.parametrize(
    "previous", [None, [], "x", [3], [{"type": "Ready"}], stored(lastTransitionTime=7)]
)
def test_a_previous_condition_that_cannot_be_read_counts_as_none(previous: Any) -> None:
    assert ready(previous).last_transition_time == NEW


def test_every_condition_is_set_from_the_first_write_on() -> None:
    merged = merge_conditions(None, [READY], 1, NOW)
    assert [item.type for item in merged] == list(CONDITION_TYPES)
    assert {item.status for item in merged if item.type != "Ready"} == {Status.UNKNOWN}
    assert all(item.reason and item.message for item in merged)


def test_a_condition_that_the_decision_drops_becomes_unknown_not_stale() -> None:
    previous = [{"type": "Stalled", "status": "True", "lastTransitionTime": OLD}]
    stalled = {item.type: item for item in merge_conditions(previous, [READY], 1, NOW)}["Stalled"]
    assert (stalled.status, stalled.last_transition_time) == (Status.UNKNOWN, NEW)
