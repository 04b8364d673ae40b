"""Against vLLM 0.32.0 itself: weights, pages, blocks and tokens of every covered configuration."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvscale.core.capacity.blocks import RULES
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.device import Device
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.placement import group_bytes, stages
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.dtypes import kv_dtype
from kvscale.core.model.shape import ModelShape
from kvscale.core.trace import find

DATA = Path(__file__).parents[2] / "data"
TIB = 1 << 40


def shape_of(name: str) -> ModelShape | None:
    folder = DATA / "hf_configs" / name
    beside = folder / "hf_quant_config.json"
    shape = read_shape(
        json.loads((folder / "config.json").read_text()),
        name,
        json.loads(beside.read_text()) if beside.exists() else None,
    )
    return shape if isinstance(shape, ModelShape) else None


def load() -> list[tuple[ModelShape, dict[str, Any]]]:
    lines = (DATA / "vllm_allocation.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    shapes = {row["model"]: shape_of(row["model"]) for row in rows}
    return [(shape, row) for row in rows if (shape := shapes[row["model"]]) is not None]


ROWS = load()
IDS = [
    f"{row['model']}-tp{row['tp']}-{row['kv_cache_dtype']}-sm{row['compute_capability']}-{number}"
    for number, (_, row) in enumerate(ROWS)
]


def capacity_of(shape: ModelShape, row: dict[str, Any]) -> EngineCapacity:
    engine = EngineConfig(
        version=row["engine_version"],
        tensor_parallel=row["tp"],
        kv_cache_dtype=row["kv_cache_dtype"],
        max_model_len=row["max_model_len"],
        max_num_seqs=row["max_num_seqs"],
        max_num_batched_tokens=row["max_num_batched_tokens"],
        block_size=row.get("requested_block_size"),
    )
    device = Device("huge", 4 * TIB, compute_capability=row["compute_capability"])
    capacity = engine_capacity(shape, engine, device, row["available_kv_gib"] << 30)
    assert isinstance(capacity, EngineCapacity), capacity
    return capacity


def test_every_row_of_a_kind_with_a_rule_is_covered() -> None:
    lines = (DATA / "vllm_allocation.jsonl").read_text().splitlines()
    plain = [
        row
        for row in map(json.loads, lines)
        if {layer["kind"] for layer in row["layers"]} == {"FullAttentionSpec"}
        or (
            {layer["kind"] for layer in row["layers"]} == {"MLAAttentionSpec"}
            and len(row["layers"]) == 1
        )
    ]
    assert len(plain) == len(ROWS) == 91


@pytest.mark.parametrize(("shape", "row"), ROWS, ids=IDS)
def test_blocks_and_tokens_are_the_engines_own(shape: ModelShape, row: dict[str, Any]) -> None:
    capacity = capacity_of(shape, row)
    assert capacity.block_tokens == row["block_size"]
    assert capacity.bytes_per_block == row["pool_bytes_per_block"]
    assert capacity.kv_blocks.expected == row["num_blocks"]
    assert capacity.kv_blocks.is_point
    assert capacity.kv_cache_size_tokens.expected == row["tokens"]
    assert capacity.max_concurrency_milli.expected == pytest.approx(
        row["max_concurrency"] * 1000, rel=1e-3
    )


@pytest.mark.parametrize(("shape", "row"), ROWS, ids=IDS)
def test_the_page_of_a_layer_is_the_engines_own(shape: ModelShape, row: dict[str, Any]) -> None:
    (layer,) = row["layers"]
    (group,) = shape.layer_groups
    stated = shape.kv_cache_dtype if row["kv_cache_dtype"] == "auto" else row["kv_cache_dtype"]
    kv = kv_dtype(stated)
    assert kv is not None
    page = RULES[group.kind].page_bytes(group, row["block_size"], row["tp"], kv)
    assert (group.layers, page) == (layer["n"], layer["page"])


@pytest.mark.parametrize(("shape", "row"), ROWS, ids=IDS)
def test_weights_per_rank_are_the_engines_own(shape: ModelShape, row: dict[str, Any]) -> None:
    (stage,) = stages(shape.layers, 1)
    # The row was taken before loading, when MLA has not yet made its second copy of kv_b_proj.
    loaded = [g for g in shape.weight_groups if g.name != "absorbedProjection"]
    ours = sum(group_bytes(group, shape.layers, stage, row["tp"], 1) for group in loaded)
    theirs = row["weight_bytes_rank"]
    if shape.quantization:
        assert ours == pytest.approx(theirs, rel=1e-3)
    else:
        assert ours == theirs


@pytest.mark.parametrize(("shape", "row"), ROWS, ids=IDS)
def test_with_everything_weights_stay_within_a_percent(
    shape: ModelShape, row: dict[str, Any]
) -> None:
    ours = capacity_of(shape, row).weight_bytes_per_device
    assert ours == pytest.approx(row["weight_bytes_rank"], rel=0.005)


def test_the_blocks_follow_from_the_trace_alone() -> None:
    shape, row = next(pair for pair in ROWS if pair[1]["num_blocks"] == 5577)
    trace = capacity_of(shape, row).trace
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
    assert page.value * dict(per_block.inputs)["layers of FullAttention"] == per_block.value
    given = dict(blocks.inputs)
    assert given["kvMemoryBytes"] // given["bytesPerBlock"] == blocks.value == 5577
    assert find(trace, "usableBlocks").value == 5576
