"""A pool over hours of virtual time, without I/O: what the decisions do to a load that is given.

The load is a function of time, in blocks; it spreads evenly over the pods that serve, and what
does not fit waits. Pods are ready `startup` seconds after they were made; every `sample_every`
seconds each is sampled (0: at every tick). Node, quota and pod oddities are set between runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kvscale.api.memory import read_memory, write_memory
from kvscale.core.decide.decide import decide
from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import ScalingEvent, State, record_write
from kvscale.core.engines.sample import EngineSample
from kvscale.core.inventory import NodeState
from kvscale.core.snapshot import PodState, PoolSnapshot
from kvscale.core.spec import PoolSpec
from kvscale.core.values import Known, Unknown
from support.scenario import KEY, NO_NODES, TICK, T, node, pool, sample, snapshot, spec, target

PER_REQUEST = 20
USABLE = 1000


@dataclass
class Course:
    """A pool, its pods and its load; `run` lets time pass.

    Attributes:
        load: blocks at so many seconds after T.
        startup: seconds until a pod is ready.
        sample_every: seconds between samples of one pod; pods are sampled at different moments.
        oddity: changes a pod on its way into the snapshot.
        dress: changes the pool on its way into the snapshot.
        writes: (seconds, before, after, reason) of every write.
    """

    load: Callable[[float], float] = lambda _: 0.0
    replicas: int = 1
    startup: float = 60.0
    sample_every: float = 0.0
    spec: PoolSpec = field(default_factory=spec)
    nodes: tuple[NodeState, ...] | Unknown = NO_NODES
    gpus: int | None = None
    blind: bool = False
    oddity: Callable[[PodState, float], PodState] = lambda seen, _: seen
    dress: Callable[[PoolSnapshot, float], PoolSnapshot] = lambda seen, _: seen
    state: State = field(default_factory=State)
    seconds: float = 0.0
    version: int = 100
    writes: list[tuple[float, int, int, str]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    last: Decision | None = None
    _pods: dict[str, PodState] = field(default_factory=dict)
    _sampled: dict[str, Known[tuple[EngineSample, ...]]] = field(default_factory=dict)
    _made: int = 0
    _manager: str = ""

    def __post_init__(self) -> None:
        self._control(ready=True)

    def run(self, seconds: float, every: float = TICK) -> Course:
        end = self.seconds + seconds
        while self.seconds < end:
            self.tick()
            self.seconds += every
        return self

    def restart(self) -> None:
        """A new process that reads the status: only what it keeps is left."""
        memory, scalings = write_memory(self.state.pools[KEY])
        status = {
            "memory": memory.model_dump(mode="json", by_alias=True, exclude_none=True),
            "scalings": [
                s.model_dump(mode="json", by_alias=True, exclude_none=True) for s in scalings
            ],
        }
        self.state = State(pools={KEY: read_memory(status, "uid-pool")})

    def person_scales(self, replicas: int, manager: str = "kubectl") -> None:
        self.replicas, self._manager = replicas, manager
        self.version += 1

    def tick(self) -> Decision:
        now = T + self.seconds
        self._control()
        self._sample()
        members = tuple(self.oddity(seen, self.seconds) for seen in self._members())
        seen = pool(
            self.replicas,
            members,
            spec=self.spec,
            target=target(
                self.replicas,
                resource_version=str(self.version),
                replicas_manager=self._manager,
            ),
        )
        world = snapshot(self.dress(seen, self.seconds), at=now, nodes=self._nodes())
        (decision,), self.state = decide(world, self.state, now)
        self.last = decision
        if decision.write is not None:
            event = ScalingEvent(now, self.replicas, decision.write, decision.reason)
            self.state = record_write(self.state, KEY, event, str(self.version))
            self.writes.append((self.seconds, self.replicas, decision.write, decision.reason))
            self.replicas, self._manager = decision.write, "kvscale"
            self.version += 1
        self.counts.append(self.replicas)
        return decision

    @property
    def reversals(self) -> int:
        """How often the count changed its direction."""
        ways = [after > before for _, before, after, _ in self.writes]
        return sum(a != b for a, b in itertools.pairwise(ways))

    def _nodes(self) -> tuple[NodeState, ...] | Unknown:
        if self.gpus is None:
            return self.nodes
        return (node(gpus=self.gpus, used=sum(bool(p.node) for p in self._pods.values())),)

    def _control(self, *, ready: bool = False) -> None:
        now = T + self.seconds
        while len(self._pods) < self.replicas:
            self._made += 1
            name = f"p{self._made:03}"
            made = now - (86_400 if ready else 0)
            self._pods[name] = PodState(
                name=name, uid=f"uid-{name}", node="", ready=False, created_at=made,
                template_hash="v1",
            )  # fmt: skip
        for name, seen in list(self._pods.items()):
            self._pods[name] = self._aged(seen, now)
        while len(self._pods) > self.replicas:
            goes = min(self._pods.values(), key=lambda p: (bool(p.node), p.ready, -p.created_at))
            del self._pods[goes.name]
            self._sampled.pop(goes.name, None)

    def _aged(self, seen: PodState, now: float) -> PodState:
        if not seen.node:
            used = sum(bool(p.node) for p in self._pods.values())
            if self.gpus is not None and used >= self.gpus:
                since = seen.unschedulable_at if seen.unschedulable_at is not None else now
                return replace(seen, unschedulable_at=since)
            started = max(seen.created_at, (seen.unschedulable_at and now) or 0.0)
            seen = replace(seen, node="n0", scheduled_at=started, unschedulable_at=None)
        ready_at = seen.scheduled_at + self.startup
        return replace(seen, ready=True, ready_at=ready_at) if now >= ready_at else seen

    def _sample(self) -> None:
        now = T + self.seconds
        serving = [p for p in self._pods.values() if p.ready]
        for index, seen in enumerate(serving):
            last = self._sampled.get(seen.name)
            due = last is None or now - last.at >= self.sample_every
            if not due:
                continue
            if last is None and self.sample_every:
                # Targets are scraped at moments of their own.
                phase = (index * 17) % self.sample_every
                if (self.seconds - phase) % self.sample_every >= TICK:
                    continue
            share = self.load(self.seconds) / len(serving)
            held = min(float(USABLE), share)
            got = sample(
                held / USABLE,
                round(held / PER_REQUEST),
                round((share - held) / PER_REQUEST),
                generated=self.seconds,
                prompted=self.seconds,
            )
            self._sampled[seen.name] = Known((got,), now, now)

    def _members(self) -> list[PodState]:
        gone = Unknown("ScrapeFailed", "connection refused")
        return [
            replace(p, metrics=gone if self.blind else self._sampled.get(p.name, gone))
            for p in self._pods.values()
        ]
