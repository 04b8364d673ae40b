"""Residency: what a resident sequence holds, and how long it stays."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.trace import find
from kvscale.core.traffic.declared import LengthPercentiles
from kvscale.core.traffic.fit import Fit, fit
from kvscale.core.traffic.lengths import Lengths
from kvscale.core.traffic.residency import (
    PREFILL_SHARE_LIMIT,
    Residence,
    residence,
    residents,
)

NO_LIMIT = 10**9


def fitted(**declared: int) -> Lengths:
    result = fit(LengthPercentiles(**declared), "lengths")
    assert isinstance(result, Fit)
    return result.lengths


def test_constant_lengths_hold_the_prompt_and_half_the_output() -> None:
    held = residents(Lengths.constant(1000), Lengths.constant(200), NO_LIMIT)
    assert held.resident_tokens == pytest.approx(1100)
    assert held.output_tokens == pytest.approx(200)


def test_long_outputs_are_met_more_often_than_they_arrive() -> None:
    output = fitted(p50=100, p99=2000)
    held = residents(Lengths.constant(1000), output, NO_LIMIT)
    naive = 1000 + output.mean() / 2
    weighted = 1000 + (output.variance() + output.mean() ** 2) / (2 * output.mean())
    assert held.resident_tokens > naive * 1.1
    assert held.resident_tokens == pytest.approx(weighted, rel=0.01)


def test_resident_tokens_are_those_met_by_looking_at_random_decode_steps() -> None:
    prompt, output = fitted(p50=600, p95=3000), fitted(p50=150, p95=700)
    draw = random.Random(3)
    steps = seen = 0.0
    for _ in range(30_000):
        p, o = prompt.quantile(draw.random()), output.quantile(draw.random())
        steps += o
        seen += o * (p + o / 2)
    held = residents(prompt, output, NO_LIMIT)
    assert held.resident_tokens == pytest.approx(seen / steps, rel=0.03)


@given(st.integers(2, 5000), st.integers(1, 5000), st.integers(2, 4000))
def test_nothing_resident_is_longer_than_the_engine_accepts(p: int, o: int, limit: int) -> None:
    held = residents(Lengths.constant(p), Lengths.constant(o), limit)
    assert held.resident_tokens <= limit
    assert held.output_tokens >= 1 - 1e-9


positive = st.floats(1e-6, 1e4)


def stay(
    batch: float, prefill: float, output: float, step: float, work: float | None = None
) -> Residence:
    return residence(
        batch=batch,
        prefill_seconds=prefill,
        prefill_work_seconds=prefill if work is None else work,
        output_tokens=output,
        step_seconds=step,
    )


@given(positive, st.floats(0, 1e3), st.floats(0, 1), positive, st.floats(1e-5, 10))
def test_the_rate_is_the_fixed_point_of_littles_law(
    batch: float, prefill: float, share: float, output: float, step: float
) -> None:
    result = stay(batch, prefill, output, step, work=share * prefill)
    assert math.isfinite(result.requests_per_second)
    assert result.requests_per_second > 0
    assert math.isfinite(result.seconds)
    assert result.prefill_share <= PREFILL_SHARE_LIMIT + 1e-9
    resident = result.requests_per_second * result.seconds
    if result.prefill_bound:
        assert resident <= batch * (1 + 1e-6)
    else:
        assert resident == pytest.approx(batch, rel=1e-6)


def test_solving_the_definition_by_bisection_ends_at_the_same_rate() -> None:
    batch, prefill, work, output, step = 24.0, 0.4, 0.3, 220.0, 0.03
    low, high = 0.0, 1 / work - 1e-12
    for _ in range(200):
        rate = (low + high) / 2
        resident = rate * (prefill + output * step / (1 - rate * work))
        low, high = (rate, high) if resident < batch else (low, rate)
    result = stay(batch, prefill, output, step, work)
    assert result.requests_per_second == pytest.approx(low, rel=1e-9)
    assert not result.prefill_bound


def test_without_prefill_the_textbook_law_remains() -> None:
    result = stay(10.0, 0.0, 100.0, 0.05)
    assert result.seconds == pytest.approx(5.0)
    assert result.requests_per_second == pytest.approx(2.0)


def test_decode_stretches_while_the_engine_prefills_for_others() -> None:
    alone, shared = stay(10.0, 0.3, 100.0, 0.05, work=0.0), stay(10.0, 0.3, 100.0, 0.05)
    assert alone.seconds == pytest.approx(0.3 + 5.0)
    assert shared.seconds > alone.seconds
    assert shared.requests_per_second < alone.requests_per_second


def test_long_prompts_with_short_outputs_are_bound_by_prefill_not_by_cache() -> None:
    result = stay(500.0, 2.0, 10.0, 0.02)
    assert result.prefill_bound
    assert result.requests_per_second == pytest.approx(PREFILL_SHARE_LIMIT / 2.0)


@given(positive, positive, st.floats(0, 100), st.floats(1, 1e4), st.floats(1e-4, 1))
def test_a_larger_batch_never_serves_less(
    small: float, more: float, prefill: float, output: float, step: float
) -> None:
    less = stay(small, prefill, output, step).requests_per_second
    greater = stay(small + more, prefill, output, step).requests_per_second
    assert greater >= less * (1 - 1e-9)


def test_the_trace_lets_a_reader_recompute_the_residence() -> None:
    trace = stay(24.0, 0.4, 220.0, 0.03, work=0.3).trace()
    step = find(trace, "residenceSeconds")
    assert step is not None
    given_values = {name: float(value) for name, value in step.inputs}
    decode = given_values["meanOutputTokens"] * given_values["stepSeconds"]
    recomputed = given_values["prefillSeconds"] + decode / (1 - given_values["prefillShare"])
    assert step.value == pytest.approx(recomputed, rel=2e-3)
    assert step.unit == "seconds"
