"""Replicas by overflow probability: the smallest number, and what it says of itself."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import an_engine
from tests.support.an_engine import ENGINE, H100, SHAPE

from kvscale.core.capacity.ceiling import CacheGroup, EngineCapacity
from kvscale.core.model.shape import LayerKind
from kvscale.core.planning.floor import Floor, floor
from kvscale.core.planning.growth import planned_growth, residents_allowed
from kvscale.core.planning.overflow_plan import OverflowPlan
from kvscale.core.spec import Planning, PlanningMode
from kvscale.core.trace import find
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.traffic.requests import measured
from kvscale.core.values import Band, Unknown

CAPACITY = replace(
    an_engine.CAPACITY,
    kv_memory_bytes=Band(8 * 2**30, 9 * 2**30, 10 * 2**30),
    kv_blocks=Band(4001, 5001, 6001),
    kv_cache_size_tokens=Band(64_000, 80_000, 96_000),
    max_concurrency_milli=Band(2000, 2500, 3000),
)
TRAFFIC = Traffic(
    mean_per_minute=2400,
    peak_per_minute=9000,
    prompt_tokens=LengthPercentiles(mean=900, p50=600, p90=2100, p95=3300, p99=7800),
    output_tokens=LengthPercentiles(mean=220, p50=160, p90=480, p95=640, p99=1400),
)
OVERFLOW = PlanningMode.OVERFLOW_PROBABILITY


def compute(
    traffic: Traffic = TRAFFIC,
    *,
    capacity: EngineCapacity = CAPACITY,
    accepted: int = 1000,
    engines: int = 1,
    mode: PlanningMode = OVERFLOW,
) -> Floor | Unknown:
    return floor(
        SHAPE,
        ENGINE,
        H100,
        capacity,
        traffic=traffic,
        percentile=95,
        target_occupancy_percent=85,
        engines_per_replica=engines,
        mode=mode,
        overflow_per_million=accepted,
    )


def known(*arguments: Traffic, **changes: object) -> tuple[Floor, OverflowPlan]:
    result = compute(*arguments, **changes)  # type: ignore[arg-type]  # forwarded as they are
    assert isinstance(result, Floor), result
    assert result.overflow is not None
    return result, result.overflow


def with_lengths(prompt: int, output: int, rate: int) -> Traffic:
    return Traffic(mean_per_minute=rate, requests=measured([(prompt, output)]))


def constant(prompt: int, output: int, rate: int) -> Traffic:
    return Traffic(
        mean_per_minute=rate,
        prompt_tokens=LengthPercentiles(p50=prompt, p99=prompt),
        output_tokens=LengthPercentiles(p50=output, p99=output),
    )


@settings(max_examples=12, deadline=None)
@given(
    st.integers(50, 100_000),
    st.sampled_from([1, 100, 1000, 10_000, 100_000, 500_000]),
    st.integers(1, 4),
    st.integers(2500, 30_000),
)
def test_one_replica_less_would_overflow_too_often(
    rate: int, accepted: int, engines: int, blocks: int
) -> None:
    capacity = replace(CAPACITY, kv_blocks=Band.point(blocks))
    traffic = replace(TRAFFIC, mean_per_minute=rate, peak_per_minute=None)
    result, found = known(traffic, accepted=accepted, engines=engines, capacity=capacity)
    count = found.at_mean
    assert count is not None
    assert result.at_mean == count.replicas >= 1
    assert count.probability <= accepted / 1e6
    assert count.probability_of_one_less > accepted / 1e6 or result.bound != "KV"
    # The rate that a replica is said to serve leads to the same number.
    assert count.replicas * (result.requests_per_minute_milli + 1) / 1000 >= rate * 0.99


def test_a_smaller_risk_asks_for_more() -> None:
    asked = [known(accepted=accepted)[0].at_peak or 0 for accepted in (1, 1000, 10_000, 100_000)]
    assert asked == sorted(asked, reverse=True)
    assert asked[0] > asked[-1]


def test_a_large_engine_needs_fewer_than_by_percentile_and_a_small_one_more() -> None:
    large = replace(CAPACITY, kv_blocks=Band.point(100_000), max_num_seqs=2048)
    by_percentile = compute(capacity=large, mode=PlanningMode.PERCENTILE)
    assert isinstance(by_percentile, Floor)
    assert (known(capacity=large)[0].at_peak or 0) < (by_percentile.at_peak or 0)
    small = replace(CAPACITY, kv_blocks=Band.point(1200))
    by_percentile = compute(capacity=small, mode=PlanningMode.PERCENTILE)
    assert isinstance(by_percentile, Floor)
    assert by_percentile.overflow is None
    assert (known(capacity=small)[0].at_peak or 0) > (by_percentile.at_peak or 0)


def test_the_low_end_of_the_band_decides() -> None:
    wide = replace(CAPACITY, kv_blocks=Band(4001, 90_000, 400_000))
    assert known(capacity=wide)[0].at_peak == known()[0].at_peak


def test_an_engine_must_hold_the_rarest_request_by_itself() -> None:
    _, found = known()
    assert found.rare_blocks == CAPACITY.blocks_for(found.rare_tokens)
    result = compute(capacity=replace(CAPACITY, kv_blocks=Band.point(found.rare_blocks)))
    assert isinstance(result, Unknown)
    assert result.reason == "PlanningRequestDoesNotFit"
    assert "p99.9" in result.message
    enough = replace(CAPACITY, kv_blocks=Band.point(found.rare_blocks + 1))
    assert isinstance(compute(capacity=enough), Floor)


def test_slots_and_prompts_limit_as_by_percentile() -> None:
    short = constant(20, 20, 600_000)
    by_percentile = compute(short, mode=PlanningMode.PERCENTILE)
    assert isinstance(by_percentile, Floor)
    result, _ = known(short)
    assert (result.bound, result.at_mean) == ("Sequences", by_percentile.at_mean)
    long = constant(8000, 4, 6000)
    by_percentile = compute(long, mode=PlanningMode.PERCENTILE)
    assert isinstance(by_percentile, Floor)
    roomy = replace(CAPACITY, kv_blocks=Band.point(80_000))
    result, found = known(long, capacity=roomy)
    assert (result.bound, result.at_mean) == ("Prefill", by_percentile.at_mean)
    assert found.at_mean is not None
    assert found.at_mean.probability < 1e-6


def test_engines_of_a_replica_share_its_load() -> None:
    one, four = known()[0].at_peak or 0, known(engines=4)[0].at_peak or 0
    assert four == -(-one // 4)


def test_no_rate_needs_no_replica() -> None:
    result, found = known(replace(TRAFFIC, mean_per_minute=0))
    assert result.at_mean == 0
    assert found.at_mean is None
    assert found.at_peak is not None
    assert known(replace(TRAFFIC, peak_per_minute=None))[0].at_peak is None


def test_constant_requests_are_worked_out_by_hand() -> None:
    # 1,000 + 16 tokens hold 63 or 64 blocks (99.8 % of the time one of them); 640 usable blocks
    # are exceeded by eleven at once, ten are 640 or less. P(Poisson(L) > 10) <= 0.1 %: L = 3.49.
    capacity = replace(CAPACITY, kv_blocks=Band.point(641))
    _, found = known(constant(1000, 16, 100_000), capacity=capacity)
    assert found.at_mean is not None
    assert found.at_mean.residents == pytest.approx(3.49, rel=0.01)
    assert found.at_mean.blocks.mean / found.at_mean.residents == pytest.approx(63.5, rel=0.01)


def test_the_tail_holds_its_share() -> None:
    # 6 % of the requests are 10 times as long and stay 10 times as long.
    requests = measured([(100, 100)] * 94 + [(1000, 1000)] * 6)
    _, found = known(Traffic(mean_per_minute=600, requests=requests))
    # Of block-seconds, without prompts: 6 * 10 * 10 of 94 + 600.
    assert found.tail_share == pytest.approx(600 / 694, rel=0.05)
    assert known(with_lengths(500, 100, 600))[1].tail_share == 0


def test_a_trace_takes_the_place_of_the_percentiles() -> None:
    requests = measured([(500, 100)] * 1000)
    with_trace, _ = known(replace(TRAFFIC, requests=requests))
    alone, _ = known(Traffic(mean_per_minute=2400, peak_per_minute=9000, requests=requests))
    assert with_trace == alone


def test_the_floor_shows_the_probability_that_it_accepts() -> None:
    result, _ = known()
    step = find(result.trace, "floorAtPeak")
    assert step is not None
    assert {"probability", "probabilityOfOneLess", "accepted"} <= set(dict(step.inputs))


BY_OVERFLOW = Planning(OVERFLOW)


def growth(requests: int, planning: Planning, usable: int = 1000) -> int:
    return planned_growth(requests, usable, mean_blocks=20.0, variation=1.0, planning=planning)


def test_growth_by_percentile_is_that_of_the_pool() -> None:
    assert growth(40, Planning(percentile=95)) == 209
    assert growth(40, Planning(percentile=50)) == 0
    assert growth(0, Planning(percentile=99)) == growth(0, BY_OVERFLOW) == 0


def test_growth_by_overflow_is_the_room_of_the_engines_that_the_plan_asks_for() -> None:
    result, found = known()
    assert found.at_peak is not None
    per_resident = found.at_peak.blocks.mean / found.at_peak.residents
    requests = round(found.at_peak.residents * found.at_peak.replicas)
    room = planned_growth(
        requests,
        CAPACITY.usable_blocks.low,
        mean_blocks=per_resident,
        variation=found.resident_variation,
        planning=BY_OVERFLOW,
    )
    engines = (requests * per_resident + room) / CAPACITY.usable_blocks.low
    assert engines == pytest.approx(requests / found.largest.batch, rel=0.01)
    # One engine less would decode slower and so hold more: that is not in what is measured.
    assert engines == pytest.approx(result.at_peak, rel=0.12)


@given(st.integers(1, 5000), st.floats(0.05, 500), st.floats(0, 2), st.integers(10, 10**6))
def test_growth_never_falls_with_the_load(
    requests: int, mean: float, variation: float, usable: int
) -> None:
    def planned(count: int) -> float:
        room = planned_growth(
            count, usable, mean_blocks=mean, variation=variation, planning=BY_OVERFLOW
        )
        return count * mean + room

    assert 0 <= planned(requests) <= planned(requests + 1) + 1


@given(st.floats(0.5, 500), st.floats(0, 2), st.integers(1, 500_000))
def test_fewer_residents_are_allowed_at_a_smaller_risk(
    room: float, variation: float, accepted: int
) -> None:
    risk = accepted / 1e6
    allowed = residents_allowed(room, variation, risk)
    assert 0 < allowed <= max(room, 1.0)
    assert residents_allowed(room, variation, risk / 2) <= allowed * 1.02
    assert residents_allowed(room * 2, variation, risk) >= allowed * 0.98


def test_residents_without_spread_are_a_poisson_number() -> None:
    # P(Poisson(3.49) > 10) = 0.1 %.
    assert residents_allowed(10, 0.0, 1e-3) == pytest.approx(3.49, rel=0.01)


def test_layers_that_keep_nothing_overflow_never() -> None:
    empty = CacheGroup(LayerKind.MLA, 1, 16, 1000, fixed_blocks=0)
    result, found = known(capacity=replace(CAPACITY, groups=(empty,)))
    assert result.bound == "Sequences"
    assert (found.tail_share, found.resident_variation) == (0.0, 0.0)
    assert planned_growth(9, 10, mean_blocks=0.0, variation=1.0, planning=BY_OVERFLOW) == 0
