"""Conditions of the status: complete from the first write on, and stable in time."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from kvscale.api.rules import ApiModel
from kvscale.api.status_types import Message, Time
from kvscale.api.times import format_time
from kvscale.core.decide.conditions import CONDITION_TYPES
from kvscale.core.decide.decision import Condition, Status


class ConditionModel(ApiModel):
    """A condition, as metav1.Condition."""

    type: Annotated[str, Field(max_length=316)]
    """Ready, TargetResolved, CapacityKnown, MetricsAvailable, CeilingVerified, TrafficAsDeclared,
    ScalingLimited or Stalled."""
    status: Status
    """True, False or Unknown."""
    reason: Annotated[
        str,
        Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ]
    """Why, in CamelCase."""
    message: Message
    """The same for a person."""
    last_transition_time: Time
    """When status changed last."""
    observed_generation: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    """Generation of the spec that it is about."""


def merge_conditions(
    previous: Any, conditions: Iterable[Condition], generation: int, now: float
) -> tuple[ConditionModel, ...]:
    """The conditions to write.

    `lastTransitionTime` is kept while `status` is equal (api-conventions, typical status
    properties). A condition that the decision leaves out is Unknown, so that a reader never sees
    an old one.

    Args:
        previous: `status.conditions` as stored, raw; what cannot be read is ignored.
        conditions: of the decision.
        generation: of the spec that they are about.
        now: epoch seconds.
    """
    before = {
        item.get("type"): item
        for item in (previous if isinstance(previous, list | tuple) else ())
        if isinstance(item, Mapping) and isinstance(item.get("lastTransitionTime"), str)
    }
    given = {condition.type: condition for condition in conditions}
    unseen = {
        name: Condition(name, Status.UNKNOWN, "NotEvaluated", "not looked at in this state")
        for name in CONDITION_TYPES
    }
    return tuple(
        ConditionModel(
            type=condition.type,
            status=condition.status,
            reason=condition.reason,
            message=condition.message,
            last_transition_time=(
                before[condition.type]["lastTransitionTime"]
                if before.get(condition.type, {}).get("status") == condition.status
                else format_time(now)
            ),
            observed_generation=generation,
        )
        for condition in {**unseen, **given}.values()
    )
