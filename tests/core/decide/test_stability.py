"""Loads over hours: how far and how often the count moves."""

import itertools
import math
import random
from dataclasses import replace

import pytest

from kvscale.core.scaling import PolicyType, Scaling, ScalingPolicy, ScalingRules
from support.course import Course
from support.scenario import spec

HUNDRED = spec(scaling=Scaling(max_replicas=100))
HOUR = 3600.0


def needed(blocks: float) -> int:
    """Replicas for a steady load: its growth is 1.645 * sqrt(N) * 20 blocks."""
    return math.ceil((blocks + 1.645 * math.sqrt(blocks / 20) * 20) / 850)


@pytest.mark.parametrize("startup", [60.0, 300.0])
@pytest.mark.parametrize("every", [0.0, 60.0])
def test_a_step_of_the_load_is_followed_not_doubled(startup, every):
    course = Course(
        load=lambda t: 800 if t < 900 else 5000,
        replicas=2,
        startup=startup,
        sample_every=every,
        spec=HUNDRED,
    ).run(HOUR)
    # Samples a minute apart count what has moved to new pods twice: one pod more.
    assert max(course.counts) <= needed(5000) + (1 if every else 0)
    assert course.counts[-1] in {needed(5000) - 1, needed(5000)}  # 6.5, within 10 % of 6


@pytest.mark.parametrize("startup", [60.0, 300.0])
@pytest.mark.parametrize("every", [0.0, 60.0])
def test_a_ramp_is_met_early_and_its_end_overshoots_by_little(startup, every):
    course = Course(
        load=lambda t: 1000 + 4000 * min(1, max(0, (t - 300) / 900)),
        replicas=2,
        startup=startup,
        sample_every=every,
        spec=HUNDRED,
    ).run(2 * HOUR)
    assert max(course.counts) <= needed(5000) + math.ceil(4000 / 900 * startup / 850)
    assert course.counts[-1] == needed(5000)
    late = [c for c in range(300, 1200, 5) if course.counts[c // 5] < needed_at(c) - 1]
    assert not late


def needed_at(second: int) -> int:
    return math.ceil((1000 + 4000 * (second - 300) / 900) / 1000)


def test_a_burst_of_ten_seconds_asks_for_itself_and_no_more():
    course = Course(load=lambda t: 5000 if 900 <= t < 910 else 800, replicas=2, spec=HUNDRED).run(
        1 * HOUR
    )
    assert max(course.counts) <= needed(5000)
    assert course.reversals == 1
    assert course.counts[-1] == 2


@pytest.mark.parametrize("period", [200, 300, 620, 900])
@pytest.mark.parametrize("every", [0.0, 60.0])
def test_a_square_wave_at_the_cool_down_turns_at_its_pace_at_most(period, every):
    course = Course(
        load=lambda t: 3000 if t % period < period / 2 else 800,
        replicas=2,
        sample_every=every,
        spec=HUNDRED,
    ).run(2 * HOUR)
    downs = [(at, b - a) for at, b, a, _ in course.writes if a < b]
    assert all(size == 1 for _, size in downs)
    assert all(later - sooner >= 300 for (sooner, _), (later, _) in itertools.pairwise(downs))
    assert course.reversals / 2 <= 2 * 3600 / max(period, 300)
    if period <= 300:
        assert course.reversals == 0


@pytest.mark.parametrize("mean", [650, 1650, 4000])
@pytest.mark.parametrize("every", [0.0, 60.0])
def test_noise_of_thirty_percent_turns_the_count_seldom(mean, every):
    noise = random.Random(7)
    course = Course(
        load=lambda _: mean * (1 + 0.3 * noise.uniform(-1, 1)),
        replicas=2,
        sample_every=every,
        spec=HUNDRED,
    ).run(2 * HOUR)
    assert course.reversals / 2 <= 4


@pytest.mark.parametrize("middle", [1100, 1400])
def test_ten_percent_round_a_threshold_is_left_alone(middle):
    noise = random.Random(3)
    course = Course(
        load=lambda _: middle * (1 + 0.1 * noise.uniform(-1, 1)), replicas=3, spec=HUNDRED
    ).run(2 * HOUR)
    assert course.reversals <= 1


def test_the_pace_of_removals_does_not_credit_what_was_added():
    """One pod in half an hour means that, also after a spike that added four."""
    slow = ScalingRules((ScalingPolicy(PolicyType.PODS, 1, 1800),), 300)
    course = Course(
        load=lambda t: 3000 if 600 <= t < 700 else 100,
        spec=spec(scaling=Scaling(max_replicas=100, scale_down=slow)),
    ).run(2 * HOUR)
    downs = [(at, b - a) for at, b, a, _ in course.writes if a < b]
    assert [size for _, size in downs] == [1] * len(downs)
    assert all(later - sooner >= 1800 for (sooner, _), (later, _) in itertools.pairwise(downs))


def test_preempted_requests_that_wait_are_load():
    """A storm: usage falls while the queue grows; nothing may be removed and more is asked for."""

    def dress(seen, seconds):
        def drown(member):
            got = member.metrics.value[0]
            low = replace(got, kv_usage=0.1, running=5, waiting=95, preemptions_total=seconds * 7)
            return replace(member, metrics=replace(member.metrics, value=(low,)))

        return replace(seen, pods=tuple(drown(m) if m.ready else m for m in seen.pods))

    course = Course(load=lambda _: 500, replicas=2, startup=3000, dress=dress, spec=HUNDRED)
    course.run(HOUR / 2)
    assert [after for _, _, after, _ in course.writes] == [needed(4000)]
