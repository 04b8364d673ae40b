"""Events about a pool: one for each thing that changed, never one per tick.

The texts stand here, so that an event says what the status says.
"""

from kvscale.core.decide.decision import Condition, Decision, Status
from kvscale.ports import EventNote

NORMAL = "Normal"
WARNING = "Warning"

BAD_WHEN = {
    "Ready": Status.FALSE,
    "TargetResolved": Status.FALSE,
    "CapacityKnown": Status.FALSE,
    "MetricsAvailable": Status.FALSE,
    "CeilingVerified": Status.FALSE,
    "TrafficAsDeclared": Status.FALSE,
    "Stalled": Status.TRUE,
}
"""The status of a condition that a person should hear of; ScalingLimited is everyday life."""


def notes_for(
    before: Decision | None, after: Decision, pool_uid: str, *, written: bool
) -> list[EventNote]:
    """The events that a decision is worth: a scaling that took effect, conditions that turned."""
    notes = []
    if written and after.write is not None and after.counts is not None:
        direction = "ScaledUp" if after.write > after.counts.current else "ScaledDown"
        told = f"{after.counts.current} -> {after.write} ({after.reason}): {after.message}"
        notes.append(EventNote(after.key, pool_uid, NORMAL, direction, "Scale", told))
    old = {condition.type: condition for condition in before.conditions} if before else {}
    for condition in after.conditions:
        note = _turned(old.get(condition.type), condition)
        if note is not None:
            kind, told = note
            notes.append(
                EventNote(after.key, pool_uid, kind, condition.reason, condition.type, told)
            )
    return notes


def _turned(before: Condition | None, after: Condition) -> tuple[str, str] | None:
    bad = BAD_WHEN.get(after.type)
    if bad is None:
        return None
    was_bad = before is not None and before.status is bad
    is_bad = after.status is bad
    if is_bad and not (was_bad and before is not None and before.reason == after.reason):
        return WARNING, after.message
    if was_bad and not is_bad and after.status is not Status.UNKNOWN:
        return NORMAL, f"{after.type} again: {after.message}"
    return None
