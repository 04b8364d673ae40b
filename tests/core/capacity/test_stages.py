"""What lies beside the layers: on which pipeline stages, on which ranks, in which format."""

import json
from typing import Any

import pytest
from tests.support.allocation_rows import DATA

from kvscale.core.capacity.placement import group_bytes, stages
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import ModelShape, WeightGroup


def config_of(folder: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((DATA / folder / "config.json").read_text())
    return config


def shape_of(config: dict[str, Any]) -> ModelShape:
    shape = read_shape(config)
    assert isinstance(shape, ModelShape), shape
    return shape


def held(shape: ModelShape, name: str, pipeline: int, tensor: int = 1) -> list[int]:
    """Bytes of the groups of that name on a rank of each stage."""
    groups = [group for group in shape.weight_groups if group.name == name]
    assert groups
    return [
        sum(group_bytes(group, shape.layers, stage, tensor, 1) for group in groups)
        for stage in stages(shape.layers, pipeline)
    ]


@pytest.mark.parametrize(
    "folder",
    [
        "recalled_configs/google--gemma-3-27b-it",
        "hf_configs/Qwen--Qwen3-VL-30B-A3B-Instruct",
        "hf_configs/moonshotai--Kimi-K2.5",
        "hf_configs/meta-llama--Llama-4-Scout-17B-16E-Instruct",
    ],
)
def test_every_stage_builds_the_tower(folder: str) -> None:
    shape = shape_of(config_of(folder))
    assert held(shape, "vision", 3) == 3 * held(shape, "vision", 1)


def test_a_stage_has_the_rotary_tables_of_its_own_layers() -> None:
    """DeepSeek-V4's first layers compress nothing; the others share a table of their own."""
    config = config_of("hf_configs/deepseek-ai--DeepSeek-V4-Flash")
    assert [ratio > 1 for ratio in config["compress_ratios"][:3]] == [False, False, True]
    first, second, third = held(shape_of(config), "rotaryTable", 3)
    table = config["max_position_embeddings"] * config["qk_rope_head_dim"] * 4
    assert (first, second, third) == (2 * table, table, table)


def test_a_stage_without_full_layers_has_no_table_of_theirs() -> None:
    """Gemma 3 alternates five windows and a full layer, each kind with its table."""
    shape = shape_of(config_of("recalled_configs/google--gemma-3-270m"))
    assert shape.layers == 18
    stage = held(shape, "rotaryTable", 6)
    assert stage[1] == 2 * stage[0]
    assert stage == stage[:2] * 3


def test_a_stage_of_states_alone_rotates_nothing() -> None:
    shape = shape_of(config_of("hf_configs/Qwen--Qwen3.5-9B"))
    tables = held(shape, "rotaryTable", 16)
    assert tables[::2] == [0] * 8
    assert all(tables[1::2])


def test_whispers_embedding_is_whole_on_every_rank() -> None:
    config = config_of("recalled_configs/openai--whisper-large-v3")
    size = config["vocab_size"] * config["d_model"] * 2
    assert held(shape_of(config), "embedding", 1, tensor=4) == [size]


def _experts(shape: ModelShape) -> WeightGroup:
    return next(group for group in shape.weight_groups if group.name == "experts")


@pytest.mark.parametrize(("symmetric", "bits"), [(True, 4 + 16 / 64), (False, 4 + 20 / 64)])
def test_where_scale_groups_are_halved_symmetric_experts_lose_their_zero_points(
    symmetric: bool, bits: float
) -> None:
    """A quarter of 768 is no multiple of 128 but of 64."""
    config = config_of("recalled_configs/quant--Qwen3-30B-A3B-GPTQ-Int4")
    config["quantization_config"]["sym"] = symmetric
    shape = shape_of(config)
    experts = _experts(shape)
    (stage,) = stages(shape.layers, 1)
    found = group_bytes(experts, shape.layers, stage, 4, 1) * 4 * 8 / experts.parameters
    assert found == pytest.approx(bits, rel=1e-3)
    whole = group_bytes(experts, shape.layers, stage, 1, 1) * 8 / experts.parameters
    assert whole == pytest.approx(4 + 20 / 128, rel=1e-3)


PIXTRAL = "vision_tower.transformer.layers.0.attention.q_proj"


@pytest.mark.parametrize(
    ("listed", "bits"),
    [
        (["model.vision_tower", "lm_head"], 8_000),
        (["vision_tower", "lm_head"], 8_000),
        ([PIXTRAL, "lm_head"], 16_000),
        ([f"model.{PIXTRAL}", "lm_head"], 16_000),
        (None, 8_000),
    ],
)
def test_a_tower_is_in_fp8_unless_its_matrices_are_listed_by_their_full_names(
    listed: list[str] | None, bits: int
) -> None:
    config = config_of("hf_configs/mistralai--Devstral-Small-2-24B-Instruct-2512")
    config["quantization_config"]["modules_to_not_convert"] = listed
    groups = {group.name: group for group in shape_of(config).weight_groups}
    assert groups["vision"].bits_per_parameter_milli == bits
    assert groups["visionWhole"].bits_per_parameter_milli == 16_000


def test_a_tower_beside_fp8_in_blocks_is_left_as_it_is() -> None:
    config = config_of("hf_configs/Qwen--Qwen3-VL-8B-Instruct")
    config["quantization_config"] = {
        "quant_method": "fp8", "weight_block_size": [128, 128],
        "modules_to_not_convert": ["model.visual.blocks.0.attn.proj"],
    }  # fmt: skip
    groups = {group.name: group for group in shape_of(config).weight_groups}
    assert groups["vision"].bits_per_parameter_milli == 16_000
