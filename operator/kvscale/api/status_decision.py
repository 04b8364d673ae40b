"""`status.replicas`, `targets`, `demand`, `floor` and `decision`: the outcome and its grounds."""

from typing import Annotated, Final

from pydantic import Field

from kvscale.api.rules import ApiModel
from kvscale.api.status_types import ATOMIC, Int64, Message, Sentence, Time, Word, first
from kvscale.api.times import format_time
from kvscale.core.decide.decision import Decision, Demand
from kvscale.core.decide.state import PoolState
from kvscale.core.spec import PoolSpec
from kvscale.core.trace import Scalar, Step
from kvscale.core.values import Unknown

MAX_TRACE_STEPS: Final = 100
_TWO_DIGITS: Final = 100


class ReplicasModel(ApiModel):
    """Numbers of replicas that must not be confused."""

    current: Int64
    """What the workload's spec says now."""
    ready: Int64
    """Pods that serve."""
    starting: Int64
    """Pods that progress towards ready."""
    wanted: Int64
    """What the bounds ask for, before pace and placement."""
    placeable: Int64 | None = None
    """Replicas for which devices, quota and a fitting node exist. Absent: not limited."""
    desired: Int64
    """What is to be written, after every limit."""


class TargetStatusModel(ApiModel):
    """One workload."""

    name: Word
    """Key of the list, as in spec.targets."""
    wanted: Int64 | None = None
    """What the bounds ask for."""
    placeable: Int64 | None = None
    """Replicas for which devices exist. Absent: not limited."""
    written: Int64 | None = None
    """Replica count that kvscale wrote or adopted last."""
    ready: Int64 | None = None
    """Pods that serve."""


class DemandModel(ApiModel):
    """The measured load, rounded to two digits; written at most once a minute."""

    used_blocks: Int64
    """KV blocks in use, over all engines."""
    waiting_blocks: Int64
    """KV blocks that the waiting requests will need."""
    growth_blocks: Int64
    """KV blocks by which the residents may grow together."""
    running_requests: Int64
    """Requests in the running batches."""
    waiting_requests: Int64
    """Requests queued in the engines."""
    preemptions: Int64
    """Preemptions since the last sample."""
    occupancy_percent: Int64
    """Used / usable KV blocks of the ready engines, in percent."""
    sampled_time: Time
    """Time of the oldest sample in it."""
    missing_pods: Annotated[
        tuple[Word, ...], Field(max_length=16, json_schema_extra=ATOMIC), first(16)
    ] = ()
    """Ready pods whose samples are missing, the first 16."""


class FloorModel(ApiModel):
    """Replicas that the declared traffic alone asks for."""

    mean_replicas: Int64 | None = None
    """At the declared mean rate."""
    peak_replicas: Int64 | None = None
    """At the declared peak rate."""


class BoundModel(ApiModel):
    """One reason to need that many replicas."""

    name: Word
    """Which bound: KV, Sequences, Floor or Min."""
    replicas: Int64
    """Whole replicas."""
    exact_milli: Int64
    """The same before rounding up, in thousandths."""
    detail: Sentence
    """The arithmetic in one line."""


class StepModel(ApiModel):
    """One line of the arithmetic."""

    name: Word
    """Name of the number."""
    value: Word
    """The number."""
    unit: Word | None = None
    """Its unit."""
    formula: Sentence | None = None
    """The rule that gave it."""
    inputs: Sentence | None = None
    """The numbers that went in, as name=value."""
    source: Sentence | None = None
    """Where the rule is from."""


class DecisionModel(ApiModel):
    """The outcome."""

    id: Word
    """Equal for equal decisions; the operator's log and events carry it too."""
    desired: Int64 | None = None
    """Replicas that are to be written. Absent: nothing can be said."""
    binding_bound: Word | None = None
    """The bound that asks for most. Absent: none applies."""
    reason: Word
    """Why desired is what it is, in CamelCase."""
    message: Message
    """The same in one sentence."""
    bounds: Annotated[
        tuple[BoundModel, ...], Field(max_length=16, json_schema_extra=ATOMIC), first(16)
    ] = ()
    """Every bound."""
    trace: Annotated[
        tuple[StepModel, ...],
        Field(max_length=MAX_TRACE_STEPS, json_schema_extra=ATOMIC),
        first(MAX_TRACE_STEPS),
    ] = ()
    """The arithmetic, step by step."""


def two_digits(number: int) -> int:
    """The number rounded to two significant digits, so that noise does not rewrite the status."""
    scale = 1
    while abs(number) >= _TWO_DIGITS * scale:
        scale *= 10
    return round(number / scale) * scale


def replicas_of(decision: Decision) -> ReplicasModel | None:
    """The counts; None when nothing can be said."""
    counts = decision.counts
    if counts is None:
        return None
    return ReplicasModel(
        current=counts.current,
        ready=counts.ready,
        starting=counts.starting,
        wanted=counts.wanted,
        placeable=counts.placeable,
        desired=counts.desired,
    )


def target_of(decision: Decision, spec: PoolSpec, memory: PoolState) -> TargetStatusModel:
    """The one workload of the pool."""
    counts = decision.counts
    if counts is None:
        return TargetStatusModel(name=spec.target.name, written=memory.last_written)
    return TargetStatusModel(
        name=spec.target.name,
        wanted=counts.wanted,
        placeable=counts.placeable,
        written=memory.last_written,
        ready=counts.ready,
    )


def demand_of(demand: Demand | Unknown) -> DemandModel | None:
    """The measured load, rounded; None where it is not known."""
    if isinstance(demand, Unknown):
        return None
    return DemandModel(
        used_blocks=two_digits(demand.used_blocks),
        waiting_blocks=two_digits(demand.waiting_blocks),
        growth_blocks=two_digits(demand.growth_blocks),
        running_requests=two_digits(demand.running),
        waiting_requests=two_digits(demand.waiting),
        preemptions=two_digits(demand.preemptions),
        occupancy_percent=round(demand.occupancy_milli / 10),
        sampled_time=format_time(demand.sampled_at),
        missing_pods=demand.missing_pods,
    )


def floor_of(decision: Decision) -> FloorModel | None:
    """The declared floor; None where nothing is declared."""
    mean, peak = decision.floor_at_mean, decision.floor_at_peak
    if mean is None and peak is None:
        return None
    return FloorModel(mean_replicas=mean, peak_replicas=peak)


def decision_of(decision: Decision) -> DecisionModel:
    """The outcome with bounds and trace."""
    return DecisionModel(
        id=decision.id,
        desired=None if decision.counts is None else decision.counts.desired,
        binding_bound=decision.binding_bound or None,
        reason=decision.reason,
        message=decision.message,
        bounds=tuple(
            BoundModel(
                name=bound.name,
                replicas=bound.replicas,
                exact_milli=bound.exact_milli,
                detail=bound.detail,
            )
            for bound in decision.bounds
        ),
        trace=tuple(map(_step, decision.trace)),
    )


def _step(step: Step) -> StepModel:
    return StepModel(
        name=step.name,
        value=_scalar(step.value),
        unit=step.unit or None,
        formula=step.formula or None,
        inputs=", ".join(f"{name}={_scalar(value)}" for name, value in step.inputs) or None,
        source=step.source or None,
    )


def _scalar(value: Scalar) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
