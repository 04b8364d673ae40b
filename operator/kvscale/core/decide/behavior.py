"""HPA's behaviour: tolerance, stabilisation, policies, in HPA's own order and meaning.

Source: kubernetes v1.37 pkg/controller/podautoscaler/horizontal.go
(`stabilizeRecommendationWithBehaviors`, `convertDesiredReplicasWithBehaviorRate`) and
replica_calculator.go (tolerance).
"""

import math
from collections.abc import Sequence

from kvscale.core.decide.state import Recommendation, ScalingEvent
from kvscale.core.scaling import PolicySelect, PolicyType, Scaling, ScalingRules

MILLI = 1000


def within_tolerance(exact_milli: int, current: int, rules: ScalingRules) -> bool:
    """Whether the need deviates from the current count by no more than the tolerance.

    Args:
        exact_milli: replicas needed before rounding, in thousandths.
        current: replicas now; 0 is never within tolerance.
        rules: of the direction that the change would take.
    """
    if current <= 0:
        return False
    return abs(exact_milli - current * MILLI) <= rules.tolerance_milli * current


def stabilize(
    wanted: int,
    current: int,
    recommendations: Sequence[Recommendation],
    scaling: Scaling,
    now: float,
) -> int:
    """The recommendation that no later one within the windows contradicts.

    Upwards the lowest of the scale-up window counts, downwards the highest of the scale-down
    window, and the current count is left only when it lies outside both.
    """
    up_since = now - scaling.scale_up.stabilization_window_seconds
    down_since = now - scaling.scale_down.stabilization_window_seconds
    lowest = highest = wanted
    for seen in recommendations:
        if seen.at >= now:
            continue  # this tick's own: `wanted` is what became of it
        if seen.at > up_since:
            lowest = min(lowest, seen.replicas)
        if seen.at > down_since:
            highest = max(highest, seen.replicas)
    return min(max(current, lowest), highest)


def scale_up_limit(
    current: int, events: Sequence[ScalingEvent], rules: ScalingRules, now: float
) -> int:
    """The largest count that the scale-up policies allow now."""
    if rules.select_policy is PolicySelect.DISABLED:
        return current
    limits: list[int] = []
    for policy in rules.policies:
        added, removed = _moved(events, now - policy.period_seconds)
        start = current - added + removed
        if policy.type is PolicyType.PODS:
            limits.append(start + policy.value)
        else:
            limits.append(-(-start * (100 + policy.value) // 100))
    if not limits:
        return current
    chosen = min(limits) if rules.select_policy is PolicySelect.MIN else max(limits)
    return max(current, chosen)


def scale_down_limit(
    current: int, events: Sequence[ScalingEvent], rules: ScalingRules, now: float
) -> int:
    """The smallest count that the scale-down policies allow now.

    Unlike HPA, what was added within the period is not taken off the count first: "1 pod in 5
    minutes" would otherwise let a spike's four replicas go at once.
    """
    if rules.select_policy is PolicySelect.DISABLED:
        return current
    limits: list[int] = []
    for policy in rules.policies:
        start = current + _moved(events, now - policy.period_seconds)[1]
        if policy.type is PolicyType.PODS:
            limits.append(start - policy.value)
        else:
            limits.append(math.floor(start * (100 - policy.value) / 100))
    if not limits:
        return current
    chosen = max(limits) if rules.select_policy is PolicySelect.MIN else min(limits)
    return min(current, max(0, chosen))


def _moved(events: Sequence[ScalingEvent], since: float) -> tuple[int, int]:
    """Replicas (added, removed) by our own writes after `since`."""
    added = removed = 0
    for event in events:
        if event.at > since:
            change = event.after - event.before
            added += max(0, change)
            removed += max(0, -change)
    return added, removed
