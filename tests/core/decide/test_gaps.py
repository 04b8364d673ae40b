"""Data that comes late, seldom, in part, or not at all: what may follow from it, and what not."""

from dataclasses import replace

import pytest

from kvscale.core.decide.arrivals import arrivals, fell_together
from kvscale.core.decide.decide import decide
from kvscale.core.decide.state import LoadPoint, PoolState
from kvscale.core.scaling import Scaling
from kvscale.core.values import Known, Unknown
from support.course import Course
from support.scenario import KEY, T, one, pod, pods, pool, sample, settled, snapshot, spec

GONE = Unknown("ScrapeFailed", "connection refused")
HUNDRED = spec(scaling=Scaling(max_replicas=100))


def test_a_tick_without_a_sample_does_not_undo_the_tolerance():
    # 895 / 850 = 1.05 is within 10 % of 1, at the sample's tick and at every one after it
    course = Course(load=lambda _: 700, sample_every=60, spec=HUNDRED).run(600)
    assert course.writes == []
    assert course.last.reason == "WithinTolerance"


def test_a_policy_goes_on_towards_the_last_sample_and_no_further():
    # one sample asks for 13; 4 pods in 15 s, then 100 %, without a sample in between
    course = Course(load=lambda _: 10_000, sample_every=60, startup=300, spec=HUNDRED).run(55)
    assert [after for _, _, after, _ in course.writes] == [5, 10, 13]


def test_samples_every_minute_prove_a_removal():
    course = Course(load=lambda _: 100, replicas=3, sample_every=60).run(1200)
    assert [(before, after) for _, before, after, _ in course.writes] == [(3, 2), (2, 1)]


def test_a_loop_that_stood_still_has_a_gap():
    """A suspended process, a lost lease: an hour without a look is no window of samples."""
    course = Course(load=lambda t: 2500 if t < 600 else 100, replicas=4).run(600)
    course.seconds += 3600
    course.run(295)
    assert course.writes == []
    assert "gap" in course.last.message
    course.run(30)
    assert [after for _, _, after, _ in course.writes] == [3]


def test_pods_that_were_not_seen_count_as_full_in_the_window_too():
    """Half of the pods unreachable, then back: one low sample is no window of low samples."""
    course = Course(load=lambda t: 3000 if t < 900 else 300, replicas=4)

    def cut_off(seen, seconds):
        lost = 300 <= seconds < 900 and seen.name in {"p001", "p002"}
        return replace(seen, metrics=GONE) if lost else seen

    course.oddity = cut_off
    course.run(1190)
    assert course.writes == []
    course.run(30)
    assert [after for _, _, after, _ in course.writes] == [3]


def test_a_pod_that_answers_every_other_time_is_seen_to_be_stuck():
    course = Course(load=lambda _: 800, replicas=2)

    def flaky(seen, seconds):
        if seen.name != "p001" or not isinstance(seen.metrics, Known):
            return seen
        frozen = replace(seen.metrics.value[0], generation_tokens_total=5.0, prompt_tokens_total=5)
        answers = seconds % 10 == 0
        return replace(seen, metrics=replace(seen.metrics, value=(frozen,)) if answers else GONE)

    course.oddity = flaky
    course.run(125)  # the last tick is one at which it answers
    assert [after for _, _, after, _ in course.writes] == [3]
    assert "emit no token (p001)" in course.last.message


def test_an_engine_that_has_no_blocks_yet_has_not_reported_any():
    for blocks in (0, 1):
        got = one(snapshot(pool(2, pods(2, sample(0.5, 20, blocks=blocks)))), settled(2))
        assert (got.counts.desired, got.write) == (2, None), "0 blocks are no proof of idleness"
        assert got.reason == "HoldOnUnknown"


def points(rate_before, rate_after, spacing, turn=300.0):
    at, total, found = 0.0, 0.0, []
    while at <= turn + 90:
        found.append(LoadPoint(T + at, 0, total))
        total += spacing * (rate_before if at < turn else rate_after)
        at += spacing
    return tuple(found)


@pytest.mark.parametrize("spacing", [5.0, 15.0, 30.0, 60.0])
def test_arrivals_that_fall_are_seen_at_any_sampling_interval(spacing):
    fallen = PoolState(load=points(100.0, 0.0, spacing))
    steady = PoolState(load=points(100.0, 100.0, spacing))
    now = fallen.load[-1].at + 3.0
    assert arrivals(steady.load, now).recent == pytest.approx(100.0)
    assert fell_together([fallen, fallen], now)
    assert not fell_together([steady, steady], now)
    assert not fell_together([fallen, steady], now)
    assert not fell_together([fallen], now), "one pool alone may simply be done"


def test_a_counter_that_begins_anew_is_no_fall_of_arrivals():
    state = settled(2)
    for second in range(0, 400, 5):
        total = 1000.0 + 10 * second if second < 200 else 10.0 * (second - 200)
        members = pods(2, sample(0.4, 20, prompted=total, generated=total), at=T + second)
        _, state = decide(snapshot(pool(2, members), at=T + second), state, T + second)
    found = arrivals(state.pools[KEY].load, T + 395)
    assert found.recent == pytest.approx(20.0)
    assert found.before == pytest.approx(20.0, rel=0.1)


def test_a_readiness_that_flapped_is_no_start_up():
    """A pod of yesterday that became ready again a minute ago did not start for a day."""
    flapped = tuple(
        replace(p, created_at=T - 90_000, scheduled_at=T - 90_000, ready_at=T - 60)
        for p in pods(2, sample(0.4, 20))
    )
    got = one(snapshot(pool(2, flapped)), settled(2))
    ahead = next(s for s in got.trace if s.name == "startupLookahead")
    assert dict(ahead.inputs)["startupSeconds"] == 120.0


def test_counts_at_zero_are_not_demand_that_is_unknown():
    state = settled(0)
    for second in (0, 400):
        _, state = decide(snapshot(pool(0, ()), at=T + second), state, T + second)
    woken = snapshot(pool(1, (pod("p0", ready=False),)), at=T + 405)
    _, state = decide(woken, state, T + 405)
    assert state.pools[KEY].unknown_since == T + 405
