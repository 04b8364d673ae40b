"""How long a request holds how many blocks, against walking through every step of it."""

import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscale.core.capacity.ceiling import CacheGroup, EngineCapacity
from kvscale.core.capacity.roofline import StepTime
from kvscale.core.model.shape import LayerKind
from kvscale.core.planning.occupation import COARSEST, occupation
from kvscale.core.traffic.requests import Requests, measured
from kvscale.core.values import Band

MODEL = StepTime(
    fixed=0.001, dense=0.01, sparse=(), kv_token=1e-8, compute_token=1e-5, compute_pair=1e-9
)
FULL = CacheGroup(LayerKind.FULL_ATTENTION, 4, 16, 1000)
WINDOW = CacheGroup(
    LayerKind.SLIDING_WINDOW, 28, 16, 1000, admitted_tokens=5000, resident_tokens=511
)
STATE = CacheGroup(
    LayerKind.GATED_DELTA_NET,
    4,
    528,
    1000,
    fixed_blocks=1,
)


def engine_of(*groups: CacheGroup) -> EngineCapacity:
    return EngineCapacity(
        block_tokens=16,
        bytes_per_block=1000,
        weight_bytes_per_device=1,
        kv_memory_bytes=Band.point(10**9),
        kv_blocks=Band.point(10**6),
        reserved_blocks=1,
        kv_cache_size_tokens=Band.point(16 * 10**6),
        max_concurrency_milli=Band.point(1000),
        max_model_len=40_000,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
        devices=1,
        groups=groups,
    )


def walked(pairs: list[tuple[int, int]], capacity: EngineCapacity) -> tuple[float, float, float]:
    """Steps, block-steps and squared block-steps of a mean request, one step after the other."""
    steps = first = second = 0.0
    for prompt, output in pairs:
        for grown in range(1, output + 1):
            blocks = capacity.resident_blocks(prompt + grown)
            steps += 1
            first += blocks
            second += blocks * blocks
    return steps / len(pairs), first / len(pairs), second / len(pairs)


requests = st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 800)), min_size=1, max_size=6)
engines = st.sampled_from([engine_of(), engine_of(FULL, WINDOW), engine_of(WINDOW, STATE)])


@settings(max_examples=40, deadline=None)
@given(requests, engines)
def test_every_step_is_met_once_with_what_it_holds(
    pairs: list[tuple[int, int]], capacity: EngineCapacity
) -> None:
    found = measured(pairs)
    assert found is not None
    held = occupation(found, capacity, MODEL)
    steps, first, second = walked(pairs, capacity)
    assert math.fsum(one.decode_steps for one in held) == pytest.approx(steps, rel=1e-9)
    # Neighbouring numbers of blocks are kept as one: their sum and spread stay within a cell.
    room = 1 + 1 / COARSEST
    blocks = math.fsum(one.decode_steps * one.blocks for one in held)
    assert first / room <= blocks <= first * room
    squares = math.fsum(one.decode_steps * one.blocks**2 for one in held)
    assert second / room**2 <= squares <= second * room**2


def test_few_blocks_are_told_apart_exactly() -> None:
    capacity = engine_of()
    found = Requests((30.0, 250.0), (40.0, 10.0), (0.25, 0.75))
    seen: dict[float, float] = defaultdict(float)
    for one in occupation(found, capacity, MODEL):
        seen[one.blocks] += one.decode_steps
    wanted: dict[float, float] = defaultdict(float)
    for prompt, output, weight in ((30, 40, 0.25), (250, 10, 0.75)):
        for grown in range(1, output + 1):
            wanted[capacity.resident_blocks(prompt + grown)] += weight
    assert {k: round(v, 9) for k, v in seen.items() if v} == {
        k: round(v, 9) for k, v in wanted.items()
    }


def test_a_prompt_holds_its_blocks_while_it_is_computed() -> None:
    found = Requests((3000.0,), (1.0,), (1.0,))
    held = occupation(found, engine_of(), MODEL)
    seconds = MODEL.prefill_seconds(3000, 2048)
    assert math.fsum(one.prefill_seconds for one in held) == pytest.approx(seconds)
    assert math.fsum(one.prefill_seconds * one.blocks for one in held) == pytest.approx(
        seconds * 188, rel=0.03
    )


def test_a_window_bounds_what_is_held() -> None:
    found = Requests((20_000.0,), (5000.0,), (1.0,))
    held = occupation(found, engine_of(WINDOW), MODEL)
    assert {one.blocks for one in held} == {32.0}


def test_the_work_is_bounded() -> None:
    found = Requests((1.0,), (1e6,), (1.0,))
    assert len(occupation(found, engine_of(FULL, WINDOW), MODEL)) < 400
