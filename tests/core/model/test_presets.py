"""The catalogue: its numbers against published counts and the original files, and its names."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import PRESET_NAMES, preset, preset_source
from kvscale.core.model.shape import ModelShape

CONFIGS = Path(__file__).parents[2] / "data" / "hf_configs"

# Parameter counts as the model pages publish them (safetensors metadata).
PUBLISHED = {
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-405B": 405_853_388_800,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "meta-llama/Llama-3.3-70B-Instruct": 70_553_706_496,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "Qwen/Qwen3-235B-A22B": 235_093_634_560,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen2.5-72B-Instruct": 72_706_203_648,
    "mistralai/Mistral-7B-v0.3": 7_248_023_552,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "mistralai/Mixtral-8x22B-v0.1": 140_620_634_112,
}


def known(name: str) -> ModelShape:
    shape = preset(name)
    assert isinstance(shape, ModelShape), shape
    return shape


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_the_parameter_count_is_the_published_one(name: str) -> None:
    assert known(name).parameters == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("meta-llama/Llama-3.1-8B", "meta-llama--Meta-Llama-3.1-8B"),
        ("meta-llama/Llama-3.1-70B", "meta-llama--Meta-Llama-3.1-70B"),
        ("meta-llama/Llama-3.1-405B", "meta-llama--Meta-Llama-3.1-405B"),
        ("Qwen/Qwen3-8B", "Qwen--Qwen3-8B"),
        ("Qwen/Qwen3-32B", "Qwen--Qwen3-32B"),
        ("Qwen/Qwen3-30B-A3B", "Qwen--Qwen3-30B-A3B"),
        ("Qwen/Qwen3-235B-A22B", "Qwen--Qwen3-235B-A22B"),
        ("mistralai/Mixtral-8x22B-v0.1", "mistralai--Mixtral-8x22B-v0.1"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-ai--DeepSeek-V3"),
    ],
)
def test_a_preset_is_the_shape_of_the_original_file(name: str, folder: str) -> None:
    original = read_shape(json.loads((CONFIGS / folder / "config.json").read_text()), name)
    assert known(name) == original


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_name_has_a_shape_and_a_source(name: str) -> None:
    assert known(name).name == name
    assert preset_source(name)


def test_case_and_blanks_do_not_matter() -> None:
    assert preset(" QWEN/qwen3-8b ") == preset("Qwen/Qwen3-8B")


def test_an_instruct_sibling_has_the_same_shape() -> None:
    base, sibling = known("meta-llama/Llama-3.1-8B"), known("meta-llama/Llama-3.1-8B-Instruct")
    assert replace(sibling, name=base.name) == base


def test_a_near_miss_gets_a_proposal() -> None:
    refusal = preset("meta-llama/Llama-3.1-8B-Instruct-FP8")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == ("UnknownPreset", "model.preset")
    assert "did you mean meta-llama/Llama-3.1-8B-Instruct" in refusal.message


@pytest.mark.parametrize("name", ["", "???", "x" * 100_000])
def test_a_name_like_nothing_gets_the_other_ways_out(name: str) -> None:
    refusal = preset(name)
    assert isinstance(refusal, Refusal)
    assert "configMapRef" in refusal.message
    assert len(refusal.message) < 400
