"""What the next decision needs to remember of this sample: windows, counters, gaps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvscale.core.decide.demand import Load
from kvscale.core.decide.state import EngineProgress, LoadPoint, PoolState, Recommendation
from kvscale.core.snapshot import EngineSample, PodState, PoolSnapshot
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
    """The memory to go on with: another uid under the same name is another pool."""
    if state is None or (state.uid and state.uid != pool.uid):
        return PoolState(uid=pool.uid)
    return state if state.uid else replace(state, uid=pool.uid)


def read_samples(pods: tuple[PodState, ...], state: PoolState) -> Samples:
    """Compare the samples with the remembered ones and carry the counters on.

    Counters of an engine that restarted begin at 0 again: what it counted since is the
    increase. Pods that are gone are forgotten.
    """
    stamps: dict[str, float] = {}
    progress: dict[str, EngineProgress] = {}
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
    )


def _increase(now: float, before: float) -> float:
    return now - before if now >= before else now


def remember(
    state: PoolState, samples: Samples, load: Load | Unknown, wanted: int, now: float
) -> PoolState:
    """The memory after this tick's samples; windows are trimmed to what is ever asked of them."""
    state = replace(state, stamps=samples.stamps, progress=samples.progress)
    if isinstance(load, Unknown):
        # A gap: a removal has to wait for a whole window of samples after it (fault 6).
        return replace(
            state,
            unknown_since=state.unknown_since if state.unknown_since is not None else now,
            complete_since=None,
            wanted=None,
        )
    return replace(
        state,
        had_data=True,
        unknown_since=None,
        complete_since=state.complete_since if state.complete_since is not None else now,
        wanted=wanted,
        recommendations=(*state.recommendations, Recommendation(now, wanted))
        if samples.new
        else state.recommendations,
        load=_with_point(state.load, samples, load, now),
    )


def forget_old(state: PoolState, window_seconds: float, now: float) -> PoolState:
    """Drop recommendations that no window reaches back to."""
    kept = tuple(seen for seen in state.recommendations if seen.at > now - window_seconds)
    return replace(state, recommendations=kept)


def _with_point(
    points: tuple[LoadPoint, ...], samples: Samples, load: Load, now: float
) -> tuple[LoadPoint, ...]:
    if not samples.new:
        return points
    blocks = load.demand.used_blocks + load.demand.waiting_blocks
    total = (points[-1].arrived_tokens if points else 0.0) + samples.arrived_tokens
    point = LoadPoint(now, blocks, total)
    if len(points) > 1 and now - points[-2].at < LOAD_SPACING_SECONDS:
        points = points[:-1]
    return (*(seen for seen in points if seen.at > now - LOAD_KEPT_SECONDS), point)
