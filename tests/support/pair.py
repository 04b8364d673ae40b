"""Two pools that compete for the GPUs of one node, over hours of virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kvscale.core.decide.decide import decide
from kvscale.core.decide.state import ScalingEvent, State, record_write
from kvscale.core.snapshot import PodState, PoolSnapshot
from kvscale.core.spec import PoolKey, PoolSpec
from kvscale.core.values import Known
from support.scenario import T, node, pod, pool, sample, snapshot, spec


@dataclass
class Pair:
    """Two pools that share GPUs, and a scheduler that serves the pod that has waited longest."""

    gpus: int
    load: float
    spec: PoolSpec = field(default_factory=spec)
    state: State = field(default_factory=State)
    seconds: float = 0.0
    replicas: dict[PoolKey, int] = field(default_factory=dict)
    members: dict[PoolKey, list[PodState]] = field(default_factory=dict)
    writes: list[tuple[float, PoolKey, int, int]] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            key = PoolKey("default", name)
            self.replicas[key], self.members[key] = 1, []

    def run(self, seconds: float) -> Pair:
        end = self.seconds + seconds
        while self.seconds < end:
            self.control()
            now = T + self.seconds
            pools = [self.seen(key) for key in self.replicas]
            used = sum(bool(p.node) for members in self.members.values() for p in members)
            world = snapshot(*pools, at=now, nodes=(node(gpus=self.gpus, used=used),))
            decisions, self.state = decide(world, self.state, now)
            for got in decisions:
                if got.write is not None:
                    before = self.replicas[got.key]
                    self.writes.append((self.seconds, got.key, before, got.write))
                    event = ScalingEvent(now, before, got.write, got.reason)
                    self.state = record_write(self.state, got.key, event, "")
                    self.replicas[got.key] = got.write
            self.seconds += 5
        return self

    def control(self) -> None:
        now = T + self.seconds
        for key, members in self.members.items():
            while len(members) < self.replicas[key]:
                self.made += 1
                members.append(pod(f"{key.name}{self.made}", ready=False, node="", created_at=now))
            while len(members) > self.replicas[key]:
                members.remove(min(members, key=lambda p: (bool(p.node), p.ready, -p.created_at)))
        waiting = sorted(
            (p.created_at, p.name, key)
            for key, ms in self.members.items()
            for p in ms
            if not p.node
        )
        used = sum(bool(p.node) for members in self.members.values() for p in members)
        for at, (_, name, key) in enumerate(waiting):
            members = self.members[key]
            index = next(i for i, p in enumerate(members) if p.name == name)
            if at < self.gpus - used:
                members[index] = replace(
                    members[index], node="n0", scheduled_at=now, unschedulable_at=None
                )
            elif members[index].unschedulable_at is None:
                members[index] = replace(members[index], unschedulable_at=now)
        for members in self.members.values():
            for index, p in enumerate(members):
                if p.node and not p.ready and now - p.scheduled_at >= 60:
                    members[index] = replace(p, ready=True, ready_at=now)

    def seen(self, key: PoolKey) -> PoolSnapshot:
        now, members = T + self.seconds, self.members[key]
        ready = sum(p.ready for p in members) or 1
        held = min(1000.0, self.load / ready)
        got = sample(held / 1000, round(held / 20), round((self.load / ready - held) / 20))
        loaded = tuple(
            replace(p, metrics=Known((got,), now, now)) if p.ready else p for p in members
        )
        base = pool(self.replicas[key], loaded, spec=self.spec)
        return replace(base, key=key, uid=f"uid-{key.name}")

    @property
    def placed(self) -> dict[PoolKey, int]:
        return {key: sum(bool(p.node) for p in members) for key, members in self.members.items()}
