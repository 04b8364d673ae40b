"""Engines of every kind over every preset: a fixed draw of what their traces depend on."""

import random
from collections.abc import Iterator
from typing import Any

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.options import SGLangOptions, TensorRtLlmOptions
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal

GIB = 1 << 30
CARDS = ("NVIDIA-L4", "NVIDIA-A100-SXM4-80GB", "H100", "H200", "B200", "GB10", "RTX 3090")
ROOMY = tuple(Device("huge", 8 << 40, compute_capability=each) for each in ("8.0", "9.0", "10.0"))
"""Devices that hold every preset, so that the largest ones are met as often as the others."""

VLLM = ("0.8.5", "0.9.0", "0.9.2", "0.10.2", "0.11.0", "0.12.0", "0.14.0", "0.18.0", "0.20.0",
        "0.21.0", "0.24.0", "0.26.0", "0.28.0", "0.30.0", "0.32.0", "0.33.0", None)  # fmt: skip
SGLANG = ("0.4.5", "0.4.6", "0.4.7", "0.4.9", "0.5.2", "0.5.5", "0.5.9", "0.5.13", "0.5.17",
          "0.5.23", None)  # fmt: skip
TENSORRT = ("0.17.0", "1.1.0", "1.3.0", None)

Case = tuple[ModelShape, EngineConfig, Device, int | None]


def cases(name: str, kind: EngineKind, count: int) -> Iterator[Case]:
    """So many engines with that preset, alike in every run."""
    shape, draw = preset(name), random.Random(f"{name} {kind.value}")
    assert isinstance(shape, ModelShape)
    for _ in range(count):
        roomy = draw.random() < 0.5
        device = draw.choice(ROOMY) if roomy else find_device(draw.choice(CARDS))
        assert isinstance(device, Device)
        given = round(draw.uniform(0.5, 200) * GIB) if draw.random() < 0.3 else None
        yield shape, _engine(draw, kind), device, given


def _engine(draw: random.Random, kind: EngineKind) -> EngineConfig:
    def one(*values: Any) -> Any:
        return draw.choice(values)

    shared: dict[str, Any] = {
        "kind": kind,
        "tensor_parallel": one(1, 1, 2, 4, 8),
        "pipeline_parallel": one(1, 1, 1, 2, 3),
        "data_parallel": one(1, 1, 1, 2),
        "memory_utilization_milli": one(None, None, 500, 853, 950),
        "max_model_len": one(None, 2048, 4000, 8192, 20_001, 131_072),
        "max_num_seqs": one(None, None, 5, 100),
        "max_num_batched_tokens": one(None, None, 2048, 9000),
        "kv_cache_dtype": one("auto", "auto", "fp8", "fp8_e4m3", "nvfp4"),
        "prefix_caching": one(None, None, True, False),
        "enforce_eager": one(True, False),
    }
    return EngineConfig(**shared, **_OWN[kind](one))


def _vllm(one: Any) -> dict[str, Any]:
    drafter, tokens = one(("", 0), ("", 0), ("", 0), ("mtp", 2))
    return {
        "version": one(*VLLM),
        "decode_context_parallel": one(*[1] * 11, 2, 4),
        "hybrid_kv_cache_manager": one(True, True, True, False),
        "block_size": one(None, None, None, 32, 64),
        "num_gpu_blocks_override": one(*[None] * 9, 5000),
        "speculative_method": drafter,
        "speculative_tokens": tokens,
        "mamba_ssm_cache_dtype": one("auto", "auto", "float32"),
        "dtype": one("auto", "auto", "auto", "float32"),
    }


def _sglang(one: Any) -> dict[str, Any]:
    return {
        "version": one(*SGLANG),
        "block_size": one(None, None, 16, 64),
        "speculative_tokens": one(0, 0, 0, 3),
        "options": SGLangOptions(
            max_total_tokens=one(None, None, None, 20_000),
            dp_attention=one(False, False, False, True),
            hybrid_swa=one(True, True, False),
            swa_ratio_ppm=one(None, None, 500_000, 123_456),
            mamba_ratio_milli=one(None, None, 333),
            max_mamba_cache_size=one(None, None, None, 100),
            speculative=one("", "", "", "EAGLE", "NGRAM"),
            attention_backend=one("", "", "flashmla"),
            overlap=one(True, True, False),
        ),
    }


def _tensorrt(one: Any) -> dict[str, Any]:
    return {
        "version": one(*TENSORRT),
        "block_size": one(None, None, 16, 128),
        "options": TensorRtLlmOptions(
            max_tokens=one(None, None, None, 20_000),
            max_gpu_total_bytes=one(None, None, None, 3 * GIB),
            max_attention_window=one((), (), (1000,)),
            attention_dp=one(False, False, True),
        ),
    }


_OWN = {
    EngineKind.VLLM: _vllm,
    EngineKind.SGLANG: _sglang,
    EngineKind.TENSORRT_LLM: _tensorrt,
}


def starting(name: str, kind: EngineKind, count: int) -> Iterator[tuple[Case, EngineCapacity]]:
    """Those of them that start, with what they hold."""
    for case in cases(name, kind, count):
        found = engine_capacity(*case)
        if not isinstance(found, Refusal):
            yield case, found
