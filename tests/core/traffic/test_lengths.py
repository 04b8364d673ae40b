"""A declared length distribution: what is declared is kept, what is not is bounded and said."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.traffic.declared import LengthPercentiles
from kvscale.core.traffic.fit import TAIL_RATIO, Fit, fit
from kvscale.core.traffic.lengths import LEVELS, ONE, Lengths, total
from kvscale.core.values import Unknown

PROMPT = LengthPercentiles(mean=900, p50=600, p90=2100, p95=3300, p99=7800)
OUTPUT = LengthPercentiles(mean=220, p50=160, p90=480, p95=640, p99=1400)
EXPONENTIAL = LengthPercentiles(p50=693, p90=2303, p95=2996, p99=4605)  # of mean 1000


def fitted(declared: LengthPercentiles) -> Lengths:
    result = fit(declared, "spec.traffic.promptTokens")
    assert isinstance(result, Fit)
    return result.lengths


@st.composite
def declarations(draw: st.DrawFn) -> LengthPercentiles:
    chosen = draw(st.lists(st.sampled_from(["p50", "p90", "p95", "p99"]), unique=True, min_size=0))
    size = len(chosen)
    tokens = sorted(draw(st.lists(st.integers(1, 200_000), min_size=size, max_size=size)))
    with_mean = not chosen or draw(st.booleans())
    mean = draw(st.integers(1, 200_000)) if with_mean else None
    return LengthPercentiles(mean=mean, **dict(zip(sorted(chosen), tokens, strict=True)))


@given(declarations())
def test_quantiles_ascend_and_every_declared_percentile_is_kept(
    declared: LengthPercentiles,
) -> None:
    lengths = fitted(declared)
    assert len(lengths.values) == len(LEVELS)
    assert all(low <= high for low, high in pairwise(lengths.values))
    assert all(math.isfinite(value) and value >= 1 for value in lengths.values)
    for percent in (50, 90, 95, 99):
        tokens = getattr(declared, f"p{percent}")
        assert tokens is None or lengths.tokens(percent) == tokens


@given(declarations())
def test_a_declared_mean_is_met_or_the_contradiction_is_said(declared: LengthPercentiles) -> None:
    result = fit(declared, "spec.traffic.outputTokens")
    assert isinstance(result, Fit)
    if declared.mean is None:
        assert result.problem is None
    elif result.problem is None:
        assert result.lengths.mean() == pytest.approx(declared.mean, rel=0.006)
    else:
        assert result.problem.reason == "MeanContradictsPercentiles"
        assert result.problem.field == "spec.traffic.outputTokens.mean"
        assert str(declared.mean) in result.problem.message


@given(declarations())
def test_the_tail_is_bounded(declared: LengthPercentiles) -> None:
    lengths = fitted(declared)
    highest = max(
        (t for t in (declared.p50, declared.p90, declared.p95, declared.p99) if t is not None),
        default=declared.mean,
    )
    assert highest is not None
    assert lengths.values[-1] <= TAIL_RATIO * highest + 1


def test_the_full_declaration_of_the_design_is_consistent_and_kept() -> None:
    result = fit(PROMPT, "p")
    assert isinstance(result, Fit)
    assert result.problem is None
    rare = math.ceil(round(result.lengths.quantile(0.999), 6))
    assert rare > 7800
    assert result.assumptions == (
        f"p: beyond p99 the tail goes on at its last slope, p99.9 at {rare} tokens",
    )
    assert result.lengths.mean() == pytest.approx(900, rel=1e-4)
    assert [result.lengths.tokens(p) for p in (50, 90, 95, 99)] == [600, 2100, 3300, 7800]


def test_percentiles_of_an_exponential_give_its_mean_and_variance_back() -> None:
    lengths = fitted(EXPONENTIAL)
    assert lengths.mean() == pytest.approx(1000, rel=0.05)
    assert math.sqrt(lengths.variance()) == pytest.approx(1000, rel=0.10)


def test_two_percentiles_of_a_lognormal_give_the_quantiles_between_and_beyond() -> None:
    lengths = fitted(LengthPercentiles(p50=1000, p95=5180))  # sigma 1
    assert lengths.quantile(0.90) == pytest.approx(1000 * math.exp(1.2816), rel=0.01)
    assert lengths.quantile(0.99) == pytest.approx(1000 * math.exp(2.3263), rel=0.01)
    assert lengths.quantile(0.10) == pytest.approx(1000 * math.exp(-1.2816), rel=0.01)
    assert lengths.mean() == pytest.approx(1000 * math.exp(0.5), rel=0.01)


def test_a_mean_alone_assumes_a_spread_and_says_so() -> None:
    result = fit(LengthPercentiles(mean=1000), "spec.traffic.promptTokens")
    assert isinstance(result, Fit)
    assert result.lengths.mean() == pytest.approx(1000, rel=1e-4)
    assert result.lengths.quantile(0.9) / result.lengths.quantile(0.5) == pytest.approx(
        math.exp(1.2816), rel=0.02
    )
    assert "mean alone" in result.assumptions[0]


def test_equal_percentiles_are_a_constant_length() -> None:
    lengths = fitted(LengthPercentiles(mean=512, p50=512, p99=512))
    assert lengths.variance() == pytest.approx(0, abs=1e-6)
    assert lengths.tokens(1) == lengths.tokens(100) == 512


def test_a_mean_that_the_percentiles_rule_out_is_named() -> None:
    result = fit(LengthPercentiles(mean=100, p50=500, p99=500), "spec.traffic.promptTokens")
    assert isinstance(result, Fit)
    assert result.problem is not None
    assert "500 is used" in result.problem.message


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (LengthPercentiles(), "LengthsNotDeclared"),
        (LengthPercentiles(mean=0), "LengthsInvalid"),
        (LengthPercentiles(p50=-3), "LengthsInvalid"),
        (LengthPercentiles(p50=100, p90=50), "LengthsInvalid"),
    ],
)
def test_what_cannot_be_fitted_is_unknown_and_names_the_field(
    declared: LengthPercentiles, reason: str
) -> None:
    result = fit(declared, "spec.traffic.promptTokens")
    assert isinstance(result, Unknown)
    assert result.reason == reason
    assert result.message.startswith("spec.traffic.promptTokens")


@given(declarations(), st.integers(1, 300_000))
def test_a_cap_leaves_nothing_longer_and_counts_what_it_cut(
    declared: LengthPercentiles, limit: int
) -> None:
    lengths = fitted(declared)
    capped = lengths.capped(limit)
    assert capped.values[-1] <= limit
    assert capped.mean() <= lengths.mean() + 1e-6
    share = lengths.share_above(limit)
    assert 0 <= share <= 1
    assert lengths.values[-1] > limit or share == 0


def test_the_share_above_a_percentile_is_its_complement() -> None:
    assert fitted(PROMPT).share_above(7800) == pytest.approx(0.01, abs=1e-4)
    assert fitted(PROMPT).share_above(600) == pytest.approx(0.50, abs=1e-3)
    assert Lengths.constant(5).share_above(5) == 0
    assert Lengths.constant(5).share_above(4) == 1


def test_the_planning_length_is_the_percentile_of_the_sum_not_the_sum_of_percentiles() -> None:
    prompt, output = fitted(PROMPT), fitted(OUTPUT)
    both = total(prompt, output)
    for percent in (90, 95, 99):
        assert both.tokens(percent) < prompt.tokens(percent) + output.tokens(percent)
        assert both.tokens(percent) > prompt.tokens(percent)
    assert both.mean() == pytest.approx(prompt.mean() + output.mean(), rel=0.01)


def test_percentiles_of_the_sum_are_those_of_a_simulation() -> None:
    prompt, output = fitted(PROMPT), fitted(OUTPUT)
    draw = random.Random(7)
    drawn = sorted(
        prompt.quantile(draw.random()) + output.quantile(draw.random()) for _ in range(40_000)
    )
    both = total(prompt, output)
    for q in (0.1, 0.5, 0.9, 0.95):
        assert both.quantile(q) == pytest.approx(drawn[int(q * len(drawn))], rel=0.03)
    assert both.quantile(0.99) == pytest.approx(drawn[int(0.99 * len(drawn))], rel=0.06)


def test_a_constant_shifts_a_distribution() -> None:
    prompt = fitted(PROMPT)
    both = total(prompt, Lengths.constant(128))
    for percent in (50, 90, 95, 99):
        assert both.quantile(percent / 100) == pytest.approx(prompt.quantile(percent / 100) + 128)


def test_a_percentile_of_a_sum_is_at_most_half_a_cell_off() -> None:
    # The hardest case: beside a nearly constant length every cell stays a step of its own.
    prompt, narrow = fitted(PROMPT), fitted(LengthPercentiles(p50=128, p99=129))
    both = total(prompt, narrow)
    for q, half in ((0.1, 0.01), (0.5, 0.01), (0.9, 0.01), (0.95, 0.0025), (0.99, 0.0025)):
        assert both.quantile(q) >= prompt.quantile(q - half) + narrow.values[0]
        assert both.quantile(q) <= prompt.quantile(q + half) + narrow.values[-1]


@given(st.integers(1, 40), st.integers(1, 40))
def test_the_sum_of_constants_is_constant(first: int, second: int) -> None:
    both = total(Lengths.constant(first), Lengths.constant(second))
    assert set(both.values) == {float(first + second)}


def test_levels_are_whole_and_cover_everything_once() -> None:
    assert LEVELS[0] == 0
    assert LEVELS[-1] == ONE
    assert all(low < high for low, high in pairwise(LEVELS))
    assert {5000, 9000, 9500, 9900} <= set(LEVELS)
