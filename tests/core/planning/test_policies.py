"""Allocation policies: their order, and their numbers by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.presets import preset
from kvscale.core.planning.policies import Policies, Policy, policies
from kvscale.core.refusal import Refusal

ENGINE = EngineConfig(version="0.32", max_model_len=8192, kv_cache_memory_bytes=4 << 30)


def capacity(engine: EngineConfig = ENGINE) -> EngineCapacity:
    shape, device = preset("meta-llama/Llama-3.1-8B-Instruct"), find_device("L4")
    assert not isinstance(shape, Refusal)
    assert not isinstance(device, Refusal)
    found = engine_capacity(shape, engine, device)
    assert isinstance(found, EngineCapacity), found
    return found


def sequences(found: Policies) -> list[int]:
    return [one.sequences.expected for one in found.allocations]


def test_the_policies_by_hand() -> None:
    # 2,047 usable blocks of 16 tokens; 1,000 tokens take 63 blocks, 1,024 take 64, 8,192 take 512.
    found = policies(capacity(), 1000, prefix_tokens=407)
    # 407 shared tokens are 25 whole blocks (400 tokens); 600 tokens of its own take 38 blocks.
    assert found.shared_tokens == 400
    assert sequences(found) == [2047 // 512, 2047 // 64, 2047 // 63, (2047 - 25) // 38]
    assert [one.policy for one in found.allocations] == list(Policy)
    contiguous, buddy, paged, shared = found.allocations
    assert contiguous.reserved_tokens == 8192
    assert buddy.reserved_tokens == 1024
    slot = 2 * 1024 * 64
    assert paged.wasted_bytes == 8 * slot  # 63 blocks have 1,008 slots
    assert buddy.wasted_bytes == 24 * slot
    assert contiguous.wasted_bytes == (8192 - 1000) * slot
    assert shared.wasted_bytes == 8 * slot
    assert shared.shared_blocks == 25


def test_what_is_used_and_what_is_wasted_add_up() -> None:
    found = capacity()
    for one in policies(found, 3000).allocations:
        reserved = one.reserved_blocks * found.bytes_per_block
        used = one.sequences.expected * (reserved - one.wasted_bytes)
        share = used / (found.usable_blocks.expected * found.bytes_per_block)
        assert one.used_share_milli == int(1000 * share)


def test_as_many_prefixes_as_sequences_share_nothing() -> None:
    few, many = (policies(capacity(), 1000, prefix_tokens=480, prefixes=n) for n in (1, 10_000))
    assert few.allocations[-1].sequences.expected > few.allocations[2].sequences.expected
    assert many.allocations[-1].sequences == many.allocations[2].sequences


def test_each_policy_is_a_step_of_the_trace() -> None:
    found = policies(capacity(), 1000, prefix_tokens=64)
    assert [step.value for step in found.trace] == sequences(found)
    assert all(step.formula and step.unit for step in found.trace)


@given(
    tokens=st.integers(1, 8192),
    prefix=st.integers(0, 9000),
    prefixes=st.integers(1, 40),
    memory=st.integers(2 << 30, 6 << 30),
)
def test_no_policy_holds_less_than_the_one_before_it(
    tokens: int, prefix: int, prefixes: int, memory: int
) -> None:
    found = policies(
        capacity(replace(ENGINE, kv_cache_memory_bytes=memory)),
        tokens,
        prefix_tokens=prefix,
        prefixes=prefixes,
    )
    counts = sequences(found)
    assert counts == sorted(counts)
    paged = found.allocations[2]
    assert paged.wasted_bytes < 16 * 2 * 1024 * 64  # at most block - 1 slots
    assert all(0 <= one.used_share_milli <= 1000 for one in found.allocations)
    assert all(one.wasted_bytes >= 0 for one in found.allocations)


@given(
    tokens=st.integers(1, 8192), small=st.integers(2 << 30, 4 << 30), more=st.integers(0, 1 << 30)
)
def test_more_memory_never_holds_fewer(tokens: int, small: int, more: int) -> None:
    before, after = (
        policies(capacity(replace(ENGINE, kv_cache_memory_bytes=size)), tokens, prefix_tokens=100)
        for size in (small, small + more)
    )
    assert all(b <= a for b, a in zip(sequences(before), sequences(after), strict=True))


@pytest.mark.parametrize("tokens", [0, 1, 16, 8192, 100_000])
def test_any_length_is_taken_to_the_engine_s_own_bounds(tokens: int) -> None:
    found = policies(capacity(), tokens, prefix_tokens=10_000)
    assert 1 <= found.tokens <= 8192
    assert found.shared_tokens < found.tokens
