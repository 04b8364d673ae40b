"""The tail of a compound Poisson sum, against the exact recursion on every whole block."""

import math
import random
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscale.core.traffic.compound_poisson import LATTICE, Moments, Part, exceedance, moments


def exact(parts: list[Part], limit: int) -> float:
    """Panjer's recursion without any lattice but the blocks themselves, scaled against underflow."""
    expected = math.fsum(part.expected for part in parts)
    held, scale = [1.0], -expected
    for total in range(1, limit + 1):
        found = sum(
            part.size * part.expected * held[total - int(part.size)]
            for part in parts
            if part.size <= total
        )
        held.append(found / total)
        if held[-1] > 1e200:
            held = [one * 1e-200 for one in held]
            scale += 200 * math.log(10)
    return 1 - math.exp(math.log(math.fsum(held)) + scale)


def loaded(shape: list[tuple[int, float]], limit: int, scores: float) -> list[Part]:
    """So many residents of these sizes that the limit is that many standard deviations off."""
    first = sum(size * weight for size, weight in shape)
    second = sum(size * size * weight for size, weight in shape)
    low, high = 0.0, limit / first
    for _ in range(60):
        middle = (low + high) / 2
        over = middle * first + scores * math.sqrt(middle * second) > limit
        low, high = (low, middle) if over else (middle, high)
    return [Part(float(size), weight * low) for size, weight in shape]


SHAPES = {
    "one small size": lambda limit: [(limit // 100, 1.0)],
    "one large size": lambda limit: [(limit // 12 + 1, 1.0)],
    "many small ones": lambda limit: [(size, 1.0) for size in range(limit // 200, limit // 90)],
    "chats and documents": lambda limit: [(limit // 150, 1.0), (limit // 9, 0.03)],
    "two documents": lambda limit: [(limit // 400, 1.0), (limit // 3, 0.004)],
    "a heavy tail": lambda limit: [
        (size, size**-1.5) for size in range(2, limit // 4, max(1, limit // 400))
    ],
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("limit", [700, 2500])
def test_the_tail_is_that_of_the_exact_recursion(name: str, limit: int) -> None:
    for scores in (0.5, 1.5, 3.0, 4.5):
        parts = loaded(SHAPES[name](limit), limit, scores)
        true = exact(parts, limit)
        assert exceedance(parts, limit) == pytest.approx(true, rel=0.05), (scores, true)


@pytest.mark.parametrize("limit", [1, 7, 100, LATTICE])
def test_a_small_limit_is_exact(limit: int) -> None:
    parts = [Part(1.0, limit / 5), Part(float(limit // 2 + 1), 0.7), Part(limit + 3.0, 0.01)]
    assert exceedance(parts, limit) == pytest.approx(exact(parts, limit), rel=1e-9)


def test_residents_of_one_block_are_a_poisson_number() -> None:
    terms = accumulate(range(1, 21), lambda term, k: term * 12 / k, initial=math.exp(-12))
    assert exceedance([Part(1.0, 12.0)], 20) == pytest.approx(1 - math.fsum(terms), rel=1e-9)


def test_nothing_resident_holds_nothing_and_one_too_large_is_always_too_much() -> None:
    assert exceedance([], 10) == 0.0
    assert exceedance([Part(5.0, 0.0)], 10) == 0.0
    assert exceedance([Part(11.0, 3.0)], 10) == pytest.approx(1 - math.exp(-3))
    assert exceedance([Part(1.0, 1e6)], 10) == 1.0
    assert exceedance([Part(4000.0, 1e6), Part(2.0, 1e7)], 100_000) == 1.0


def test_millions_of_residents_are_bounded_work() -> None:
    parts = [Part(float(size), 1000.0) for size in range(1, 400)]
    mean = moments(parts).mean
    assert exceedance(parts, int(mean * 0.9)) == pytest.approx(1.0)
    assert exceedance(parts, int(mean * 1.2)) == pytest.approx(0.0, abs=1e-12)


sizes = st.lists(
    st.tuples(st.floats(0.5, 5000), st.floats(0, 50)).map(lambda pair: Part(*pair)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=50)
@given(sizes, st.integers(1, 200_000), st.floats(1.05, 4))
def test_a_probability_falls_with_room_and_rises_with_load(
    parts: list[Part], limit: int, factor: float
) -> None:
    found = exceedance(parts, limit)
    assert 0.0 <= found <= 1.0
    roomier = exceedance(parts, int(limit * factor) + 1)
    busier = exceedance([Part(p.size, p.expected * factor) for p in parts], limit)
    # To the accuracy of the approximation.
    assert roomier <= found * 1.1 + 1e-6
    assert busier >= found / 1.1 - 1e-6


def test_moments_are_those_of_drawn_sums() -> None:
    parts = [Part(3.0, 4.0), Part(20.0, 0.5)]
    source = random.Random(4)

    def poisson(mean: float) -> int:
        count, at = 0, source.expovariate(1)
        while at < mean:
            count, at = count + 1, at + source.expovariate(1)
        return count

    drawn = [sum(p.size * poisson(p.expected) for p in parts) for _ in range(40_000)]
    mean = math.fsum(drawn) / len(drawn)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in drawn) / len(drawn))
    skewness = math.fsum((x - mean) ** 3 for x in drawn) / len(drawn) / deviation**3
    found = moments(parts)
    assert found.mean == pytest.approx(mean, rel=0.02)
    assert found.deviation == pytest.approx(deviation, rel=0.02)
    assert found.skewness == pytest.approx(skewness, rel=0.06)


def test_a_quantile_follows_the_skewness() -> None:
    assert Moments(100, 10).quantile(0.5) == pytest.approx(100)
    assert Moments(100, 10).quantile(0.999) == pytest.approx(130.9, abs=0.1)
    assert Moments(100, 10, 0.6).quantile(0.999) == pytest.approx(139.5, abs=0.2)
