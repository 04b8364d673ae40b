"""A world in memory for whole ticks of the real loop: caches, engines' metrics, a clock.

Nothing is decided and no controller runs here. A write is taken as an API server takes it, and
pods do not follow: a tick is measured, not an hour.
"""

import gc
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kvscale.app.act import Actor
from kvscale.app.loop import Loop
from kvscale.app.observe import NotReady, Observer
from kvscale.app.record import Record
from kvscale.core.engines.sample import EngineSample, PodMetrics
from kvscale.core.inventory import NodeState
from kvscale.core.snapshot import Snapshot
from kvscale.core.spec import PoolKey
from kvscale.core.values import Known, Unknown
from kvscale.ports import (
    ClusterView,
    EventNote,
    MetricsTarget,
    ScaleWrite,
    WriteOutcome,
    WriteResult,
)
from kvscale.records import Json, PodRecord, PoolObject, WorkloadRecord, WorkloadRef

TICK_SECONDS = 5.0
RENEWED_SHARE = 60
"""A kubelet reports an unchanged node every five minutes: one of 60 nodes in each tick."""

BLOCKS_PER_REQUEST = 60
APPLIED = WriteResult(WriteOutcome.APPLIED)


@dataclass(slots=True)
class ManualClock:
    """Time that moves when it is told to."""

    at_second: float

    def now(self) -> float:
        """Epoch seconds."""
        return self.at_second

    def at(self, stamp: float) -> float:
        """The same: there is but one clock."""
        return stamp

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.at_second += seconds


class FreeLease:
    """The lease is ours."""

    async def acquire(self) -> Known[str] | Unknown:
        """Held."""
        return Known("bench", 0.0)


