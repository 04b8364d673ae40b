"""Requests of a trace: kept together, made few, and nothing of their means lost."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.traffic.lengths import Lengths
from kvscale.core.traffic.profile import Profile, independent, profile
from kvscale.core.traffic.requests import BIN, Requests, measured

pairs = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)), min_size=1, max_size=60)


def measured_of(found: list[tuple[int, int]]) -> Requests:
    result = measured(found)
    assert result is not None
    return result


def of_trace(found: list[tuple[int, int]], limit: int = 10**7) -> Profile:
    result = profile(Traffic(requests=measured_of(found)), limit)
    assert isinstance(result, Profile)
    return result


@given(pairs)
def test_means_and_shares_are_kept(found: list[tuple[int, int]]) -> None:
    result = measured_of(found)
    assert result.count == len(found)
    assert math.fsum(result.weights) == pytest.approx(1)
    prompts = math.fsum(w * p for w, p in zip(result.weights, result.prompts, strict=True))
    assert prompts == pytest.approx(sum(max(1, p) for p, _ in found) / len(found))
    assert min(result.outputs) >= 1


def test_a_large_trace_becomes_few_points() -> None:
    found = [(1 + i * 7 % 9000, 1 + i * 13 % 700) for i in range(30_000)]
    result = measured_of(found)
    assert len(result.weights) < 9000
    assert (
        max(
            p / q
            for p, q in zip(sorted(result.prompts)[1:], sorted(result.prompts)[:-1], strict=True)
        )
        < BIN**60
    )


def test_no_request_is_no_distribution() -> None:
    assert measured([]) is None


@given(pairs, st.integers(2, 10**5))
def test_the_engine_ends_what_is_too_long(found: list[tuple[int, int]], limit: int) -> None:
    capped = measured_of(found).capped(limit)
    assert max(capped.totals()) <= limit
    assert min(capped.outputs) >= 1 - 1e-9


def test_the_tail_keeps_its_own_weight() -> None:
    found = measured_of([(100, 10)] * 3 + [(9000, 500)])
    tail = found.longer_than(1000)
    assert tail is not None
    assert tail.weights == (0.25,)
    assert found.longer_than(10_000) is None


def test_prompt_and_output_of_a_trace_go_together() -> None:
    # Long prompts with short outputs: what is held is near the short prompts with long outputs.
    found = of_trace([(8000, 10)] * 500 + [(100, 500)] * 500)
    weighted = (10 * (8000 + 5) + 500 * (100 + 250)) / 510
    assert found.residents.resident_tokens == pytest.approx(weighted)
    apart = independent(Lengths.constant(4050), Lengths.constant(255), 10**7)
    assert apart.totals() == (4305.0,)
    assert found.total.quantile(0.2) == pytest.approx(600)
    assert found.total.quantile(0.8) == pytest.approx(8010)
    assert any("1000 requests of a trace" in line for line in found.assumptions)


def test_the_percentiles_of_a_trace_are_its_own() -> None:
    found = of_trace([(length, 1) for length in range(1, 2001)])
    for percent in (50, 90, 95, 99):
        assert found.total.tokens(percent) == pytest.approx(20 * percent, rel=0.03)
    assert found.prompt.mean() == pytest.approx(1000, rel=0.01)


def test_a_short_trace_says_that_it_does_not_tell_the_tail() -> None:
    assert any("does not tell p99.9" in line for line in of_trace([(10, 10)] * 50).assumptions)
    assert not any("p99.9" in line for line in of_trace([(10, 10)] * 1000).assumptions)


def test_prompts_that_the_engine_refuses_are_a_problem() -> None:
    found = of_trace([(100, 10)] * 9 + [(9000, 10)], limit=4096)
    assert [(one.reason, one.field) for one in found.problems] == [
        ("TrafficExceedsModelLength", "--trace")
    ]
    assert "10.00%" in found.problems[0].message
    assert found.total.values[-1] <= 4096


def test_independent_lengths_are_every_pair_once() -> None:
    result = profile(
        Traffic(
            prompt_tokens=LengthPercentiles(p50=500, p95=2000),
            output_tokens=LengthPercentiles(p50=100, p95=900),
        ),
        32_768,
    )
    assert isinstance(result, Profile)
    found = result.requests(32_768)
    assert math.fsum(found.weights) == pytest.approx(1)
    held = math.fsum(
        w * o * (p + o / 2)
        for w, p, o in zip(found.weights, found.prompts, found.outputs, strict=True)
    )
    outputs = math.fsum(w * o for w, o in zip(found.weights, found.outputs, strict=True))
    assert held / outputs == pytest.approx(result.residents.resident_tokens, rel=1e-6)
