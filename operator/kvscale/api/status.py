"""The status: its schema, and how a decision becomes what server-side apply writes.

Every field that the operator may write is in the schema, so that the API server prunes nothing.
Integers and strings only.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from kvscale.api.conditions import ConditionModel, merge_conditions
from kvscale.api.memory import MemoryModel, ScalingRecordModel, write_memory
from kvscale.api.rules import ApiModel
from kvscale.api.status_capacity import CeilingModel, ReportedModel, ceiling_of, reported_of
from kvscale.api.status_decision import (
    DecisionModel,
    DemandModel,
    FloorModel,
    ReplicasModel,
    TargetStatusModel,
    decision_of,
    demand_of,
    floor_of,
    replicas_of,
    target_of,
)
from kvscale.api.status_effective import EffectiveModel, effective_of
from kvscale.api.status_size import within_limits
from kvscale.api.status_types import ATOMIC, Int64, Time, Word, last
from kvscale.api.times import format_time
from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import KEPT_SCALINGS, PoolState
from kvscale.core.snapshot import PoolSnapshot
from kvscale.core.spec import Mode, most_cautious
from kvscale.core.values import Unknown


class InferencePoolStatus(ApiModel):
    """What was observed, computed and decided."""

    observed_generation: Int64 | None = None
    """Generation of the spec that the status is about."""
    updated_time: Time | None = None
    """When the status was written: on a change of decision or condition, otherwise when a number
    moved (at most once a minute), and every ten minutes."""
    mode: Mode | None = None
    """The mode in effect."""
    hold_until: Time | None = None
    """End of the hold that the annotation kvscale.io/hold-until asks for."""
    freeze: Word | None = None
    """Direction that the annotation kvscale.io/freeze forbids."""
    replicas: ReplicasModel | None = None
    """Numbers of replicas."""
    targets: Annotated[
        tuple[TargetStatusModel, ...],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    """Every workload."""
    ceiling: CeilingModel | None = None
    """What one engine holds, computed. Absent: not known, see condition CapacityKnown."""
    reported: ReportedModel | None = None
    """What the engines report of their capacity. Absent: none reports."""
    demand: DemandModel | None = None
    """The measured load. Absent: not known, see condition MetricsAvailable."""
    floor: FloorModel | None = None
    """Replicas that the declared traffic asks for. Absent: nothing is declared."""
    decision: DecisionModel | None = None
    """The outcome and its reasons."""
    effective: EffectiveModel | None = None
    """What is in effect. Absent: the spec is invalid."""
    scalings: Annotated[
        tuple[ScalingRecordModel, ...],
        Field(max_length=KEPT_SCALINGS, json_schema_extra=ATOMIC),
        last(KEPT_SCALINGS),
    ] = ()
    """The last changes of replicas that kvscale made, oldest first."""
    memory: MemoryModel | None = None
    """What the operator must remember over its own restart."""
    conditions: Annotated[
        tuple[ConditionModel, ...],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
    """Conditions; Ready sums up."""


def build_status(
    decision: Decision,
    *,
    pool: PoolSnapshot,
    memory: PoolState,
    operator_mode: Mode | None,
    previous: Mapping[str, Any],
    now: float,
) -> dict[str, Any]:
    """The whole status of a pool, every field of it in the schema.

    Args:
        decision: what was decided.
        pool: what it was decided upon.
        memory: the pool's state after the decision (and after the write, if there was one).
        operator_mode: of the snapshot.
        previous: the status as stored, raw, for the conditions' transition times.
        now: epoch seconds.
    """
    kept, scalings = write_memory(memory)
    spec = None if isinstance(pool.spec, Unknown) else pool.spec
    status = InferencePoolStatus(
        observed_generation=pool.generation,
        updated_time=format_time(now),
        mode=most_cautious(spec.mode if spec else None, operator_mode),
        hold_until=None if pool.hold_until is None else format_time(pool.hold_until),
        freeze=str(pool.freeze) or None,
        replicas=replicas_of(decision),
        targets=() if spec is None else (target_of(decision, spec, memory),),
        ceiling=ceiling_of(decision, spec.traffic if spec else None),
        reported=reported_of(decision, pool),
        demand=demand_of(decision.demand),
        floor=floor_of(decision),
        decision=decision_of(decision),
        effective=None if spec is None else effective_of(pool, spec),
        scalings=scalings,
        memory=kept,
        conditions=merge_conditions(
            previous.get("conditions"), decision.conditions, pool.generation, now
        ),
    )
    return within_limits(status.model_dump(mode="json", by_alias=True, exclude_none=True))