@dataclass(slots=True)
class MemoryCluster:
    """The caches of an operator, and an API server that accepts every write.

    Attributes:
        scales, statuses, events: how many were written.
    """

    pools: dict[PoolKey, PoolObject]
    workloads: dict[WorkloadRef, WorkloadRecord]
    pods: tuple[PodRecord, ...]
    nodes: list[NodeState]
    scales: int = 0
    statuses: int = 0
    events: int = 0
    _renewed: int = 0

    @classmethod
    def of(cls, view: ClusterView) -> "MemoryCluster":
        """With what a view shows."""
        nodes = [] if isinstance(view.nodes, Unknown) else list(view.nodes)
        pools = {pool.key: pool for pool in view.pools}
        return cls(pools, dict(view.workloads), view.pods, nodes)

    def renew_nodes(self) -> None:
        """What kubelets report between two ticks: equal nodes, but new objects."""
        for _ in range(-(-len(self.nodes) // RENEWED_SHARE)):
            position = self._renewed % len(self.nodes)
            self.nodes[position] = replace(self.nodes[position])
            self._renewed += 1

    def relabel_node(self) -> None:
        """Somebody labels a node: what the nodes say of their devices is asked anew."""
        node = self.nodes[0]
        self.nodes[0] = replace(node, labels={**node.labels, "example.com/rack": "r1"})

    def view(self) -> ClusterView:
        """The caches as they are now."""
        return ClusterView(
            pools=tuple(self.pools.values()),
            workloads=dict(self.workloads),
            pods=self.pods,
            nodes=tuple(self.nodes),
        )

    async def config_map(self, namespace: str, name: str) -> Mapping[str, str] | Unknown:
        """There are none."""
        return Unknown("ConfigMapNotFound", f"{namespace}/{name}")

    async def scale(self, write: ScaleWrite) -> WriteResult:
        """Take the write."""
        self.scales += 1
        record = self.workloads[write.target]
        version = str(int(record.resource_version) + 1)
        self.workloads[write.target] = replace(
            record, replicas=write.replicas, resource_version=version, replicas_manager="kvscale"
        )
        return APPLIED

    async def apply_status(self, key: PoolKey, status: Json) -> WriteResult:
        """Take the status."""
        self.statuses += 1
        self.pools[key] = replace(self.pools[key], status=status)
        return APPLIED

    async def emit(self, note: EventNote) -> None:
        """Take the event."""
        del note
        self.events += 1


@dataclass(slots=True)
class MemoryMetrics:
    """New samples of every engine for each tick, made before the tick is timed.

    Each pool has a level of its own, from idle to full, which its engines follow with noise.
    """

    pods: Sequence[PodRecord]
    kv_blocks: Mapping[str, int]
    draw: random.Random
    answers: dict[str, Known[PodMetrics] | Unknown] = field(default_factory=dict)
    _levels: dict[str, float] = field(default_factory=dict)
    _prompted: dict[str, float] = field(default_factory=dict)

    def prepare(self, now: float) -> None:
        """Sample everything at `now`."""
        for pod in self.pods:
            if pod.ready:
                self.answers[pod.uid] = Known((self._sample(pod),), at=now, stamp=now)

    def _sample(self, pod: PodRecord) -> EngineSample:
        blocks = self.kv_blocks[pod.owner_name]
        requests = blocks / BLOCKS_PER_REQUEST
        level = self._levels.setdefault(pod.owner_name, self.draw.uniform(0.2, 1.0))
        load = level * self.draw.uniform(0.9, 1.1)
        held = min(1.0, load)
        tokens = self._prompted[pod.uid] = self._prompted.get(
            pod.uid, 0.0
        ) + 5_000 * load * self.draw.uniform(0.9, 1.1)
        return EngineSample(
            engine="0",
            kv_usage=held,
            running=round(held * requests),
            waiting=round((load - held) * requests),
            preemptions_total=0.0,
            prompt_tokens_total=tokens,
            generation_tokens_total=tokens / 4,
            prefix_hits_total=tokens / 10,
            prefix_queries_total=tokens,
            kv_blocks=blocks,
            block_tokens=16,
        )

    async def collect(
        self, targets: Sequence[MetricsTarget]
    ) -> Mapping[str, Known[PodMetrics] | Unknown]:
        """The prepared answers."""
        return {target.uid: self.answers[target.uid] for target in targets}

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class Parts:
    """CPU seconds of one round."""

    observe: float
    decide: float
    act: float

    @property
    def whole(self) -> float:
        """The round."""
        return self.observe + self.decide + self.act


@dataclass(slots=True)
class MarkingObserver(Observer):
    """The real observer, and when it was done."""

    marks: list[float] = field(default_factory=list)

    async def snapshot(self) -> Snapshot | NotReady:
        """As ever."""
        found = await Observer.snapshot(self)
        self.marks.append(time.process_time())
        return found


@dataclass(slots=True)
class TickWorld:
    """The real loop over the world in memory.

    Attributes:
        last: the record of the last round.
    """

    cluster: MemoryCluster
    metrics: MemoryMetrics
    clock: ManualClock
    loop: Loop
    last: Record | None = None
    _marks: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls, view: ClusterView, kv_blocks: Mapping[str, int], start: float, seed: int = 1
    ) -> "TickWorld":
        """A world that starts at an epoch second."""
        draw = random.Random(seed)  # noqa: S311 - a benchmark, no secret
        cluster, clock, marks = MemoryCluster.of(view), ManualClock(start), list[float]()
        metrics = MemoryMetrics(cluster.pods, kv_blocks, draw)
        loop = Loop(
            cluster=cluster,
            observer=MarkingObserver(cluster, {"memory": metrics}, clock, marks=marks),
            actor=Actor(cluster, clock),
            clock=clock,
            lease=FreeLease(),
        )
        world = cls(cluster, metrics, clock, loop, _marks=marks)
        loop.record = world._decided
        return world

    def pass_time(self) -> None:
        """Until the next tick: new samples, and nodes that their kubelets reported again."""
        self.clock.at_second += TICK_SECONDS
        self.cluster.renew_nodes()
        self.metrics.prepare(self.clock.at_second)
        gc.collect()  # what the preparation left behind is not the tick's

    async def tick(self) -> Parts:
        """One round of the loop, timed at the loop's own seams."""
        self.pass_time()
        self._marks[:] = [time.process_time()]
        await self.loop.tick()
        started, observed, decided = self._marks
        return Parts(observed - started, decided - observed, time.process_time() - decided)

    def _decided(self, record: Record) -> None:
        self._marks.append(time.process_time())
        self.last = record
