"""The floor: replicas for declared traffic, by Little's law at the planned batch."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.an_engine import CAPACITY, ENGINE, H100, SHAPE

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.devices.device import Device
from kvscale.core.planning.floor import Floor, floor
from kvscale.core.trace import find
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.traffic.residency import PREFILL_SHARE_LIMIT
from kvscale.core.values import Band, Unknown

PROMPT = LengthPercentiles(mean=900, p50=600, p90=2100, p95=3300, p99=7800)
OUTPUT = LengthPercentiles(mean=220, p50=160, p90=480, p95=640, p99=1400)
TRAFFIC = Traffic(
    mean_per_minute=2400, peak_per_minute=9000, prompt_tokens=PROMPT, output_tokens=OUTPUT
)


def compute(
    traffic: Traffic | None = TRAFFIC,
    *,
    capacity: EngineCapacity = CAPACITY,
    device: Device = H100,
    percentile: int = 95,
    occupancy: int = 85,
    engines: int = 1,
) -> Floor | Unknown:
    return floor(
        SHAPE,
        ENGINE,
        device,
        capacity,
        traffic=traffic,
        percentile=percentile,
        target_occupancy_percent=occupancy,
        engines_per_replica=engines,
    )


def known(**changes: object) -> Floor:
    result = compute(**changes)  # type: ignore[arg-type]  # forwarded as they are
    assert isinstance(result, Floor), result
    return result


def with_lengths(prompt: int, output: int, rate: int) -> Traffic:
    return Traffic(
        mean_per_minute=rate,
        prompt_tokens=LengthPercentiles(p50=prompt, p99=prompt),
        output_tokens=LengthPercentiles(p50=output, p99=output),
    )


def number(result: Floor, name: str, key: str = "") -> float:
    step = find(result.trace, name)
    assert step is not None, name
    return float(dict(step.inputs)[key] if key else step.value)


def test_the_floor_of_constant_lengths_is_worked_out_by_hand() -> None:
    # 1,000 + 1,000 tokens: 125 blocks; 25,600 usable blocks at 85 %: 174.08 sequences.
    # A step reads 16.06 GB of weights and 174.08 * 1,500 tokens * 131,072 B of cache at 80 % of
    # 3.35 TB/s, and adds 0.5 ms and 32 layers of 20 us.
    result = known(traffic=with_lengths(1000, 1000, 6000))
    assert result.footprint_tokens == 2000
    assert result.footprint_blocks == 125
    assert result.planned_batch_milli == 174_080
    bandwidth = 0.8 * 3.35e12
    step = (16.06e9 + 174.08 * 1500 * 131_072) / bandwidth + 500e-6 + 32 * 20e-6
    assert number(result, "residentTokens") == 1500
    assert number(result, "stepSeconds") == pytest.approx(step, rel=1e-3)
    flops = 2 * 8.03e9 * 1000 + 32 * 2 * 32 * 256 * (1000 * 1001 // 2)
    work = flops / (0.5 * 989e12)
    assert number(result, "prefillWorkSeconds") == pytest.approx(work, rel=1e-3)
    alone = work + 500e-6 + 32 * 20e-6
    rate = 0.0
    for _ in range(200):
        rate = 174.08 / (alone + 1000 * step / (1 - rate * work))
    assert result.requests_per_minute_milli == pytest.approx(rate * 60_000, rel=1e-3)
    assert result.at_mean == math.ceil(100 / rate)
    assert result.at_peak is None


def test_the_formula_of_the_design_gives_the_same_count() -> None:
    result = known()
    for name, n in (("Mean", result.at_mean), ("Peak", result.at_peak)):
        resident = number(result, f"concurrencyAt{name}")
        by_blocks = resident * result.footprint_blocks / (CAPACITY.usable_blocks.low * 0.85)
        by_slots = resident / CAPACITY.max_num_seqs
        by_prefill = number(result, f"floorAt{name}", "byPrefill")
        assert n == math.ceil(max(by_blocks, by_slots, by_prefill))


def test_the_floor_is_sized_on_the_low_end_of_the_band() -> None:
    wide = replace(CAPACITY, kv_blocks=Band(25_601, 90_000, 400_000))
    assert known(capacity=wide).at_peak == known().at_peak
    low = replace(CAPACITY, kv_blocks=Band(2_601, 27_649, 29_697))
    assert (known(capacity=low).at_peak or 0) > 3 * (known().at_peak or 0)


def test_short_requests_are_bound_by_the_batch_limit() -> None:
    result = known(traffic=with_lengths(20, 20, 600))
    assert result.bound == "Sequences"
    assert result.planned_batch_milli == 256_000


def test_long_prompts_with_short_outputs_are_bound_by_prefill() -> None:
    result = known(traffic=with_lengths(8000, 4, 6000))
    assert result.bound == "Prefill"
    work = number(result, "prefillWorkSeconds")
    assert result.at_mean == math.ceil(100 * work / PREFILL_SHARE_LIMIT)
    resident = number(result, "concurrencyAtMean")
    by_memory = resident * result.footprint_blocks / (CAPACITY.usable_blocks.low * 0.85)
    assert math.ceil(by_memory) < (result.at_mean or 0)


def test_engines_of_a_replica_share_its_load() -> None:
    one, four = known(), known(engines=4)
    assert four.requests_per_minute_milli == pytest.approx(4 * one.requests_per_minute_milli, abs=4)
    assert one.at_peak is not None
    assert (four.at_peak or 0) in {one.at_peak // 4, -(-one.at_peak // 4)}


def test_no_requests_need_no_replica_and_few_need_one() -> None:
    assert known(traffic=replace(TRAFFIC, mean_per_minute=0)).at_mean == 0
    assert known(traffic=replace(TRAFFIC, mean_per_minute=1)).at_mean == 1


def test_one_rate_is_enough_and_the_other_stays_open() -> None:
    assert known(traffic=replace(TRAFFIC, peak_per_minute=None)).at_peak is None
    only_peak = known(traffic=replace(TRAFFIC, mean_per_minute=None))
    assert only_peak.at_mean is None
    assert only_peak.at_peak == known().at_peak


@pytest.mark.parametrize(
    ("traffic", "field"),
    [
        (None, "spec.traffic"),
        (replace(TRAFFIC, prompt_tokens=None), "spec.traffic.promptTokens"),
        (replace(TRAFFIC, output_tokens=None), "spec.traffic.outputTokens"),
        (
            replace(TRAFFIC, mean_per_minute=None, peak_per_minute=None),
            "spec.traffic.requestsPerMinute",
        ),
    ],
)
def test_what_is_missing_is_named(traffic: Traffic | None, field: str) -> None:
    result = compute(traffic=traffic)
    assert isinstance(result, Unknown)
    assert result.reason == "TrafficNotDeclared"
    assert result.message.startswith(f"{field} is not declared")


def test_a_device_of_unknown_speed_has_no_floor() -> None:
    result = compute(device=Device("a-new-card", 2**36))
    assert isinstance(result, Unknown)
    assert result.reason == "DeviceSpeedUnknown"


def test_an_engine_that_cannot_hold_one_planning_request_is_named() -> None:
    small = replace(CAPACITY, kv_blocks=Band(100, 27_649, 29_697))
    result = compute(capacity=small)
    assert isinstance(result, Unknown)
    assert result.reason == "PlanningRequestDoesNotFit"
    assert "99" in result.message


def test_traffic_beyond_the_model_length_is_a_problem_and_still_counted() -> None:
    short = replace(CAPACITY, max_model_len=4096)
    result = known(capacity=short)
    assert [(p.reason, p.field) for p in result.problems] == [
        ("TrafficExceedsModelLength", "spec.traffic.promptTokens.p99")
    ]
    assert "7800" in result.problems[0].message
    assert "4096" in result.problems[0].message
    assert any("maximum length of 4096" in line for line in result.assumptions)
    assert result.footprint_tokens <= 4096
    assert number(result, "residentTokens") <= 4096


def test_lengths_within_the_model_length_are_no_problem() -> None:
    assert known().problems == ()


lengths = st.integers(1, 14_000)


@given(lengths, lengths, st.integers(0, 10**7), st.integers(0, 10**7))
def test_the_floor_rises_with_the_rate(prompt: int, output: int, rate: int, more: int) -> None:
    less = known(traffic=with_lengths(prompt, output, rate))
    greater = known(traffic=with_lengths(prompt, output, rate + more))
    assert less.at_mean is not None
    assert greater.at_mean is not None
    assert less.at_mean <= greater.at_mean


@given(lengths, lengths, st.integers(0, 2000), st.integers(0, 2000), st.integers(1, 10**6))
def test_the_floor_rises_with_the_lengths(
    prompt: int, output: int, longer: int, more: int, rate: int
) -> None:
    less = known(traffic=with_lengths(prompt, output, rate))
    greater = known(traffic=with_lengths(prompt + longer, output + more, rate))
    assert less.at_mean is not None
    assert greater.at_mean is not None
    assert less.at_mean <= greater.at_mean


@given(st.integers(1, 3000), st.floats(1.0, 5.0), st.integers(2, 10**6))
def test_a_heavier_tail_never_lowers_the_floor(p50: int, ratio: float, rate: int) -> None:
    def with_tail(p99: int) -> Traffic:
        lengths = LengthPercentiles(p50=p50, p90=p50 * 2, p99=p99)
        return replace(TRAFFIC, mean_per_minute=rate, prompt_tokens=lengths)

    less = known(traffic=with_tail(p50 * 2)).at_mean
    greater = known(traffic=with_tail(int(p50 * 2 * ratio))).at_mean
    assert less is not None
    assert greater is not None
    assert less <= greater


@given(
    st.integers(1, 40_000),
    st.integers(1, 40_000),
    st.integers(1, 10**9),
    st.fixed_dictionaries(
        {
            "percentile": st.sampled_from([50, 90, 95, 99]),
            "occupancy": st.integers(1, 100),
            "engines": st.integers(1, 16),
        }
    ),
    st.integers(2049, 10**6),
)
def test_a_floor_is_finite_and_enough_by_its_own_account(
    prompt: int, output: int, rate: int, plan: dict[str, int], blocks: int
) -> None:
    capacity = replace(CAPACITY, kv_blocks=Band.point(blocks))
    result = known(traffic=with_lengths(prompt, output, rate), capacity=capacity, **plan)
    assert result.at_mean is not None
    assert result.at_mean >= 1
    served = result.at_mean * (result.requests_per_minute_milli + 1) / 1000
    assert served >= rate * (1 - 1e-6)
    for step in result.trace:
        if not isinstance(step.value, str):
            assert math.isfinite(step.value), step


def test_a_higher_percentile_or_a_lower_occupancy_asks_for_more() -> None:
    by_percentile = [known(percentile=p).at_peak or 0 for p in (50, 90, 95, 99)]
    assert by_percentile == sorted(by_percentile)
    assert by_percentile[0] < by_percentile[-1]
    by_occupancy = [known(occupancy=p).at_peak or 0 for p in (100, 85, 60, 30)]
    assert by_occupancy == sorted(by_occupancy)
    assert by_occupancy[0] < by_occupancy[-1]


def test_the_steps_lead_from_lengths_to_the_floor() -> None:
    names = {step.name for step in known().trace}
    assert {"footprintTokens", "residentTokens", "residenceSeconds", "floorAtPeak"} <= names
