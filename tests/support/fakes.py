"""A cluster in memory, in virtual time: one fake per port, each a few honest rules.

Pods of a workload come and go with its replica count; a pod is ready so many seconds after it was
made. What the API server refuses (a stale count, a missing object) the fake refuses too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvscale.app.act import Actor
from kvscale.app.loop import Loop
from kvscale.app.observe import Observer
from kvscale.core.engines.sample import EngineSample, PodMetrics
from kvscale.core.inventory import NodeState, OtherScaler, PodNeeds
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
from kvscale.records import PodRecord, PoolObject, ScalerRecord, WorkloadRecord, WorkloadRef

T = 1_000_000.0
GPU = "nvidia.com/gpu"
LLAMA = WorkloadRef("Deployment", "default", "llama")
KEY = PoolKey("default", "llama")


class FakeClock:
    """The event loop's own (virtual) time."""

    def now(self) -> float:
        return T + asyncio.get_running_loop().time()

    def at(self, stamp: float) -> float:
        return stamp

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class FakeLease:
    def __init__(self) -> None:
        self.held = True

    async def acquire(self) -> Known[str] | Unknown:
        return Known("us", 0.0) if self.held else Unknown("NotLeader", "held by another")


@dataclass
class FakeCluster:
    """The API server with its controllers."""

    clock: FakeClock
    startup: float = 30.0
    replicas: dict[WorkloadRef, int] = field(default_factory=dict)
    pods: dict[WorkloadRef, list[PodRecord]] = field(default_factory=dict)
    pools: dict[PoolKey, PoolObject] = field(default_factory=dict)
    nodes: tuple[NodeState, ...] | Unknown = Unknown("NoNodeAccess")
    scalers: tuple[ScalerRecord, ...] = ()
    managers: dict[WorkloadRef, str] = field(default_factory=dict)
    config_maps: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    down: bool = False
    refuse: WriteResult | None = None
    scales: list[tuple[float, str, int, int]] = field(default_factory=list)
    statuses: list[tuple[float, PoolKey]] = field(default_factory=list)
    events: list[EventNote] = field(default_factory=list)
    _made: int = 0
    _version: int = 100

    def add_pool(
        self, key: PoolKey = KEY, ref: WorkloadRef = LLAMA, *, replicas: int = 1, **spec: Any
    ) -> None:
        self.replicas.setdefault(ref, replicas)
        body = {"targets": [{"ref": {"name": ref.name}}], **spec}
        self.pools[key] = PoolObject(key, f"uid-{key.name}", 1, "1", {}, body, {})

    def edit(
        self, key: PoolKey = KEY, annotations: Mapping[str, str] | None = None, **spec: Any
    ) -> None:
        pool = self.pools[key]
        self.pools[key] = replace(
            pool,
            generation=pool.generation + 1,
            spec={**pool.spec, **spec},
            annotations=annotations if annotations is not None else pool.annotations,
        )

    def status(self, key: PoolKey = KEY) -> Mapping[str, Any]:
        return self.pools[key].status

    def condition(self, name: str, key: PoolKey = KEY) -> Mapping[str, Any]:
        return next(c for c in self.status(key)["conditions"] if c["type"] == name)

    def person_scales(
        self, replicas: int, ref: WorkloadRef = LLAMA, manager: str = "kubectl"
    ) -> None:
        self.replicas[ref] = replicas
        self.managers[ref] = manager
        self._version += 1

    def other_scaler(self, kind: str, ref: WorkloadRef = LLAMA) -> None:
        self.scalers = (ScalerRecord(ref, OtherScaler(kind, "theirs")),)

    def view(self) -> ClusterView:
        if self.down:
            return ClusterView(not_synced=("pods: no word from the API server for 120 s",))
        workloads = {}
        for ref, count in self.replicas.items():
            self._control(ref, count)
            ready = sum(self._aged(pod).ready for pod in self.pods[ref])
            workloads[ref] = WorkloadRecord(
                ref=ref,
                uid=f"uid-{ref.name}",
                resource_version=str(self._version),
                generation=1,
                observed_generation=1,
                replicas=count,
                status_replicas=count,
                ready_replicas=ready,
                available_replicas=ready,
                updated_replicas=count,
                paused=False,
                selector={"app": ref.name},
                containers=(),
                needs=PodNeeds(requests={GPU: 1, "pods": 1}),
                template_key="k1",
                replicas_manager=self.managers.get(ref, ""),
            )
        pods = tuple(self._aged(pod) for members in self.pods.values() for pod in members)
        return ClusterView(
            pools=tuple(self.pools.values()),
            workloads=workloads,
            pods=pods,
            nodes=self.nodes,
            scalers=self.scalers,
        )

    def _control(self, ref: WorkloadRef, count: int) -> None:
        """The ReplicaSet controller: makes pods, and deletes those that are not ready first."""
        members = self.pods.setdefault(ref, [])
        while len(members) < count:
            self._made += 1
            name = f"{ref.name}-v1-{self._made}"
            members.append(
                PodRecord(
                    namespace=ref.namespace,
                    name=name,
                    uid=f"uid-{name}",
                    labels={"app": ref.name, "pod-template-hash": "v1"},
                    owner_kind="ReplicaSet",
                    owner_name=f"{ref.name}-v1",
                    node="n0",
                    ip="10.0.0.1",
                    phase="Running",
                    ready=False,
                    deleting=False,
                    created_at=self.clock.now(),
                    scheduled_at=self.clock.now(),
                    ready_at=None,
                    unschedulable_at=None,
                    waiting_reason="",
                    restarts=0,
                    requests={GPU: 1},
                )
            )
        while len(members) > count:
            members.sort(key=lambda pod: self._aged(pod).ready)
            members.pop(0 if not self._aged(members[0]).ready else -1)

    def _aged(self, pod: PodRecord) -> PodRecord:
        ready_at = pod.created_at + self.startup
        ready = self.clock.now() >= ready_at
        return replace(pod, ready=ready, ready_at=ready_at if ready else None)

    async def config_map(self, namespace: str, name: str) -> Mapping[str, str] | Unknown:
        found = self.config_maps.get((namespace, name))
        return found if found is not None else Unknown("ConfigMapNotFound", f"{namespace}/{name}")

    async def scale(self, write: ScaleWrite) -> WriteResult:
        if self.refuse is not None:
            return self.refuse
        if self.replicas[write.target] != write.expected_replicas:
            return WriteResult(WriteOutcome.CONFLICT, "somebody was faster")
        before = self.replicas[write.target]
        self.replicas[write.target] = write.replicas
        self.managers[write.target] = "kvscale"
        self._version += 1
        self.scales.append((self.clock.now() - T, write.target.name, before, write.replicas))
        return WriteResult(WriteOutcome.APPLIED)

    async def apply_status(self, key: PoolKey, status: Mapping[str, Any]) -> WriteResult:
        if key not in self.pools:
            return WriteResult(WriteOutcome.NOT_FOUND)
        self.pools[key] = replace(self.pools[key], status=json.loads(json.dumps(status)))
        self.statuses.append((self.clock.now() - T, key))
        return WriteResult(WriteOutcome.APPLIED)

    async def emit(self, note: EventNote) -> None:
        self.events.append(note)


