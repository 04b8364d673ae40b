"""HPA's behaviour as a table: windows and policies, upwards and downwards."""

import pytest

from kvscale.core.decide.behavior import (
    scale_down_limit,
    scale_up_limit,
    stabilize,
    within_tolerance,
)
from kvscale.core.decide.state import Recommendation, ScalingEvent
from kvscale.core.scaling import PolicySelect, PolicyType, Scaling, ScalingPolicy, ScalingRules
from support.scenario import T

PODS, PERCENT = PolicyType.PODS, PolicyType.PERCENT


def rules(*policies, window=0, select=PolicySelect.MAX, tolerance=100):
    return ScalingRules(tuple(ScalingPolicy(*p) for p in policies), window, select, tolerance)


def seen(*pairs):
    return [Recommendation(T - ago, replicas) for ago, replicas in pairs]


@pytest.mark.parametrize(
    ("wanted", "recommendations", "up", "down", "kept"),
    [
        (5, [], 0, 0, 5),
        (5, seen((30, 4)), 60, 0, 4),  # upwards the lowest of the window
        (5, seen((30, 2)), 60, 0, 3),  # and never below what is there
        (5, seen((30, 4), (20, 7)), 60, 0, 4),
        (5, seen((60, 4)), 60, 0, 5),  # a window ends where it is as old as long
        (1, seen((30, 2)), 0, 60, 2),  # downwards the highest
        (1, seen((30, 9)), 0, 60, 3),  # and never above what is there
        (1, seen((60, 9)), 0, 60, 1),
        (2, seen((0, 9)), 0, 60, 2),  # this tick's own is what is judged
    ],
)
def test_stabilization(wanted, recommendations, up, down, kept):
    scaling = Scaling(scale_up=rules(window=up), scale_down=rules(window=down))
    assert stabilize(wanted, 3, recommendations, scaling, T) == kept


ADDED_TWO = [ScalingEvent(T - 30, 4, 6)]
REMOVED_TWO = [ScalingEvent(T - 30, 8, 6)]


@pytest.mark.parametrize(
    ("found", "events", "limit"),
    [
        (rules((PODS, 4, 60)), [], 10),
        (rules((PODS, 4, 60)), ADDED_TWO, 8),
        (rules((PODS, 4, 60)), REMOVED_TWO, 12),
        (rules((PODS, 4, 30)), ADDED_TWO, 10),  # the period is over
        (rules((PERCENT, 50, 60)), ADDED_TWO, 6),
        (rules((PERCENT, 10, 60)), [], 7),  # rounded up
        (rules((PODS, 4, 60), (PERCENT, 100, 60)), [], 12),
        (rules((PODS, 4, 60), (PERCENT, 100, 60), select=PolicySelect.MIN), [], 10),
        (rules((PODS, 4, 60), select=PolicySelect.DISABLED), [], 6),
        (rules(), [], 6),
    ],
)
def test_policies_upwards(found, events, limit):
    assert scale_up_limit(6, events, found, T) == limit


@pytest.mark.parametrize(
    ("found", "events", "limit"),
    [
        (rules((PODS, 4, 60)), [], 2),
        (rules((PODS, 4, 60)), REMOVED_TWO, 4),
        (rules((PODS, 2, 60)), REMOVED_TWO, 6),
        (rules((PODS, 4, 60)), ADDED_TWO, 2),  # what was added is no credit
        (rules((PODS, 9, 60)), [], 0),
        (rules((PERCENT, 50, 60)), REMOVED_TWO, 4),
        (rules((PERCENT, 10, 60)), [], 5),  # rounded down
        (rules((PODS, 1, 60), (PERCENT, 50, 60)), [], 3),
        (rules((PODS, 1, 60), (PERCENT, 50, 60), select=PolicySelect.MIN), [], 5),
        (rules((PODS, 1, 60), select=PolicySelect.DISABLED), [], 6),
        (rules(), [], 6),
    ],
)
def test_policies_downwards(found, events, limit):
    assert scale_down_limit(6, events, found, T) == limit


@pytest.mark.parametrize(
    ("exact", "current", "within"),
    [(3300, 3, True), (3301, 3, False), (2700, 3, True), (2699, 3, False), (0, 0, False)],
)
def test_tolerance(exact, current, within):
    assert within_tolerance(exact, current, rules(tolerance=100)) is within
