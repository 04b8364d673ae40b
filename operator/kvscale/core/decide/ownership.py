"""One writer (rule 4): who else moves the target, and when we step back."""

from dataclasses import dataclass, replace

from kvscale.core.decide import reasons
from kvscale.core.decide.state import KEPT_SCALINGS, PoolState, ScalingEvent
from kvscale.core.inventory import OtherScaler
from kvscale.core.scaling import Actuation
from kvscale.core.snapshot import PoolSnapshot, TargetState
from kvscale.core.spec import Mode, PoolSpec

OUR_MANAGER = "kvscale"
"""Field manager of our own writes."""

CONFLICT_WINDOW_SECONDS = 600.0
CONFLICT_CHANGES = 2
"""So many changes of our value by others within the window are a conflict, one is an edit."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why we do not write: reason and message name the other owner."""

    reason: str
    message: str


def see_target(state: PoolState, target: TargetState, now: float) -> PoolState:
    """Adopt the count that stands there, and remember who changed ours.

    The count found at the start is adopted. A cache that still shows the version which our last
    write replaced has not seen that write: nothing is concluded from it.
    """
    if state.last_written is None:
        return replace(state, last_written=target.replicas, last_written_at=None)
    if target.replicas == state.last_written:
        return _by_their_clock(state, target)
    if _is_older_than_ours(state, target):
        return state
    if target.replicas_manager == OUR_MANAGER:
        # Written by us, though we do not remember it: a restart came before the status was
        # written, or the answer was lost. Ours all the same, and it counts against the pace.
        event = ScalingEvent(now, state.last_written, target.replicas, reasons.FOUND_WRITTEN)
        return replace(
            state,
            last_written=target.replicas,
            last_written_at=now,
            scalings=(*state.scalings, event)[-KEPT_SCALINGS:],
        )
    was_ours = state.last_written_at is not None
    recent = tuple(at for at in state.foreign if at > now - CONFLICT_WINDOW_SECONDS)
    return replace(
        state,
        last_written=target.replicas,
        last_written_at=None,
        foreign=(*recent, now) if was_ours else recent,
        foreign_manager=target.replicas_manager or "an unnamed client",
    )


def _by_their_clock(state: PoolState, target: TargetState) -> PoolState:
    """Our write, dated by the API server once it shows it.

    What others change is dated by it too: two dates of one clock can be compared, however far
    that clock is from ours.
    """
    ours, theirs = state.last_written_at, target.replicas_changed_at
    if ours is None or theirs is None or target.replicas_manager != OUR_MANAGER:
        return state
    if abs(theirs - ours) <= CLOCK_SLACK_SECONDS:
        return state
    return replace(state, last_written_at=theirs)


CLOCK_SLACK_SECONDS = 2.0
"""Times of managed fields are whole seconds by the API server's clock."""


def _is_older_than_ours(state: PoolState, target: TargetState) -> bool:
    """Whether what the cache shows was there before our last write."""
    if awaits_write(state, target):
        return True
    if state.last_written_at is None or target.replicas_changed_at is None:
        return False
    return target.replicas_changed_at + CLOCK_SLACK_SECONDS < state.last_written_at


def awaits_write(state: PoolState, target: TargetState) -> bool:
    """Whether the cache has not yet shown our last write."""
    return bool(state.write_base_version) and state.write_base_version == target.resource_version


def find_conflict(
    pool: PoolSnapshot, spec: PoolSpec, state: PoolState, mode: Mode, now: float
) -> Conflict | None:
    """The reason not to write, if there is one.

    With `actuation: External` an HPA is the expected actuator; only another pool is a conflict.
    In mode Recommend nobody can be in the way: whatever scales the target is what runs.
    """
    if mode is Mode.RECOMMEND:
        return None
    for other in pool.other_scalers:
        if other.kind == "InferencePool" or spec.scaling.actuation is Actuation.SCALE:
            return Conflict(reasons.CONFLICTING_AUTOSCALER, _names(other))
    recent = [at for at in state.foreign if at > now - CONFLICT_WINDOW_SECONDS]
    if len(recent) >= CONFLICT_CHANGES and spec.scaling.actuation is Actuation.SCALE:
        return Conflict(
            reasons.CONFLICTING_WRITER,
            f'"{state.foreign_manager}" changed the replica count that kvscale had written '
            f"{len(recent)} times within 10 minutes; nothing is written until it has left the "
            f"count alone for 10 minutes. Let it not manage spec.replicas (helm: drop the value; "
            f"Argo CD: ignoreDifferences), or set spec.mode to Recommend",
        )
    return None


def _names(other: OtherScaler) -> str:
    mend = {
        "InferencePool": "two pools may not scale one target: delete one of them",
        "ScaledObject": "delete the ScaledObject, or set spec.scaling.actuation to External",
    }.get(other.kind, "delete it, or set spec.scaling.actuation to External")
    return f"{other.kind}/{other.name} scales the same target; {mend}"
