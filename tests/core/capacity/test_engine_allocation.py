"""Against vLLM 0.32.0 itself: weights, pages, tables, blocks and tokens of every row."""

from collections import Counter
from typing import Any

import pytest
from tests.support.allocation_rows import engine_of, identity, rows, shape_of

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.model.shape import LayerKind
from kvscale.core.trace import find

TIB = 1 << 40
ROWS = rows()
IDS = [f"{identity(row)}-{number}" for number, row in enumerate(ROWS)]
WHOLE = [row for row in ROWS if row.get("pipeline_parallel", 1) == 1]
WHOLE_IDS = [f"{identity(row)}-{number}" for number, row in enumerate(WHOLE)]
"""Rows without pipeline stages: of the others only the first stage's tables are known."""


def capacity_of(row: dict[str, Any]) -> EngineCapacity:
    device = Device("huge", 8 * TIB, compute_capability=row["compute_capability"])
    capacity = engine_capacity(shape_of(row), engine_of(row), device, row["available_kv_gib"] << 30)
    assert isinstance(capacity, EngineCapacity), capacity
    return capacity


def test_every_row_is_covered() -> None:
    assert len(ROWS) > 400


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_blocks_and_tokens_are_the_engines_own(row: dict[str, Any]) -> None:
    capacity = capacity_of(row)
    assert capacity.block_tokens == row["block_size"]
    if row.get("pipeline_parallel", 1) == 1:
        assert capacity.bytes_per_block == row["pool_bytes_per_block"]
    assert capacity.kv_blocks.expected == row["num_blocks"]
    assert capacity.kv_blocks.is_point
    assert capacity.kv_cache_size_tokens.expected == row["tokens"]
    assert capacity.max_concurrency_milli.expected == pytest.approx(
        row["max_concurrency"] * 1000, rel=1e-3
    )


KINDS = {
    "FullAttentionSpec": {LayerKind.FULL_ATTENTION},
    "MLAAttentionSpec": {LayerKind.MLA, LayerKind.SPARSE_INDEXER, LayerKind.COMPRESSED_MLA},
    "SlidingWindowSpec": {LayerKind.SLIDING_WINDOW},
    "SlidingWindowMLASpec": {LayerKind.SLIDING_WINDOW_MLA},
    "ChunkedLocalAttentionSpec": {LayerKind.CHUNKED_LOCAL},
    "CrossAttentionSpec": {LayerKind.CROSS_ATTENTION},
    "MambaSpec": {kind for kind in LayerKind if kind.recurrent},
    "UniformTypeKVCacheSpecs": set(LayerKind),
}


@pytest.mark.parametrize("row", WHOLE, ids=WHOLE_IDS)
def test_the_tables_are_the_engines_own(row: dict[str, Any]) -> None:
    ours = sorted(capacity_of(row).groups, key=lambda group: (group.layers, group.kind))
    kinds = sorted(KINDS)
    theirs = sorted(row["groups"], key=lambda group: (group["n"], kinds.index(group["kind"])))
    assert [group.layers for group in ours] == [group["n"] for group in theirs]
    for group in theirs:
        # The engine gives a uniform table's page as the sum over its layers, another's as one.
        uniform = group["kind"] == "UniformTypeKVCacheSpecs"
        size = group["page"] if uniform else group["n"] * group["page"]
        matches = [
            mine for mine in ours
            if mine.kind in KINDS[group["kind"]]
            and mine.layers == group["n"]
            and mine.bytes_per_block == size
            # The block of a state says how far its prefixes reach, not what a block holds.
            and (mine.kind.recurrent or mine.block_tokens == group["block_size"])
        ]  # fmt: skip
        assert matches, group


@pytest.mark.parametrize("row", WHOLE, ids=WHOLE_IDS)
def test_the_page_of_a_layer_is_the_engines_own(row: dict[str, Any]) -> None:
    steps = [step for step in capacity_of(row).trace if step.name == "pageBytes"]
    ours: Counter[int] = Counter()
    for step in steps:
        inputs = dict(step.inputs)
        ours[inputs.get("paddedTo", step.value)] += inputs["layers"]
    theirs: Counter[int] = Counter()
    for layer in row["layers"]:
        theirs[layer["page"]] += layer["n"]
    assert ours == theirs


def test_the_blocks_follow_from_the_trace_alone() -> None:
    row = next(row for row in ROWS if row["num_blocks"] == 5577)
    trace = capacity_of(row).trace
    page, per_block, blocks = (find(trace, n) for n in ("pageBytes", "bytesPerBlock", "kvBlocks"))
    assert page is not None
    assert per_block is not None
    assert blocks is not None
    inputs = dict(page.inputs)
    assert (
        inputs["blockTokens"]
        * inputs["kvHeadsPerDevice"]
        * (inputs["keyBytes"] + inputs["valueBytes"])
        == page.value
    )
    assert page.value * inputs["layers"] == per_block.value
    given = dict(blocks.inputs)
    assert given["kvMemoryBytes"] // given["bytesPerBlock"] == blocks.value == 5577
    assert find(trace, "usableBlocks").value == 5576
