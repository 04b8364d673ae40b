"""What counts as a trend of the load: ramps; neither steps nor noise."""

import random

import pytest

from kvscale.core.decide.state import LoadPoint
from kvscale.core.decide.trend import Trend, find_trend, growth_until_ready
from support.scenario import T


def points(load, seconds=180, every=5, offset=0.0):
    return [LoadPoint(T + offset + s, round(load(s)), 0.0) for s in range(0, seconds, every)]


def slope(load, seconds=180, every=5, offset=0.0):
    return find_trend(points(load, seconds, every, offset), T + offset + seconds).blocks_per_second


def test_a_ramp_is_carried_on_at_its_slope():
    assert slope(lambda s: 1000 + 5 * s) == pytest.approx(5.0)
    assert slope(lambda s: 1000 + 5 * s, every=15) == pytest.approx(5.0)
    assert slope(lambda s: 2000 - 5 * s) == 0


@pytest.mark.parametrize("seconds", [75, 100, 140, 180, 400])
def test_a_step_is_no_trend_wherever_it_lies_in_the_window(seconds):
    for at in range(0, seconds, 5):
        for offset in (0.0, 7.0, 11.0):
            assert slope(lambda s, at=at: 800 if s < at else 5000, seconds, 5, offset) == 0, at


def test_too_few_points_are_none():
    assert slope(lambda s: 1000 + 5 * s, seconds=90) == 0
    assert slope(lambda s: 1000 + 5 * s, every=60) == 0
    assert find_trend([], T) == Trend(0.0, 0)


def test_points_before_the_window_are_forgotten():
    assert slope(lambda s: min(2000, 10 * s), seconds=400) == 0


def test_noise_is_taken_for_a_trend_seldom_and_for_a_small_one():
    noise = random.Random(5)
    found = [slope(lambda _: 2000 * (1 + 0.3 * noise.uniform(-1, 1))) for _ in range(400)]
    taken = [each for each in found if each > 0]
    assert len(taken) <= 0.03 * len(found)
    assert max(taken, default=0.0) < 2.0


def test_a_ramp_under_noise_is_seen_and_not_overrated():
    noise = random.Random(6)
    found = [slope(lambda s: (1000 + 5 * s) * (1 + 0.1 * noise.uniform(-1, 1))) for _ in range(100)]
    assert min(found) > 2.5
    assert max(found) < 6.0


def test_no_more_than_a_doubling_is_looked_ahead_to():
    assert growth_until_ready(Trend(5.0, 12), 60.0, 1000) == 300
    assert growth_until_ready(Trend(5.0, 12), 600.0, 1000) == 1000
