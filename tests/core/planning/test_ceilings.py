"""Ceilings at the lengths of a plan, and what a block consists of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.ceilings import (
    headroom,
    length_ceilings,
    planning_lengths,
    round_lengths,
)
from kvscale.core.traffic.declared import LengthPercentiles, Traffic
from kvscale.core.traffic.profile import Profile, profile
from kvscale.core.values import Band

CAPACITY = EngineCapacity(
    block_tokens=16,
    bytes_per_block=2_097_152,
    weight_bytes_per_device=0,
    kv_memory_bytes=Band(1, 2, 3),
    kv_blocks=Band(1001, 2001, 3001),
    reserved_blocks=1,
    kv_cache_size_tokens=Band(16_016, 32_016, 48_016),
    max_concurrency_milli=Band(1_955, 3_908, 5_861),
    max_model_len=8192,
    max_num_seqs=64,
    max_num_batched_tokens=2048,
    devices=1,
)
TRAFFIC = Traffic(
    prompt_tokens=LengthPercentiles(p50=600, p95=3300),
    output_tokens=LengthPercentiles(p50=160, p95=640),
)


def requests() -> Profile:
    found = profile(TRAFFIC, CAPACITY.max_model_len)
    assert isinstance(found, Profile)
    return found


def test_a_ceiling_is_usable_blocks_over_the_blocks_of_one_sequence() -> None:
    (one,) = length_ceilings(CAPACITY, [("p95", 1000)], engines_per_replica=4)
    assert one.blocks == 63
    assert one.per_engine == Band(1000 // 63, 2000 // 63, 3000 // 63)
    assert one.per_replica == Band(4 * (1000 // 63), 4 * (2000 // 63), 4 * (3000 // 63))


@given(st.integers(1, 8192), st.integers(0, 8192))
def test_longer_sequences_never_fit_more_often(tokens: int, more: int) -> None:
    short, long = length_ceilings(CAPACITY, [("a", tokens), ("b", tokens + more)])
    assert short.per_engine.low >= long.per_engine.low
    assert short.per_engine.high >= long.per_engine.high


def test_the_lengths_of_a_plan_ascend_from_the_median_to_the_maximum() -> None:
    names = [name for name, _ in planning_lengths(requests(), 8192)]
    assert names == ["mean", "p50", "p90", "p95", "p99", "max"]
    tokens = [tokens for name, tokens in planning_lengths(requests(), 8192) if name != "mean"]
    assert tokens == sorted(tokens)
    assert tokens[-1] == 8192


def test_without_traffic_only_the_maximum_length_is_looked_at() -> None:
    assert planning_lengths(None, 8192) == (("max", 8192),)


def test_headroom_is_the_ceiling_at_the_mean_less_that_at_the_planning_percentile() -> None:
    ceilings = length_ceilings(CAPACITY, planning_lengths(requests(), 8192))
    by_name = {one.name: one.per_replica for one in ceilings}
    result = headroom(ceilings, 95)
    assert result is not None
    assert result.expected == by_name["mean"].expected - by_name["p95"].expected
    assert result.expected > 0
    assert headroom(ceilings[-1:], 95) is None


@pytest.mark.parametrize(
    ("longest", "names"),
    [
        (8192, ["1024", "2048", "4096", "8192"]),
        (5000, ["1024", "2048", "4096", "5000"]),
        (7, ["7"]),
    ],
)
def test_round_lengths_double_up_to_the_maximum(longest: int, names: list[str]) -> None:
    assert [name for name, _ in round_lengths(longest)] == names
    assert [tokens for _, tokens in round_lengths(longest)] == [int(name) for name in names]


@pytest.mark.parametrize(("tensor", "pipeline"), [(1, 1), (2, 1), (1, 2), (8, 3)])
def test_the_largest_table_is_the_block(tensor: int, pipeline: int) -> None:
    shape, device = preset("meta-llama/Llama-3.1-8B"), find_device("H100")
    assert isinstance(shape, ModelShape)
    engine = EngineConfig(tensor_parallel=tensor, pipeline_parallel=pipeline, max_model_len=8192)
    capacity = engine_capacity(shape, engine, device)
    assert isinstance(capacity, EngineCapacity)
    (group,) = capacity.groups
    assert (group.layers, group.bytes_per_block) == (-(-32 // pipeline), capacity.bytes_per_block)
    assert group.bytes_per_block == -(-32 // pipeline) * 16 * (8 // tensor) * 2 * 128 * 2
