"""What ranks of vLLM cannot share: each refusal beside the setting next to it that starts.

Both columns are what vLLM 0.32.0 itself answers for the config.
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.starts import refused, starts
from tests.support.starts import shape as shape_of

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import LayerGroup, LayerKind
from kvscale.core.refusal import Refusal

LLAMA = "meta-llama--Meta-Llama-3.1-8B"
CONTEXT = "--decode-context-parallel-size"
GROUPS = (LayerGroup(LayerKind.FULL_ATTENTION, 32, 8, 128, 128),)


@pytest.mark.parametrize(
    ("name", "tensor", "context", "most"),
    [
        ("Qwen--Qwen3-30B-A3B-FP8", 4, 4, 1),
        ("meta-llama--Meta-Llama-3.1-70B", 16, 4, 2),
        (LLAMA, 16, 16, 2),
        (LLAMA, 4, 4, 1),
        ("openai--gpt-oss-20b", 2, 2, 1),
    ],
)
def test_tokens_are_shared_only_over_copies_of_kv_heads(
    name: str, tensor: int, context: int, most: int
) -> None:
    refusal = refused(name, tensor_parallel=tensor, decode_context_parallel=context)
    assert (refusal.reason, refusal.field) == ("InvalidParallelism", CONTEXT)
    assert f"at most {most}" in refusal.message


@pytest.mark.parametrize(
    ("name", "tensor", "context"),
    [
        (LLAMA, 16, 2),
        (LLAMA, 32, 4),
        ("Qwen--Qwen3-Next-80B-A3B-Instruct", 4, 2),
        ("deepseek-ai--DeepSeek-V2-Lite", 4, 4),
    ],
)
def test_copies_and_latents_share_tokens(name: str, tensor: int, context: int) -> None:
    alone = starts(name, tensor_parallel=tensor)
    shared = starts(name, tensor_parallel=tensor, decode_context_parallel=context)
    assert shared.kv_cache_size_tokens.expected > alone.kv_cache_size_tokens.expected


def test_query_heads_per_kv_head_are_shared_evenly() -> None:
    # 96 ranks keep 12 copies of 8 KV heads; 12 ranks share 12 query heads each, 8 cannot.
    shape = replace(shape_of(LLAMA), attention_heads=96, layer_groups=GROUPS, architecture="")
    engine = EngineConfig(tensor_parallel=96, decode_context_parallel=8, max_model_len=4000)
    fits = replace(engine, decode_context_parallel=4)
    device = Device("huge", 8 << 40, compute_capability="9.0")
    refusal = engine_capacity(shape, engine, device, 24 << 30)
    assert isinstance(refusal, Refusal)
    assert "query heads" in refusal.message
    assert isinstance(engine_capacity(shape, fits, device, 24 << 30), EngineCapacity)


@pytest.mark.parametrize(
    ("name", "tensor", "words", "next_to"),
    [
        ("openai--gpt-oss-20b", 16, "8 KV heads", 8),
        ("Qwen--Qwen2.5-1.5B", 6, "151936", 4),
        ("microsoft--phi-4", 5, "100352", 2),
        ("nvidia--Nemotron-H-8B-Base-8K", 16, "8 groups", 8),
        ("mistralai--Mamba-Codestral-7B-v0.1", 16, "8 groups", 8),
        ("Qwen--Qwen3-32B-FP8", 16, "1600", 8),
        ("Qwen--Qwen3-Next-80B-A3B-Instruct-FP8", 8, "64", 4),
        ("Qwen--Qwen3-235B-A22B-FP8", 32, "48", 16),
        ("quant--Qwen3-30B-A3B-w4a16-ct", 8, "96", 2),
        ("quant--Qwen3-30B-A3B-w4a16-ct", 4, "192", 1),
    ],
)
def test_what_does_not_divide_is_refused(name: str, tensor: int, words: str, next_to: int) -> None:
    refusal = refused(name, tensor_parallel=tensor)
    assert (refusal.reason, refusal.field) == ("InvalidParallelism", "--tensor-parallel-size")
    assert words in refusal.message
    starts(name, tensor_parallel=next_to)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        # Llama repeats KV heads, gpt-oss does not.
        (LLAMA, {"tensor_parallel": 16}),
        # One group is repeated on every rank.
        ("ibm-granite--granite-4.0-h-small", {"tensor_parallel": 4}),
        # Blocks of fp8 experts are made finer from 0.29 on.
        ("Qwen--Qwen3-30B-A3B-FP8", {"tensor_parallel": 8}),
        ("quant--Qwen3-30B-A3B-FP8-ct", {"tensor_parallel": 8}),
        # Other formats shrink their groups.
        ("quant--Qwen3-30B-A3B-AWQ", {"tensor_parallel": 8}),
        ("quant--Qwen3-30B-A3B-GPTQ-Int4", {"tensor_parallel": 8}),
        # Experts that stay whole have whole groups.
        ("quant--Qwen3-30B-A3B-w4a16-ct", {"tensor_parallel": 4, "expert_parallel": True}),
    ],
)
def test_what_is_repeated_or_cut_finer_starts(name: str, more: dict[str, Any]) -> None:
    starts(name, **more)


def test_fp8_experts_were_not_cut_finer_before() -> None:
    refusal = refused("Qwen--Qwen3-30B-A3B-FP8", tensor_parallel=4, version="0.28.0")
    assert "192" in refusal.message
    starts("Qwen--Qwen3-30B-A3B-FP8", tensor_parallel=2, version="0.28.0")


@pytest.mark.parametrize(
    ("name", "more", "field"),
    [
        (LLAMA, {"expert_parallel": True}, "--enable-expert-parallel"),
        (LLAMA, {"decode_context_parallel": 0}, CONTEXT),
        (LLAMA, {"decode_context_parallel": -2, "tensor_parallel": 4}, CONTEXT),
        ("Zyphra--Zamba2-7B", {"pipeline_parallel": 4}, "--pipeline-parallel-size"),
        (
            "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            {"hybrid_kv_cache_manager": False, "tensor_parallel": 2},
            "--disable-hybrid-kv-cache-manager",
        ),
    ],
)
def test_what_a_model_has_nothing_for_is_refused(
    name: str, more: dict[str, Any], field: str
) -> None:
    assert refused(name, **more).field == field
    starts(name, tensor_parallel=2)
