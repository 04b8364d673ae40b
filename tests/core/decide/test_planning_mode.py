"""The planning mode in decisions: measured load, removals, and the declared floor."""

import math
from dataclasses import replace

import pytest

from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.decide.blocks import EngineBlocks
from kvscale.core.decide.declared import read_declared
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import preset
from kvscale.core.planning.growth import residents_allowed
from kvscale.core.scaling import Scaling
from kvscale.core.spec import PlanningMode
from kvscale.core.trace import find
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.values import Unknown
from support.scenario import one, pods, pool, sample, settled, snapshot, spec

BY_OVERFLOW = spec(
    scaling=Scaling(max_replicas=100), planning_mode=PlanningMode.OVERFLOW_PROBABILITY
)


def decided(replicas: int, usage: float, running: int, accepted: int = 1000):
    wanted = replace(BY_OVERFLOW, overflow_per_million=accepted)
    members = pods(replicas, sample(usage, running))
    return one(snapshot(pool(replicas, members, spec=wanted)), settled(replicas))


def test_the_sum_of_an_engine_is_what_is_planned_for():
    # 40 requests of 20 blocks each; an engine of 1,000 may hold 24.3 such requests: 1.65 -> 2.
    got = decided(2, 0.4, 20)
    allowed = residents_allowed(50, 1.0, 0.001)
    assert got.counts.desired == math.ceil(40 / allowed) == 2
    held = got.demand.used_blocks + got.demand.growth_blocks
    assert held == pytest.approx(40 / allowed * 1000, abs=2)


def test_the_number_does_not_depend_on_the_replicas_that_are_there():
    # 120 requests of 20 blocks, on three replicas or on eight: a plan that grew with its own
    # answer would never come to rest.
    few, many = decided(3, 0.8, 40), decided(8, 0.3, 15)
    assert few.demand.used_blocks == many.demand.used_blocks == 2400
    assert few.demand.growth_blocks == many.demand.growth_blocks
    again = decided(few.counts.desired, 2.4 / few.counts.desired, 120 // few.counts.desired)
    assert again.counts.desired == few.counts.desired


def test_a_smaller_risk_asks_for_more():
    # The tolerance of 10 % leaves small differences alone.
    risks = [decided(3, 0.8, 40, accepted).counts.desired for accepted in (500_000, 1000, 1)]
    assert risks == sorted(risks)
    assert risks[0] < risks[-1]


def test_the_trace_names_the_mode():
    step = find(decided(2, 0.4, 20).trace, "growthBlocks")
    assert step is not None
    assert ("overflowPerMillion", 1000) in step.inputs
    by_percentile = one(snapshot(pool(2, pods(2, sample(0.4, 20)))), settled(2))
    step = find(by_percentile.trace, "growthBlocks")
    assert step is not None
    assert ("percentile", 95) in step.inputs


def test_a_removal_keeps_the_risk():
    # 60 requests of 20 blocks: 24.3 an engine, so three replicas stay and the fourth may go.
    assert decided(4, 0.3, 15).counts.desired == 3
    kept = decided(3, 0.4, 20)
    assert kept.counts.desired == 3


def test_the_floor_is_that_of_the_mode():
    shape, device = preset("meta-llama/Llama-3.1-8B"), find_device("NVIDIA-L4")
    engine = EngineConfig(version="0.32", max_model_len=16_384)
    traffic = Traffic(
        mean_per_minute=600,
        prompt_tokens=LengthPercentiles(mean=900, p95=3300),
        output_tokens=LengthPercentiles(mean=220, p95=640),
    )
    capacity = engine_capacity(shape, engine, device)
    unknown = Unknown("NotReported")

    def floor_of(mode: PlanningMode, blocks: EngineBlocks | Unknown = unknown):
        wanted = replace(BY_OVERFLOW, traffic=traffic, planning_mode=mode)
        known = replace(pool(1, ()), shape=shape, engine=engine, device=device)
        return read_declared(wanted, known, capacity, blocks, 1)

    by_percentile = floor_of(PlanningMode.PERCENTILE)
    by_overflow = floor_of(PlanningMode.OVERFLOW_PROBABILITY)
    assert by_overflow.floor_at_mean is not None
    assert by_overflow.floor_at_mean != by_percentile.floor_at_mean
    assert find(by_overflow.steps, "rareRequestBlocks") is not None
    # Residents are met by how long they stay: they vary otherwise than the requests that come.
    assert by_overflow.footprint.variation != by_percentile.footprint.variation
    assert by_overflow.footprint.mean_blocks == by_percentile.footprint.mean_blocks
