"""The proof that a removal needs (rule 3).

Every clause must hold, and the first that does not is the answer to "why did it not scale down?".
"""

from collections.abc import Callable
from dataclasses import dataclass

from kvscale.core.decide.blocks import EngineBlocks
from kvscale.core.decide.bounds import observed_bounds
from kvscale.core.decide.demand import Load
from kvscale.core.decide.departure import serving_after
from kvscale.core.decide.state import PoolState
from kvscale.core.decide.supply import Supply
from kvscale.core.scaling import Scaling
from kvscale.core.snapshot import PodState, TargetState
from kvscale.core.trace import Step, counted

MIN_WINDOW_SECONDS = 60.0
"""Gap-free samples that a removal needs even where the stabilisation window is shorter."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal that is asked for, and what is known.

    Attributes:
        remaining: replicas after it.
        load: measured load; never Unknown here (no data, no removal).
        blocks: of one engine.
        engines_per_pod: KV pools of one pod (its data-parallel ranks).
        max_num_seqs: sequences that an engine runs at once; None: not known.
        p99_blocks: blocks of one request at the 99th percentile.
        scaling: of the spec; its stabilisation window is looked at.
        occupancy_percent: share of the usable blocks that planned blocks may fill.
        supply: the pods by what may be expected of them.
        pods: all of the target's, among which a removal chooses.
        target: the workload.
        state: the pool's memory, this tick's samples included.
        new_sample: whether this tick has a sample that no decision has used yet.
        arrivals_frozen: arrivals fell together across pools (rule 13).
        now: epoch seconds.
    """

    remaining: int
    load: Load
    blocks: EngineBlocks
    engines_per_pod: int
    max_num_seqs: int | None
    p99_blocks: int
    scaling: Scaling
    occupancy_percent: int
    supply: Supply
    pods: tuple[PodState, ...]
    target: TargetState
    state: PoolState
    new_sample: bool
    arrivals_frozen: bool
    now: float

    @property
    def serving(self) -> int:
        """Healthy replicas that are left, at the worst: pods that start are no proof."""
        return serving_after(self.target.kind, self.pods, self.supply, self.remaining)


Clause = Callable[[Removal], str | None]


def objection(removal: Removal) -> tuple[str, str] | None:
    """The first clause that does not hold, as (name, sentence); None: the removal is proven."""
    for name, clause in CLAUSES:
        why = clause(removal)
        if why is not None:
            return name, why
    return None


def _new_sample(removal: Removal) -> str | None:
    if removal.new_sample:
        return None
    return "there is no new sample since the last decision"


def _window_complete(removal: Removal) -> str | None:
    window = max(MIN_WINDOW_SECONDS, float(removal.scaling.scale_down.stabilization_window_seconds))
    since = removal.state.complete_since
    if since is None:
        return "samples have just come back after a gap"
    seen = removal.now - since
    if seen >= window:
        return None
    return f"there are {seen:.0f} s of samples without a gap, {window:.0f} s are needed"


def _no_rollout(removal: Removal) -> str | None:
    if not removal.target.progressing:
        return None
    return "a rollout of the target is under way"


def _arrivals_alive(removal: Removal) -> str | None:
    if not removal.arrivals_frozen:
        return None
    return "arrivals fell together across pools: a gateway may be down"


def _someone_serves(removal: Removal) -> str | None:
    if removal.serving > 0 or removal.load.full_blocks == 0:
        return None
    return "no healthy replica would be left to take the load"


def _residents_fit(removal: Removal) -> str | None:
    """Every bound on what is left, with missing pods taken as full and prefix hits as misses."""
    demand = removal.load.demand
    more = removal.load.full_blocks - demand.used_blocks + removal.load.leaving_extra_blocks
    bounds = observed_bounds(
        removal.load,
        removal.blocks,
        max_num_seqs=removal.max_num_seqs,
        engines_per_pod=removal.engines_per_pod,
        target_percent=removal.occupancy_percent,
        extra_blocks=more,
    )
    for bound in bounds:
        if bound.replicas > removal.serving:
            return (
                f"{bound.name} would need {bound.replicas} where {removal.serving} would be left"
                f"{_with(len(demand.missing_pods), removal.load.leaving_extra_blocks)}"
            )
    return None


def _with(unmeasured: int, misses: int) -> str:
    """What was counted beyond what is measured."""
    parts = []
    if unmeasured:
        parts.append(f"{counted(unmeasured, 'unmeasured pod')} as full")
    if misses:
        parts.append("a leaving pod's prefix hits as misses")
    return f", with {' and '.join(parts)}" if parts else ""


def _large_request_fits(removal: Removal) -> str | None:
    """One p99 request into the free blocks of one engine, residents spread evenly."""
    engines = removal.serving * removal.engines_per_pod
    held = removal.load.full_blocks + removal.load.leaving_extra_blocks
    free = removal.blocks.usable - -(-held // engines) if engines else removal.blocks.usable
    if free >= removal.p99_blocks:
        return None
    return (
        f"a p99 request of {removal.p99_blocks:,} blocks would not fit the {max(0, free):,} free "
        f"blocks of one engine"
    )


CLAUSES: tuple[tuple[str, Clause], ...] = (
    ("windowComplete", _window_complete),  # a hole in the data outlives the outage
    ("newSample", _new_sample),  # one decision per sample
    ("noRollout", _no_rollout),  # a rollout takes pods away by itself
    ("arrivalsAlive", _arrivals_alive),  # low load may mean that the front is dead
    ("someoneServes", _someone_serves),  # pods that start serve nobody yet
    ("residentsFit", _residents_fit),  # the sum, its growth, every bound
    ("largeRequestFits", _large_request_fits),  # fragmentation over engines
)
"""In the order in which a person would ask."""


def step(removal: Removal, why: tuple[str, str] | None) -> Step:
    """The trace of the proof."""
    return Step(
        "removalProof",
        "proven" if why is None else f"not proven: {why[0]}",
        "",
        "every clause of the removal proof holds" if why is None else why[1],
        (
            ("remaining", removal.remaining),
            ("serving", removal.serving),
            ("residentBlocks", removal.load.full_blocks),
            ("growthBlocks", removal.load.demand.growth_blocks),
            ("prefixMissBlocks", removal.load.leaving_extra_blocks),
            ("p99Blocks", removal.p99_blocks),
        ),
        "docs/decisions.md, rule 3",
    )
