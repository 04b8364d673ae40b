"""What was concluded from one pool's own part of the snapshot."""

from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.decide.blocks import EngineBlocks
from kvscale.core.decide.decision import Bound
from kvscale.core.decide.declared import Declared
from kvscale.core.decide.demand import Load
from kvscale.core.decide.memory import Samples
from kvscale.core.decide.ownership import Conflict
from kvscale.core.decide.placement import Wish
from kvscale.core.decide.state import PoolState
from kvscale.core.decide.supply import Supply
from kvscale.core.refusal import Refusal
from kvscale.core.snapshot import PoolSnapshot, TargetState
from kvscale.core.spec import Mode, PoolSpec
from kvscale.core.trace import Trace
from kvscale.core.values import Unknown


@dataclass(frozen=True, slots=True)
class Need:
    """What the bounds ask for, before any limit.

    Attributes:
        wanted: replicas.
        exact_milli: the measured need before rounding, in thousandths, where it is what gave the
            number; None: a whole number by its nature, to which no tolerance applies.
        stuck: of `wanted`, replicas that stand in for engines that emit nothing.
        reason, message: what gave it.
        bounds: everything that asks for replicas, each with its number.
        steps: the trace of those numbers.
    """

    wanted: int
    exact_milli: int | None
    reason: str
    message: str
    stuck: int = 0
    bounds: tuple[Bound, ...] = ()
    steps: Trace = ()


@dataclass(frozen=True, slots=True)
class Assessment:
    """A pool with everything that was concluded from its own part of the snapshot.

    Attributes:
        pool: the part of the snapshot.
        spec: what is asked for.
        mode: in effect: the pool's own, or the operator's where that is more cautious.
        target: the workload that is scaled.
        memory: what is known from earlier ticks, with this one's samples.
        samples: this tick's against those of the last.
        supply: the target's pods by what may be expected of them.
        capacity: the computed ceiling of one engine; otherwise what is missing for it.
        blocks: of one engine, reported or computed; Unknown without either.
        load: measured; Unknown where it cannot be told.
        declared: the declared traffic on these engines.
        need: replicas that the bounds ask for, before any limit.
        conflict: why nothing is written: another owner; None where there is none.
        engines_per_pod: KV pools of one pod (its data-parallel ranks).
    """

    pool: PoolSnapshot
    spec: PoolSpec
    mode: Mode
    target: TargetState
    memory: PoolState
    samples: Samples
    supply: Supply
    capacity: EngineCapacity | Refusal | Unknown
    blocks: EngineBlocks | Unknown
    load: Load | Unknown
    declared: Declared
    need: Need
    conflict: Conflict | None
    engines_per_pod: int

    @property
    def max_num_seqs(self) -> int | None:
        """The running batch's limit, where it is known."""
        return self.capacity.max_num_seqs if isinstance(self.capacity, EngineCapacity) else None

    @property
    def wish(self) -> Wish:
        """What the pool asks of the nodes."""
        created = sum(not (pod.deleting or pod.failed) for pod in self.pool.pods)
        return Wish(
            key=self.pool.key,
            needs=self.target.needs,
            placed=self.supply.placed,
            created=created,
            wanted=max(self.need.wanted, self.target.replicas),
            device_resource=self.pool.device_resource,
        )


@dataclass(frozen=True, slots=True)
class NotAssessed:
    """A pool of which nothing can be concluded: reason and message for its conditions."""

    pool: PoolSnapshot
    memory: PoolState
    reason: str
    message: str
