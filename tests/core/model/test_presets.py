"""The catalogue: its numbers against published counts and the original files, and its names."""

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kvscale.core.model.catalogue import ALIASES, CONFIGS, ORIGIN_OF, ORIGINS
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import PRESET_NAMES, preset, preset_source
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "data" / "hf_configs"

# Parameter counts as the model pages publish them (safetensors metadata).
PUBLISHED = {
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
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
    "google/gemma-2-2b": 2_614_341_888,
    "google/gemma-2-9b": 9_241_705_984,
    "google/gemma-3-4b-it": 4_300_079_472,
    "microsoft/phi-4": 14_659_507_200,
    "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": 1_711_376_384,
    "tiiuae/Falcon3-7B-Instruct": 7_455_550_464,
}


INCOMPLETE = {
    "Qwen/Qwen3-32B-FP8-Static-PerTensor",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4",
}
"""Copies that have lost how the weights are stored: under these names they would be bf16."""


def known(name: str) -> ModelShape:
    shape = preset(name)
    assert isinstance(shape, ModelShape), shape
    return shape


def original(model: str) -> ModelShape:
    own = FOLDER / model.replace("/", "--", 1)
    beside = own / "hf_quant_config.json"
    shape = read_shape(
        json.loads((own / "config.json").read_text()),
        model,
        json.loads(beside.read_text()) if beside.exists() else None,
    )
    assert isinstance(shape, ModelShape), shape
    return shape


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_the_parameter_count_is_the_published_one(name: str) -> None:
    assert known(name).parameters == PUBLISHED[name]


@pytest.mark.parametrize("model", CONFIGS)
def test_a_preset_is_the_shape_of_the_original_file(model: str) -> None:
    assert known(model) == original(model), "run make catalogue"


def test_every_config_of_the_repository_is_in_the_catalogue_with_its_source() -> None:
    with (FOLDER / "SOURCES.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    folders = {path.parent.name.replace("--", "/", 1) for path in FOLDER.glob("*/config.json")}
    assert {line["model"] for line in lines} == folders
    assert folders - set(CONFIGS) == INCOMPLETE
    for line in lines:
        if line["model"] in INCOMPLETE:
            continue
        assert preset_source(line["model"]) == line["source"] == ORIGINS[ORIGIN_OF[line["model"]]]
        assert {alias for alias in ALIASES if ALIASES[alias] == line["model"]} == set(
            line["aliases"].split()
        )


def test_the_catalogue_is_what_the_script_writes(tmp_path: Path) -> None:
    """Of a few models; all of them are compared by their shapes above."""
    few = ("Qwen/Qwen3-8B", "nvidia/GLM-5-NVFP4", "openai/gpt-oss-20b")
    for model in few:
        (tmp_path / model.replace("/", "--")).symlink_to(FOLDER / model.replace("/", "--"))
    with (tmp_path / "SOURCES.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("model", "source", "aliases"), *((m, "here", "") for m in few)])
    written = tmp_path / "few.py"
    command = ["-m", "catalogue", "--configs", str(tmp_path), "--output", str(written)]
    subprocess.run(
        [sys.executable, *command],
        check=True,
        env={"PYTHONPATH": f"{ROOT / 'hack'}:{ROOT / 'operator'}"},
    )
    module: dict[str, dict[str, str]] = {}
    exec(written.read_text(), module)
    assert module["CONFIGS"] == {model: CONFIGS[model] for model in few}, "run make catalogue"


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_name_has_a_shape_and_a_source(name: str) -> None:
    assert known(name).name == name
    assert preset_source(name)


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_name_that_says_a_format_has_that_format(name: str) -> None:
    said = re.search(r"fp8|fp4|awq|gptq|int4|int8|w4a16|w8a8", name, re.IGNORECASE)
    if said is not None:
        assert known(name).quantization


@pytest.mark.parametrize("model", sorted(INCOMPLETE))
def test_a_copy_without_its_format_is_no_preset(model: str) -> None:
    """A start of Nemotron-3-Super-FP8 logged 59.91 GiB on each of two devices, not 112."""
    assert isinstance(preset(model), Refusal)


def test_names_stand_once_whatever_their_case() -> None:
    assert len({name.lower() for name in PRESET_NAMES}) == len(PRESET_NAMES)
    assert not set(ALIASES) & set(CONFIGS)
    assert set(ALIASES.values()) <= set(CONFIGS)


@pytest.mark.parametrize("model", CONFIGS)
def test_what_is_kept_of_a_config_is_short(model: str) -> None:
    """The largest config of the repository has 2.3 MB."""
    assert len(CONFIGS[model]) < 16_000


def test_case_and_blanks_do_not_matter() -> None:
    assert preset(" QWEN/qwen3-8b ") == preset("Qwen/Qwen3-8B")


def test_an_instruct_sibling_has_the_same_shape() -> None:
    base, sibling = known("meta-llama/Llama-3.1-8B"), known("meta-llama/Llama-3.1-8B-Instruct")
    assert replace(sibling, name=base.name) == base


def test_a_near_miss_gets_a_proposal() -> None:
    refusal = preset("meta-llama/Llama-3.1-8B-Instruct-FP8")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.field) == ("UnknownPreset", "model.preset")
    assert "meta-llama/Llama-3.1-8B-Instruct" in refusal.message.split("Otherwise")[0]


@pytest.mark.parametrize("name", ["", "???", "x" * 100_000])
def test_a_name_like_nothing_gets_the_other_ways_out(name: str) -> None:
    refusal = preset(name)
    assert isinstance(refusal, Refusal)
    assert "configMapRef" in refusal.message
    assert len(refusal.message) < 400
    assert preset_source(name) == ""
