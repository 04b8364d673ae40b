"""What the next decision needs to remember of this sample: windows, counters, gaps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvscale.core.decide.demand import SAMPLE_MAX_AGE_SECONDS, Load
from kvscale.core.decide.state import EngineProgress, LoadPoint, PoolState, Recommendation
from kvscale.core.engines.sample import EngineSample
from kvscale.core.snapshot import PodState, PoolSnapshot
from kvscale.core.values import Known, Unknown

LOAD_KEPT_SECONDS = 420.0
"""History of the load: the five minutes that arrivals are compared over, and a margin."""

LOAD_SPACING_SECONDS = 5.0
"""Load points are kept no closer than this, so that a fast loop does not fill the memory."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of this tick against those of the last.

    Attributes:
        new: whether any pod has a sample that the last decision had not seen (rule 10).
    """

    new: bool
    stamps: Mapping[str, float]
    progress: Mapping[str, EngineProgress]
    arrived_tokens: float


def start(pool: PoolSnapshot, state: PoolState | None) -> PoolState:
    """The memory to go on with: another uid under the same name is another object.

    Of another target (made anew, or the pool points elsewhere) the count is adopted and the
    samples count from now; that the pool's demand was once known, and its pace, stay.
    """
    if state is None or (state.uid and state.uid != pool.uid):
        state = PoolState()
    if isinstance(pool.target, Unknown):
        return replace(state, uid=pool.uid)
    if state.target_uid and state.target_uid != pool.target.uid:
        state = PoolState(had_data=state.had_data, scalings=state.scalings)
    return replace(state, uid=pool.uid, target_uid=pool.target.uid)


def read_samples(pods: tuple[PodState, ...], state: PoolState) -> Samples:
    """Compare the samples with the remembered ones and carry the counters on.

    Counters of an engine that restarted begin at 0 again: what it counted since is the
    increase. Pods that do not answer are remembered as they were, those that are gone forgotten.
    """
    there = {pod.uid for pod in pods}
    stamps = {uid: stamp for uid, stamp in state.stamps.items() if uid in there}
    progress = {
        key: seen for key, seen in state.progress.items() if key.rpartition("/")[0] in there
    }
    new = False
    arrived = 0.0
    for pod in pods:
        if not isinstance(pod.metrics, Known):
            continue
        stamp = pod.metrics.stamp or pod.metrics.at
        stamps[pod.uid] = stamp
        new = new or state.stamps.get(pod.uid) != stamp
        for sample in pod.metrics.value:
            key = f"{pod.uid}/{sample.engine}"
            seen = state.progress.get(key)
            progress[key] = _progress(sample, pod.metrics.at, seen)
            if seen is not None:
                arrived += _increase(progress[key].prompt_tokens_total, seen.prompt_tokens_total)
    return Samples(new, stamps, progress, arrived)


def _progress(sample: EngineSample, at: float, seen: EngineProgress | None) -> EngineProgress:
    """The engine's counters now, and when it last got on: emitted, prefilled, or was idle."""
    generated = sample.generation_tokens_total
    prompted = sample.prompt_tokens_total or 0.0
    moved = (
        seen is None
        or not seen.busy  # it has just begun: what it does with that the next sample tells
        or generated is None  # a version without the counter cannot be judged by it
        or sample.running == 0
        or generated != seen.generation_tokens_total
        or prompted != seen.prompt_tokens_total
    )
    return EngineProgress(
        generation_tokens_total=generated or 0.0,
        preemptions_total=sample.preemptions_total or 0.0,
        prompt_tokens_total=prompted,
        at=at if moved or seen is None else seen.at,
        busy=sample.running > 0,
    )


def _increase(now: float, before: float) -> float:
    return now - before if now >= before else now


def remember_unknown(state: PoolState, samples: Samples, now: float, *, idle: bool) -> PoolState:
    """The memory after a tick without demand: a removal has to wait for a whole window after it.

    Args:
        state: before.
        samples: of this tick.
        now: epoch seconds.
        idle: the count is 0: there is no demand to know, so it is not unknown either.
    """
    since = state.unknown_since if state.unknown_since is not None else now
    return replace(
        state,
        stamps=samples.stamps,
        progress=samples.progress,
        unknown_since=None if idle else since,
        complete_since=None,
        wanted=None,
        wanted_milli=None,
    )


def remember(
    state: PoolState,
    samples: Samples,
    load: Load,
    *,
    wanted: int,
    wanted_milli: int | None,
    recommended: int,
    now: float,
) -> PoolState:
    """The memory after this tick's samples.

    Args:
        state: before.
        samples: of this tick.
        load: that they show.
        wanted: what was concluded, repeated until a new sample comes.
        wanted_milli: the same before rounding, where it was measured.
        recommended: for the stabilisation windows.
        now: epoch seconds.
    """
    # A loop that stood still (suspended, without the lease, without its caches) has seen nothing.
    stood_still = bool(state.load) and now - state.load[-1].at > SAMPLE_MAX_AGE_SECONDS
    since = None if stood_still else state.complete_since
    state = replace(
        state,
        stamps=samples.stamps,
        progress=samples.progress,
        had_data=True,
        unknown_since=None,
        complete_since=now if since is None else since,
        wanted=wanted,
        wanted_milli=wanted_milli,
    )
    if not samples.new:
        return state
    return replace(
        state,
        recommendations=(*state.recommendations, Recommendation(now, recommended)),
        load=_with_point(state.load, samples, load, now),
    )


def forget_old(state: PoolState, window_seconds: float, now: float) -> PoolState:
    """Drop recommendations that no window reaches back to."""
    kept = tuple(seen for seen in state.recommendations if seen.at > now - window_seconds)
    return replace(state, recommendations=kept)


def _with_point(
    points: tuple[LoadPoint, ...], samples: Samples, load: Load, now: float
) -> tuple[LoadPoint, ...]:
    blocks = load.demand.used_blocks + load.demand.waiting_blocks
    total = (points[-1].arrived_tokens if points else 0.0) + samples.arrived_tokens
    point = LoadPoint(now, blocks, total)
    if len(points) > 1 and now - points[-2].at < LOAD_SPACING_SECONDS:
        points = points[:-1]
    return (*(seen for seen in points if seen.at > now - LOAD_KEPT_SECONDS), point)
