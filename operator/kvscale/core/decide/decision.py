"""What a decision says: the numbers, the reason, and everything that they rest on."""

from dataclasses import dataclass, field
from enum import StrEnum

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.refusal import Refusal
from kvscale.core.spec import PoolKey
from kvscale.core.trace import Scalar, Trace
from kvscale.core.values import Unknown


class BoundName(StrEnum):
    """One reason to need n replicas."""

    KV = "KV"
    SEQUENCES = "Sequences"
    FLOOR = "Floor"
    MIN = "Min"


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound and the replicas that it asks for.

    Attributes:
        name: which bound.
        replicas: whole replicas.
        exact_milli: the same before rounding up, in thousandths, for the tolerance.
        detail: the arithmetic in one line, for a person.
        formula, inputs: the same for the trace; "" where there is none but the detail.
    """

    name: BoundName
    replicas: int
    exact_milli: int
    detail: str
    formula: str = field(default="", compare=False)
    inputs: tuple[tuple[str, Scalar], ...] = field(default=(), compare=False)


class Status(StrEnum):
    """A condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of the pool; the transition time is added where status is written.

    Attributes:
        type: Ready, TargetResolved, CapacityKnown, MetricsAvailable, CeilingVerified,
            TrafficAsDeclared, ScalingLimited or Stalled.
    """

    type: str
    status: Status
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Demand:
    """The measured load of a pool.

    Attributes:
        used_blocks: sum over engines of usage times usable blocks, what two samples show counted
            once.
        waiting_blocks: expected blocks of what waits.
        growth_blocks: the planned quantile of that sum, less the sum.
        running, waiting: requests.
        preemptions: since the last sample, over all engines.
        occupancy_milli: used / usable over the ready engines, in thousandths.
        sampled_at: epoch seconds of the oldest sample in it.
        missing_pods: ready pods whose samples are missing (their load is then a guess).
    """

    used_blocks: int
    waiting_blocks: int
    growth_blocks: int
    running: int
    waiting: int
    preemptions: int
    occupancy_milli: int
    sampled_at: float
    missing_pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of replicas that must not be confused (rule 6).

    Attributes:
        current: what the workload's spec says now.
        ready: pods that serve.
        starting: pods that progress towards ready.
        wanted: what the bounds ask for, before behaviour and placement.
        placeable: replicas for which devices, quota and a fitting node exist; None: not limited.
        desired: what is to be written, after every limit.
    """

    current: int
    ready: int
    starting: int
    wanted: int
    placeable: int | None
    desired: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for one pool at one moment.

    Attributes:
        id: equal for equal decisions; it changes when the outcome changes.
        counts: None when nothing can be said (invalid spec, no target).
        write: the replica count to write; None: write nothing.
        binding_bound: the bound that gave the largest n; "" when none applied.
        reason: CamelCase: why `desired` is what it is.
        message: the same in one sentence for a person.
    """

    key: PoolKey
    id: str
    counts: Counts | None
    write: int | None
    binding_bound: str
    reason: str
    message: str
    bounds: tuple[Bound, ...] = ()
    demand: Demand | Unknown = Unknown("NotObserved")
    capacity: EngineCapacity | Refusal | Unknown = Unknown("NotResolved")
    floor_at_mean: int | None = None
    floor_at_peak: int | None = None
    conditions: tuple[Condition, ...] = ()
    trace: Trace = ()
