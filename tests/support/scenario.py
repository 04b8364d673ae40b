"""A small language for decision scenarios: pools, pods and nodes with round numbers.

Every engine reports 1,001 blocks of 16 tokens, so 1,000 are usable, and the target occupancy is
85 %: one replica is planned for 850 blocks. Time starts at T.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kvscale.core.decide.decide import decide
from kvscale.core.decide.decision import Decision
from kvscale.core.decide.state import PoolState, ScalingEvent, State, record_write
from kvscale.core.engines.sample import EngineSample
from kvscale.core.inventory import NodeState, PodNeeds, Quota
from kvscale.core.scaling import Scaling
from kvscale.core.snapshot import PodState, PoolSnapshot, Snapshot, TargetState
from kvscale.core.spec import PoolKey, PoolSpec, TargetSpec
from kvscale.core.values import Known, Unknown

T = 1_000_000.0
GPU = "nvidia.com/gpu"
KEY = PoolKey("default", "llama")
TICK = 5.0


def sample(
    usage: float = 0.0,
    running: int = 0,
    waiting: int = 0,
    *,
    blocks: int | None = 1001,
    generated: float | None = None,
    prompted: float | None = None,
    hits: float | None = None,
    queries: float | None = None,
    preemptions: float | None = None,
    engine: str = "0",
) -> EngineSample:
    return EngineSample(
        engine=engine,
        kv_usage=usage,
        running=running,
        waiting=waiting,
        kv_blocks=blocks,
        block_tokens=16 if blocks else None,
        generation_tokens_total=generated,
        prompt_tokens_total=prompted,
        prefix_hits_total=hits,
        prefix_queries_total=queries,
        preemptions_total=preemptions,
    )


def pod(
    name: str,
    load: EngineSample | Unknown | None = None,
    *,
    at: float = T,
    ready: bool = True,
    node: str = "n0",
    **changes,
) -> PodState:
    """A pod that is ready and idle, unless said otherwise; `at` is when it was sampled."""
    metrics: Known | Unknown = Unknown("NotScraped", "the pod has not been scraped")
    if isinstance(load, Unknown):
        metrics = load
    elif ready:
        metrics = Known((load or sample(),), at, at)
    return replace(
        PodState(
            name=name,
            uid=f"uid-{name}",
            node=node,
            ready=ready,
            created_at=T - 3600,
            scheduled_at=T - 3600 if node else None,
            ready_at=T - 3500 if ready else None,
            template_hash="v1",
            metrics=metrics,
        ),
        **changes,
    )


def pods(
    count: int, load: EngineSample | Unknown | None = None, *, at: float = T
) -> tuple[PodState, ...]:
    return tuple(pod(f"p{i}", load, at=at) for i in range(count))


def target(replicas: int, **changes) -> TargetState:
    return replace(
        TargetState(
            kind="Deployment",
            name="llama",
            uid="uid-deployment",
            resource_version="100",
            replicas=replicas,
            ready_replicas=replicas,
            available_replicas=replicas,
            updated_replicas=replicas,
            progressing=False,
            needs=PodNeeds(requests={GPU: 1, "pods": 1}),
            template_hash="v1",
        ),
        **changes,
    )


def spec(*, scaling: Scaling | None = None, **changes) -> PoolSpec:
    return replace(
        PoolSpec(
            target=TargetSpec("Deployment", "llama"), scaling=scaling or Scaling(max_replicas=10)
        ),
        **changes,
    )


def pool(replicas: int, members: tuple[PodState, ...], **changes) -> PoolSnapshot:
    """A pool whose model is unknown: it is sized by what its engines report."""
    return replace(
        PoolSnapshot(
            key=KEY,
            uid="uid-pool",
            generation=1,
            spec=spec(),
            target=target(replicas),
            shape=Unknown("ModelUnknown", "spec.model is not set"),
            engine=Unknown("EngineUnknown", "no arguments"),
            device=Unknown("DeviceUnknown", "no devices"),
            device_resource=GPU,
            devices_per_pod=1,
            pods=members,
        ),
        **changes,
    )


def node(name: str = "n0", gpus: int = 8, used: int = 0, **changes) -> NodeState:
    return replace(
        NodeState(
            name=name,
            labels={},
            allocatable={GPU: gpus, "pods": 110},
            requested={GPU: used, "pods": used},
        ),
        **changes,
    )


NO_NODES = Unknown("NoNodeAccess")


def snapshot(
    *pools: PoolSnapshot, at: float = T, nodes=NO_NODES, quotas: tuple[Quota, ...] = (), **changes
) -> Snapshot:
    return replace(
        Snapshot(
            at=at, pools=tuple(sorted(pools, key=lambda p: p.key)), nodes=nodes, quotas=quotas
        ),
        **changes,
    )


def settled(replicas: int, *, since: float = T - 3600, **changes) -> State:
    """The memory of a pool that has had data for an hour and whose count is ours."""
    memory = replace(
        PoolState(
            uid="uid-pool",
            had_data=True,
            last_written=replicas,
            last_written_at=since,
            complete_since=since,
        ),
        **changes,
    )
    return State(pools={KEY: memory})


def one(snap: Snapshot, state: State | None = None, now: float | None = None) -> Decision:
    """The decision for the only pool."""
    decisions, _ = decide(
        snap, state if state is not None else State(), snap.at if now is None else now
    )
    assert len(decisions) == 1
    return decisions[0]


@dataclass
class World:
    """A pool over time: each tick decides, and what is written takes effect before the next."""

    state: State = field(default_factory=State)
    now: float = T
    version: int = 100

    def tick(self, snap: Snapshot, *, apply: bool = True) -> Decision:
        self.now = snap.at
        decisions, self.state = decide(snap, self.state, self.now)
        decision = decisions[0]
        if apply and decision.write is not None:
            assert decision.counts is not None
            event = ScalingEvent(self.now, decision.counts.current, decision.write, decision.reason)
            base = snap.pools[0].target
            assert isinstance(base, TargetState)
            self.state = record_write(self.state, decision.key, event, base.resource_version)
        return decision