@dataclass
class FakeMetrics:
    """Every pod reports what `load` says; None is a pod that does not answer."""

    clock: FakeClock
    load: Callable[[MetricsTarget], EngineSample | None] = lambda _: EngineSample(
        "0", 0.0, 0, 0, kv_blocks=1001, block_tokens=16
    )
    down: bool = False
    queries: int = 0

    async def collect(
        self, targets: Sequence[MetricsTarget]
    ) -> Mapping[str, Known[PodMetrics] | Unknown]:
        self.queries += 1
        found: dict[str, Known[PodMetrics] | Unknown] = {}
        for target in targets:
            got = None if self.down else self.load(target)
            found[target.uid] = (
                Unknown("ScrapeFailed", "connection refused")
                if got is None
                else Known((got,), self.clock.now(), self.clock.now())
            )
        return found

    async def close(self) -> None:
        pass


@dataclass
class Rig:
    """An operator on fakes; `run` lets virtual time pass."""

    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.cluster = FakeCluster(self.clock)
        self.metrics = FakeMetrics(self.clock)
        self.lease = FakeLease()
        self.restart()

    def restart(self) -> None:
        """A new process: what it did not write to the cluster is gone."""
        self.loop = Loop(
            cluster=self.cluster,
            observer=Observer(self.cluster, {"scrape": self.metrics}, self.clock),
            actor=Actor(self.cluster, self.clock),
            clock=self.clock,
            lease=self.lease,
        )

    async def run(self, seconds: float) -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(self.loop.run(stop))
        await asyncio.sleep(seconds)
        stop.set()
        await task

    def demand(self, blocks: float, per_request: int = 20) -> None:
        """Spread a load of so many blocks over the ready pods; what does not fit waits."""

        def load(target: MetricsTarget) -> EngineSample:
            ref = next(
                r for r, pods in self.cluster.pods.items() if any(p.uid == target.uid for p in pods)
            )
            ready = sum(self.cluster._aged(pod).ready for pod in self.cluster.pods[ref]) or 1
            share = blocks / ready
            held = min(1000.0, share)
            return EngineSample(
                "0",
                held / 1000,
                round(held / per_request),
                round((share - held) / per_request),
                kv_blocks=1001,
                block_tokens=16,
            )

        self.metrics.load = load
