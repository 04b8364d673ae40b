"""SGLang's own start-up logs: bytes per token, and KV memory without calibration.

Rows are tests/data/sglang_boot_logs.csv. Models whose config is not among the test data are written
here by their dimensions. Rows of quantised checkpoints without a known size count for the bytes
alone, and so do those of a device that another process held.
"""

import csv
import json
import statistics
from pathlib import Path

import pytest

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.options import SGLangOptions
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup

DATA = Path(__file__).parents[3] / "data"
GIB = 1 << 30
ROWS = list(
    csv.DictReader((DATA / "sglang_boot_logs.csv").read_text(encoding="utf-8").splitlines())
)
CAPABILITY = {"NVIDIA-B200": "10.0", "GB10": "12.1", "RTX 3090": "8.6"}


def qwen(hidden, layers, heads, inner, *, kv, tied, kind="Qwen2", vocabulary=151_936):
    return {
        "architectures": [f"{kind}ForCausalLM"], "model_type": kind.lower(), "hidden_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
        "head_dim": 128, "intermediate_size": inner, "vocab_size": vocabulary,
        "tie_word_embeddings": tied, "max_position_embeddings": 40_960, "torch_dtype": "bfloat16",
    }  # fmt: skip


CONFIGS = {
    "Qwen2.5-7B": qwen(3584, 28, 28, 18_944, kv=4, tied=False, vocabulary=152_064),
    "Qwen2.5-1.5B": qwen(1536, 28, 12, 8960, kv=2, tied=True),
    "Qwen3-14B": qwen(5120, 40, 40, 17_408, kv=8, tied=False, kind="Qwen3"),
}
FULL, WINDOW = LayerKind.FULL_ATTENTION, LayerKind.SLIDING_WINDOW
GEMMA = "Gemma4ForConditionalGeneration"
GROUPS = {
    "gemma-4-12B": (GEMMA, ((FULL, 8, 1, 512, None), (WINDOW, 40, 8, 256, 1024))),
    "gemma-4-31B": (GEMMA, ((FULL, 10, 4, 512, None), (WINDOW, 50, 16, 256, 1024))),
    "Devstral-Small-2-24B": ("MistralForCausalLM", ((FULL, 40, 8, 128, None),)),
}


def by_hand(name, architecture, groups, gib=1.0):
    return ModelShape(
        name, architecture, 4096, 128_000, 32,
        tuple(
            LayerGroup(kind, layers, heads, dim, dim, window=window)
            for kind, layers, heads, dim, window in groups
        ),
        (WeightGroup("all", int(gib * GIB / 2), 16_000),),
        max_position_embeddings=262_144,
    )  # fmt: skip


def shape_of(row):
    name, _, quantization = row["model"].partition(":")
    if name in GROUPS:
        return by_hand(name, *GROUPS[name])
    if name == "Kimi-K2.5":
        # MLA of 61 layers; the load takes what the log says.
        groups = (LayerGroup(LayerKind.MLA, 61, 1, 576, 0),)
        weights = WeightGroup("all", int(8 * 73.43 * GIB / 2), 16_000)
        return ModelShape(
            name, "", 7168, 163_840, 64, groups, (weights,), max_position_embeddings=262_144
        )
    if name in CONFIGS:
        return read_shape(CONFIGS[name], name)
    config = json.loads((DATA / "hf_configs" / name / "config.json").read_text(encoding="utf-8"))
    if quantization == "fp8":
        config["quantization_config"] = {
            "quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic",
            "modules_to_not_convert": ["lm_head"],
        }  # fmt: skip
    return read_shape(config, name)


def capacity_of(row, kv_memory_bytes=None):
    device = Device(
        row["device"],
        round(float(row["device_gib"]) * GIB),
        compute_capability=CAPABILITY.get(row["device"], "9.0"),
    )
    ratio = row["swa_ratio"]
    engine = EngineConfig(
        kind=EngineKind.SGLANG,
        version=row["version"] or None,
        tensor_parallel=int(row["tp"]),
        memory_utilization_milli=round(float(row["fraction"]) * 1000) if row["fraction"] else None,
        kv_cache_dtype=row["kv_dtype"],
        options=SGLangOptions(swa_ratio_ppm=round(float(ratio) * 1_000_000) if ratio else None),
    )
    return engine_capacity(shape_of(row), engine, device, kv_memory_bytes)


def rows(*without):
    return [
        pytest.param(row, id=row["id"])
        for row in ROWS
        if not any(note in row["notes"] for note in without)
    ]


@pytest.mark.parametrize("row", rows("tokens not printed"))
def test_tokens_of_the_memory_that_the_log_states(row):
    capacity = capacity_of(row, round(float(row["kv_gib"]) * GIB))
    assert isinstance(capacity, EngineCapacity), capacity
    assert capacity.block_tokens == int(row["page"])
    # 0.18 GiB is printed with two digits.
    allowed = 0.03 if float(row["kv_gib"]) < 1 else 0.013
    tokens = int(row["tokens"])
    assert capacity.kv_cache_size_tokens.expected == pytest.approx(tokens, rel=allowed)
    assert capacity.kv_cache_size_tokens.is_point


ESTIMATED = rows("weights not known", "another process")


@pytest.mark.parametrize("row", ESTIMATED)
def test_kv_memory_is_inside_the_band(row):
    memory = capacity_of(row).kv_memory_bytes
    observed = float(row["kv_gib"]) * GIB
    assert memory.low <= observed <= memory.high


def errors():
    """Of KV memory, in shares of the device's."""
    return [
        abs(capacity_of(row).kv_memory_bytes.expected / GIB - float(row["kv_gib"]))
        / float(row["device_gib"])
        for (row,) in (one.values for one in ESTIMATED)
    ]


def test_kv_memory_without_calibration():
    found = sorted(errors())
    assert statistics.median(found) <= 0.02
    assert found[int(0.95 * (len(found) - 1))] <= 0.05


@pytest.mark.parametrize("row", [one for one in ESTIMATED if one.values[0]["taken_by_load_gib"]])
def test_the_memory_rule_is_exact_where_the_log_tells_what_was_free(row):
    """free after - free before x (1 - fraction), with the fraction that the rules give."""
    capacity = capacity_of(row)
    milli = next(step.value for step in capacity.trace if step.name == "memFractionStatic")
    free, taken = float(row["free_before_gib"]), float(row["taken_by_load_gib"])
    assert free * milli - taken == pytest.approx(float(row["kv_gib"]), abs=0.1)


@pytest.mark.parametrize("row", [r for r in rows() if "another process" in r.values[0]["notes"]])
def test_a_device_that_is_shared_holds_less_and_the_answer_says_so(row):
    capacity = capacity_of(row)
    assert capacity.kv_memory_bytes.expected > float(row["kv_gib"]) * GIB
    assert any("shares the host's memory" in text for text in capacity.assumptions)
