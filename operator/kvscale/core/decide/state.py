"""What a decision remembers: one small value in, a new one out.

Only `scalings`, `last_written`, `last_written_at`, `foreign` and `had_data` have to survive a
restart: they hold the pace, the one-writer rule and the meaning of "no data yet", and are kept in
the pool's status. The rest is rebuilt from the next samples, always towards caution (a removal
needs a complete window first).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kvscale.core.spec import PoolKey


@dataclass(frozen=True, slots=True)
class ScalingEvent:
    """A write of ours that took effect."""

    at: float
    before: int
    after: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What the bounds asked for at one sample, for the stabilisation windows."""

    at: float
    replicas: int


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """The pool's load at one sample.

    Attributes:
        blocks: used and waiting, in blocks.
        arrived_tokens: prompt tokens since the operator started, resets of counters bridged;
            its slope is the arrival rate.
    """

    at: float
    blocks: int
    arrived_tokens: float


@dataclass(frozen=True, slots=True)
class EngineProgress:
    """An engine's counters at the last sample, and when it last emitted a token (rule 12).

    Attributes:
        at: epoch seconds of the last sample that showed it getting on.
        busy: whether requests ran at the last sample.
    """

    generation_tokens_total: float
    preemptions_total: float
    prompt_tokens_total: float
    at: float
    busy: bool = True


@dataclass(frozen=True, slots=True)
class ReportedBlocks:
    """An engine's own ceiling: total blocks, and tokens per block (None: not reported)."""

    kv_blocks: int
    block_tokens: int | None


@dataclass(frozen=True, slots=True)
class PoolState:
    """Memory of one pool.

    Attributes:
        uid: of the InferencePool; another uid starts afresh.
        target_uid: of the workload; another uid is another count, and other engines.
        had_data: whether demand was ever known: "no data yet" and "data lost" differ (rule 2).
        stamps: sample stamps of the last decision, per pod uid (rule 10).
        wanted: the last recommendation of the data, repeated until a new sample comes.
        wanted_milli: the same before rounding, in thousandths, where it was measured.
        unknown_since: when demand became Unknown; None while it is known.
        complete_since: since when samples have come without a gap; None in a gap.
        last_written: the count that we wrote or adopted; None before the first look.
        last_written_at: when we wrote it; None if it was adopted from somebody else.
        write_base_version: resourceVersion that our last write replaced: a cache that still
            shows it has not seen the write yet.
        write_error: why the last write did not take effect; "" if it did.
        foreign: times at which somebody else changed a count that we had written (rule 4).
        foreign_manager: who did it last.
        backoff_until, backoff_seconds: after a stock-out (rule 6).
        recommendations: for the stabilisation windows, oldest first.
        scalings: our writes, oldest first, for the policies.
        load: for the trend and the arrival rate, oldest first.
        progress: by "pod uid/engine".
        reported: blocks that engines reported, by template hash: a ceiling that was seen stays
            known while metrics are away, and a rollout has two.
    """

    uid: str = ""
    target_uid: str = ""
    had_data: bool = False
    stamps: Mapping[str, float] = field(default_factory=dict)
    wanted: int | None = None
    wanted_milli: int | None = None
    unknown_since: float | None = None
    complete_since: float | None = None
    last_written: int | None = None
    last_written_at: float | None = None
    write_base_version: str = ""
    write_error: str = ""
    foreign: tuple[float, ...] = ()
    foreign_manager: str = ""
    backoff_until: float = 0.0
    backoff_seconds: float = 0.0
    recommendations: tuple[Recommendation, ...] = ()
    scalings: tuple[ScalingEvent, ...] = ()
    load: tuple[LoadPoint, ...] = ()
    progress: Mapping[str, EngineProgress] = field(default_factory=dict)
    reported: Mapping[str, ReportedBlocks] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """Memory of the loop.

    Attributes:
        pools: by pool key.
        arrivals_frozen_until: removals are frozen until then (rule 13).
    """

    pools: Mapping[PoolKey, PoolState] = field(default_factory=dict)
    arrivals_frozen_until: float = 0.0


KEPT_SCALINGS = 20
"""Writes remembered: enough for any policy's period at the default pace."""


def record_write(
    state: State, key: PoolKey, event: ScalingEvent, base_version: str, error: str = ""
) -> State:
    """The state after a write was tried.

    Args:
        state: before.
        key: the pool.
        event: what was written, and when.
        base_version: resourceVersion of the target that the write replaced.
        error: why the write did not take effect; "" if it did.
    """
    pool = state.pools[key]
    if error:
        pool = replace(pool, write_error=error)
    else:
        pool = replace(
            pool,
            write_error="",
            last_written=event.after,
            last_written_at=event.at,
            write_base_version=base_version,
            scalings=(*pool.scalings, event)[-KEPT_SCALINGS:],
        )
    return replace(state, pools={**state.pools, key: pool})
