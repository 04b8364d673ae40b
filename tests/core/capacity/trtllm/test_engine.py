"""A TensorRT-LLM server: its memory rule, caps, windows, and what it refuses."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.options import TensorRtLlmOptions
from kvscale.core.engines.trtllm.rules import trt_rules
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.refusal import Refusal

GIB = 1 << 30
CONFIGS = Path(__file__).parents[3] / "data" / "hf_configs"
H100 = Device("NVIDIA-H100-80GB-HBM3", round(79.18 * GIB), compute_capability="9.0")
H200 = Device("NVIDIA-H200", round(139.8 * GIB), compute_capability="9.0")
LLAMA = preset("meta-llama/Llama-3.1-8B-Instruct")


def engine(options=None, version="1.1.0", **fields):
    return EngineConfig(kind=EngineKind.TENSORRT_LLM, version=version, options=options, **fields)


def capacity(shape=LLAMA, device=H100, memory=None, **fields):
    found = engine_capacity(shape, engine(**fields), device, memory)
    assert isinstance(found, EngineCapacity), found
    return found


def refusal(shape=LLAMA, device=H100, **fields):
    found = engine_capacity(shape, engine(**fields), device)
    assert isinstance(found, Refusal), found
    return found


def test_the_fraction_is_of_what_is_left():
    full, half = capacity(memory_utilization_milli=1000), capacity(memory_utilization_milli=500)
    assert full.kv_memory_bytes.expected == pytest.approx(2 * half.kv_memory_bytes.expected, abs=2)
    default = capacity()
    assert default.kv_memory_bytes.expected == pytest.approx(
        0.9 * full.kv_memory_bytes.expected, abs=2
    )
    assert default.block_tokens == 32
    assert default.bytes_per_block == 32 * 131_072
    assert any("band is wide" in text for text in default.assumptions)
    band = default.kv_memory_bytes
    assert band.high - band.low > 0.04 * H100.memory_bytes


def test_a_public_log_is_inside_the_band():
    """fp8 KV of MLA, 35,136 bytes per token; peak 91.46 GiB of 139.81, fraction 0.85: 41.11 GiB."""
    config = json.loads((CONFIGS / "deepseek-ai--DeepSeek-V3" / "config.json").read_text("utf-8"))
    found = capacity(
        read_shape(config, "DeepSeek-R1"), H200, tensor_parallel=8, kv_cache_dtype="fp8",
        memory_utilization_milli=850, max_num_batched_tokens=16_384,
    )  # fmt: skip
    assert found.bytes_per_block == 32 * 35_136
    assert found.kv_memory_bytes.low <= 41.11 * GIB <= found.kv_memory_bytes.high


def test_the_smallest_cap_wins():
    plain = capacity().kv_cache_size_tokens.expected
    assert capacity(
        options=TensorRtLlmOptions(max_tokens=64_000)
    ).kv_cache_size_tokens.expected == (64_000)
    assert capacity(options=TensorRtLlmOptions(max_tokens=10**9)).kv_cache_size_tokens.expected == (
        plain
    )
    bytes_capped = capacity(options=TensorRtLlmOptions(max_gpu_total_bytes=4 * GIB))
    assert bytes_capped.kv_cache_size_tokens.expected == 4 * GIB // 131_072
    both = TensorRtLlmOptions(max_gpu_total_bytes=4 * GIB, max_tokens=1024)
    assert capacity(options=both).kv_cache_size_tokens.expected == 1024


def test_windows_have_a_pool_of_their_own():
    shape = ModelShape(
        "windows", "X", 4096, 128_000, 32,
        (
            LayerGroup(LayerKind.FULL_ATTENTION, 8, 8, 128, 128),
            LayerGroup(LayerKind.SLIDING_WINDOW, 32, 8, 128, 128, window=1024),
        ),
        (WeightGroup("all", 4 * 10**9, 16_000),),
        max_position_embeddings=32_768,
    )  # fmt: skip
    older = capacity(shape, memory=10 * GIB)
    assert older.kv_cache_size_tokens.expected == 10 * GIB // (40 * 4096) // 32 * 32
    found = capacity(shape, memory=10 * GIB, version="1.3.0")
    each = 4096 * (8 * 32_768 + 32 * 1024)
    assert found.kv_cache_size_tokens.expected == pytest.approx(10 * GIB * 32_768 / each, abs=64)
    # As many windows as longest sequences: a short sequence is bound by the window pool.
    assert found.blocks_for(1024) > 32
    assert found.blocks_for(32_768) == pytest.approx(1024, rel=0.05)
    stated = capacity(
        shape, memory=10 * GIB, options=TensorRtLlmOptions(max_attention_window=(2048,))
    )
    assert stated.kv_cache_size_tokens.expected > 0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"version": "0.16.0"}, "engine.version"),
        ({"options": TensorRtLlmOptions(backend="tensorrt")}, "--backend"),
        ({"kv_cache_dtype": "fp8_e5m2"}, "--kv_cache_dtype"),
        ({"memory_utilization_milli": 1001}, "--kv_cache_free_gpu_memory_fraction"),
        ({"block_size": 24}, "kv_cache_config.tokens_per_block"),
        ({"max_model_len": 10**6}, "--max_seq_len"),
        ({"tensor_parallel": 3}, "--tp_size"),
        ({"max_num_seqs": -1}, "--max_batch_size"),
    ],
)
def test_refusals_name_the_setting_in_its_own_words(fields, field):
    refused = refusal(**fields)
    assert refused.field == field
    assert field in refused.message


def test_layers_without_a_rule_are_refused_by_name():
    config = json.loads((CONFIGS / "Qwen--Qwen3.5-27B" / "config.json").read_text("utf-8"))
    refused = refusal(read_shape(config, "m"))
    assert refused.reason == "UnsupportedLayerKind"
    assert "GatedDeltaNet" in refused.message


def test_versions():
    assert len(trt_rules("1.1.0").assumptions) == 1
    assert "not known" in trt_rules(None).assumptions[0]
    assert "newer" in trt_rules("2.0.0").assumptions[0]


@given(st.integers(1, 990), st.integers(1, 65_536))
def test_more_memory_never_holds_less(milli, step):
    fields = {"max_num_batched_tokens": step}
    small = engine_capacity(LLAMA, engine(memory_utilization_milli=milli, **fields), H100)
    large = engine_capacity(LLAMA, engine(memory_utilization_milli=milli + 9, **fields), H100)
    if isinstance(small, EngineCapacity):
        assert isinstance(large, EngineCapacity)
        assert large.kv_blocks.expected >= small.kv_blocks.expected
        assert small.kv_blocks.low <= small.kv_blocks.expected <= small.kv_blocks.high
        assert small.blocks_for(1000) <= small.blocks_for(2000)


def test_a_drafter_is_told_and_not_counted():
    found = capacity(speculative_method="eagle3", speculative_tokens=3)
    assert any("drafter" in one for one in found.assumptions)


def test_a_stage_without_caches_limits_nothing():
    """Nemotron-Super-49B drops attention from many layers: the last of 16 stages has none."""
    found = capacity(preset("nvidia/Llama-3_3-Nemotron-Super-49B-v1"), pipeline_parallel=16)
    assert found.kv_blocks.expected > 0
