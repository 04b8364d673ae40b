"""When a status is written (rule 9).

At once when a decision or a condition changed; when a number moved, at most once a minute; and
every ten minutes, so that a reader can tell a quiet pool from a dead operator.
"""

from collections.abc import Mapping
from typing import Any, Final

from kvscale.api.times import parse_time

RUNNING_SECONDS: Final = 60.0
"""Numbers that moved are written no sooner than this after the last write."""
REFRESH_SECONDS: Final = 600.0
"""A status is written again after this, even if nothing moved."""

_AT_ONCE: Final = (
    "observedGeneration",
    "mode",
    "holdUntil",
    "freeze",
    "effective",
    "scalings",
    "memory",
)
_VOLATILE: Final = ("updatedTime", "decision", "conditions")


def same_decision(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether both say the same but for running numbers, messages and times."""
    return _essence(old) == _essence(new)


def write_due(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the new status is to be written.

    Args:
        old: the status that was written last (as kept by the writer, or as stored).
        new: as `build_status` gives it; its `updatedTime` is now.
    """
    if not same_decision(old, new):
        return True
    try:
        age = parse_time(str(new.get("updatedTime"))) - parse_time(str(old.get("updatedTime")))
    except ValueError:
        return True
    if age >= REFRESH_SECONDS:
        return True
    return age >= RUNNING_SECONDS and _numbers(old) != _numbers(new)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _essence(status: Mapping[str, Any]) -> tuple[Any, ...]:
    replicas, decision = _object(status.get("replicas")), _object(status.get("decision"))
    conditions = [_object(item) for item in status.get("conditions") or ()]
    return (
        [status.get(name) or None for name in _AT_ONCE],
        [replicas.get(name) for name in ("current", "desired")],
        [decision.get(name) for name in ("id", "desired", "bindingBound", "reason")],
        {item.get("type"): (item.get("status"), item.get("reason")) for item in conditions},
    )


def _numbers(status: Mapping[str, Any]) -> dict[str, Any]:
    """The rounded numbers: what a reader would see move."""
    numbers = {name: value for name, value in status.items() if name not in _VOLATILE}
    demand = _object(status.get("demand"))
    numbers["demand"] = {name: value for name, value in demand.items() if name != "sampledTime"}
    return numbers
