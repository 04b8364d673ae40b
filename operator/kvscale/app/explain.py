"""Why the number is what it is: the status of a pool as a page for a person.

Nothing is computed here: what is printed is what the operator wrote, in the order in which one
asks: how many and why, what it rests on, what limits it, and the arithmetic.
"""

from collections.abc import Mapping
from typing import Any

from kvscale.app.tables import facts, table, trace_lines
from kvscale.core.trace import Step, Trace

Status = Mapping[str, Any]


def explain_status(namespace: str, name: str, status: Status) -> list[str]:
    """The page for one pool, line by line."""
    lines = [f"InferencePool {namespace}/{name}", ""]
    lines += facts(_summary(status))
    lines += _section("Bounds (the largest asks for the replicas)", _bounds(status))
    lines += _section("Conditions", _conditions(status))
    lines += _section("Last changes", _scalings(status))
    lines += _section("The arithmetic, step by step", trace_lines(_trace(status)))
    return lines


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", title, *lines] if lines else []


def _summary(status: Status) -> list[tuple[str, str]]:
    decision, replicas = _part(status, "decision"), _part(status, "replicas")
    demand, floor = _part(status, "demand"), _part(status, "floor")
    placeable = replicas.get("placeable", "not limited")
    counts = (
        f"{replicas['desired']} desired, {replicas['wanted']} wanted, {placeable} placeable, "
        f"{replicas['current']} now, {replicas['ready']} ready, {replicas['starting']} starting"
        if replicas
        else ""
    )
    load = (
        f"{demand['occupancyPercent']} % of the blocks used; {demand['runningRequests']} running, "
        f"{demand['waitingRequests']} waiting, {demand['preemptions']} preempted since the last "
        f"sample; about {demand['usedBlocks']:,} used, {demand['waitingBlocks']:,} waiting and "
        f"{demand['growthBlocks']:,} growth blocks (sampled {demand['sampledTime']})"
        if demand
        else "not known: see condition MetricsAvailable"
    )
    floors = ", ".join(
        f"{floor[key]} at the {word} rate"
        for key, word in (("meanReplicas", "mean"), ("peakReplicas", "peak"))
        if key in floor
    )
    return [
        ("replicas", counts),
        ("reason", f"{decision.get('reason', '')}: {decision.get('message', '')}"),
        ("bound", str(decision.get("bindingBound", ""))),
        ("load", load),
        ("floor", floors),
        ("mode", str(status.get("mode", ""))),
        ("as of", str(status.get("updatedTime", ""))),
    ]


def _bounds(status: Status) -> list[str]:
    rows = [
        (
            bound["name"],
            str(bound["replicas"]),
            f"{bound['exactMilli'] / 1000:.2f}",
            bound["detail"],
        )
        for bound in _part(status, "decision").get("bounds", ())
    ]
    if not rows:
        return []
    lines = table(("bound", "n", "exact"), [row[:3] for row in rows])
    return [lines[0], *(f"{line}  {row[3]}" for line, row in zip(lines[1:], rows, strict=True))]


def _conditions(status: Status) -> list[str]:
    return facts(
        (
            f"{condition['type']}={condition['status']}",
            f"{condition['reason']}: {condition.get('message', '')}",
        )
        for condition in status.get("conditions", ())
    )


def _scalings(status: Status) -> list[str]:
    return [
        f"{change['time']}  {change['before']} -> {change['after']}  {change.get('reason', '')}"
        for change in status.get("scalings", ())
    ]


def _trace(status: Status) -> Trace:
    return tuple(
        Step(
            name=step["name"],
            value=_value(step["value"]),
            unit=step.get("unit", ""),
            formula=step.get("formula", "") + (f" ({step['inputs']})" if "inputs" in step else ""),
            source=step.get("source", ""),
        )
        for step in _part(status, "decision").get("trace", ())
    )


def _value(text: str) -> int | str:
    """Whole numbers get their thousands separated; the rest stands as it was written."""
    return int(text) if text.lstrip("-").isdigit() else text


def _part(status: Status, name: str) -> Status:
    part = status.get(name)
    return part if isinstance(part, Mapping) else {}
