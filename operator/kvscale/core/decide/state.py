"""What a decision remembers: one small value in, a new one out.

Only `scalings` and `last_written` have to survive a restart: they hold the pace and the
one-writer rule, and are kept in the pool's status. The rest is rebuilt from the next samples,
always towards caution (a removal needs a complete window first).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvscale.core.snapshot import PoolKey


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
        prompt_tokens_total: sum of the engines' counters; the arrival rate is its slope.
    """

    at: float
    blocks: int
    prompt_tokens_total: float


@dataclass(frozen=True, slots=True)
class EngineProgress:
    """When an engine last emitted a token (rule 12)."""

    generation_tokens_total: float
    preemptions_total: float
    prompt_tokens_total: float
    at: float


@dataclass(frozen=True, slots=True)
class PoolState:
    """Memory of one pool.

    Attributes:
        uid: of the InferencePool; another uid starts afresh.
        stamps: sample stamps of the last decision, per pod uid (rule 10).
        fingerprint: of everything else that the last decision looked at.
        wanted: the last recommendation, repeated until a new sample comes.
        unknown_since: when demand became Unknown; None while it is known.
        complete_since: since when samples have come without a gap; None in a gap.
        last_written: the count that we wrote or adopted; None before the first look.
        foreign: times at which somebody else changed a count of ours (rule 4).
        stalled_by: the manager that changed it, while `Stalled`.
        backoff_until, backoff_seconds: after a stock-out (rule 6).
        startup_seconds: measured creation to ready, newest last.
    """

    uid: str = ""
    stamps: Mapping[str, float] = field(default_factory=dict)
    fingerprint: str = ""
    wanted: int | None = None
    unknown_since: float | None = None
    complete_since: float | None = None
    last_written: int | None = None
    last_written_at: float | None = None
    foreign: tuple[float, ...] = ()
    stalled_by: str = ""
    backoff_until: float = 0.0
    backoff_seconds: float = 0.0
    recommendations: tuple[Recommendation, ...] = ()
    scalings: tuple[ScalingEvent, ...] = ()
    load: tuple[LoadPoint, ...] = ()
    progress: Mapping[str, EngineProgress] = field(default_factory=dict)
    startup_seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """Memory of the loop.

    Attributes:
        pools: by pool key.
        arrivals_frozen_until: removals are frozen until then (rule 13).
    """

    pools: Mapping[PoolKey, PoolState] = field(default_factory=dict)
    arrivals_frozen_until: float = 0.0
