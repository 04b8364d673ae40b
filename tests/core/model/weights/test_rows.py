"""Weights of a rank against vLLM 0.32.0 itself, for every row and every architecture of the data."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.allocation_rows import DATA, folder_of, identity, rows

from kvscale.core.capacity.placement import group_bytes, stages
from kvscale.core.model.architectures.table import ARCHITECTURES
from kvscale.core.model.checkpoint.quantization import read_quantization
from kvscale.core.model.fields import Fields
from kvscale.core.model.shape import WeightGroup
from kvscale.core.model.weights.dimensions import read_dimensions
from kvscale.core.model.weights.groups import weight_groups
from kvscale.core.model.weights.vision.table import vision_groups

CONFIGS = DATA / "hf_configs"
UNQUANTISED, QUANTISED = 5e-4, 0.005


# Rows of the plain model: with a draft, the engine counts it before it shares its embedding.
ROWS = [row for row in rows() if row["weight_bytes_rank"] and not row.get("speculative_config")]
IDS = [f"{identity(row)}-{number}" for number, row in enumerate(ROWS)]


def groups_of(folder: Path) -> tuple[int, bool, tuple[WeightGroup, ...]]:
    """Layers, whether the checkpoint is quantised, and its groups."""
    config = json.loads((folder / "config.json").read_text())
    beside = folder / "hf_quant_config.json"
    own = config.get("text_config", config).get("quantization_config")
    stored = config.get("quantization_config", own)
    if stored is None and beside.exists():
        stored = json.loads(beside.read_text())
    top = Fields(config)
    text = top.child("text_config") or top
    architecture = ARCHITECTURES[config["architectures"][0]]
    d = read_dimensions(text, top, architecture, "bfloat16")
    quantization = read_quantization(Fields(stored) if stored else None)
    return (
        d.layers,
        bool(quantization.method),
        (
            *weight_groups(d, architecture, quantization),
            *vision_groups(architecture.vision, top, "bfloat16", quantization),
        ),
    )


MODELS = {folder: groups_of(folder) for folder in {folder_of(row) for row in ROWS}}


def rank_bytes(
    groups: tuple[WeightGroup, ...], layers: int, row: dict[str, Any], stage: int = 0
) -> int:
    major = int(row["compute_capability"].partition(".")[0])
    whole = row.get("extra", {}).get("enable_expert_parallel", False)
    on = stages(layers, row.get("pipeline_parallel", 1))[stage]
    return sum(
        group_bytes(group.on_device(major), layers, on, row["tp"], 1, whole_experts=whole)
        for group in groups
        if not group.derived
    )


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_rank_holds_what_the_engine_allocates(row: dict[str, Any]) -> None:
    """The rank of each pipeline stage."""
    layers, quantised, groups = MODELS[folder_of(row)]
    bar = QUANTISED if quantised else UNQUANTISED
    for stage, rank in enumerate(row.get("ranks", [row])):
        found = rank_bytes(groups, layers, row, stage)
        assert found == pytest.approx(rank["weight_bytes_rank"], rel=bar), stage


def test_mlas_copy_of_its_projection_is_no_weight_but_takes_memory() -> None:
    """The engine keeps that copy as a plain tensor, which its list of parameters does not have."""
    _, _, groups = groups_of(CONFIGS / "deepseek-ai--DeepSeek-V3")
    (copy,) = (group for group in groups if group.derived)
    assert copy.parameters == 61 * 512 * 128 * (128 + 128)
    assert copy.bits_per_parameter_milli == 16_000


def test_pipeline_stages_together_hold_the_model() -> None:
    """Once, but for what every stage holds and for tied embeddings, which both ends hold."""
    for name in ("openai--gpt-oss-20b", "Qwen--Qwen3.5-27B", "deepseek-ai--DeepSeek-V4-Flash"):
        layers, _, groups = groups_of(CONFIGS / name)
        alone = tuple(group for group in groups if group.stage not in {"each", "ends"})
        row = {"tp": 1, "compute_capability": "9.0"}
        halves = row | {"pipeline_parallel": 2}
        parts = sum(rank_bytes(alone, layers, halves, stage) for stage in (0, 1))
        assert parts == pytest.approx(rank_bytes(alone, layers, row), rel=1e-6)


def test_a_stage_holds_the_layers_that_are_its_own() -> None:
    layers, _, groups = groups_of(CONFIGS / "Qwen--Qwen3.5-27B")
    inputs = 2 * 16 * 128 + 2 * 48 * 128
    (recurrent,) = (g for g in groups if g.name == "recurrent" and g.units == inputs)
    assert recurrent.layer_positions == tuple(n for n in range(64) if n % 4 != 3)
    first = stages(layers, 8)[0]
    share = group_bytes(recurrent, layers, first, 1, 1) / group_bytes(
        recurrent, layers, stages(layers, 1)[0], 1, 1
    )
    assert share == pytest.approx(6 / 48)
