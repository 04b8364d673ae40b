"""What a device cannot run in vLLM: each refusal beside the neighbour that starts.

The answers for 0.32.0 are vLLM's own.
"""

from typing import Any

import pytest
from tests.support.starts import refused, starts

LLAMA = "meta-llama--Meta-Llama-3.1-8B"
LITE = "deepseek-ai--DeepSeek-V2-Lite"
SPARSE = "deepseek-ai--DeepSeek-V3.2"
COMPRESSED = "deepseek-ai--DeepSeek-V4-Flash"


@pytest.mark.parametrize(
    ("name", "too_old", "new_enough"),
    [
        ("quant--Llama-3.1-8B-AWQ", "7.0", "7.5"),
        ("openai--gpt-oss-20b", "7.0", "8.0"),
        ("quant--Llama-3.1-8B-w4a16", "7.0", "7.5"),
        ("quant--Llama-3.1-8B-w8a8-int8", "7.0", "7.5"),
        ("quant--Llama-3.1-70B-FP8-dynamic", "7.0", "7.5"),
        ("quant--Llama-3.1-70B-GPTQ", "7.0", "7.5"),
        ("quant--Llama-3.1-70B-modelopt-fp8", "7.5", "8.9"),
        ("quant--Llama-3.1-70B-modelopt-nvfp4", "7.0", "8.0"),
    ],
)
def test_a_format_needs_a_device_of_its_age(name: str, too_old: str, new_enough: str) -> None:
    refusal = refused(name, too_old)
    assert refusal.reason == "UnsupportedQuantization"
    assert too_old in refusal.message
    starts(name, new_enough)
    starts(name, "")


def test_the_age_that_fp8_weights_need_fell() -> None:
    assert "8.0" in refused("Qwen--Qwen3-32B-FP8", "7.5", version="0.13.0").message
    starts("Qwen--Qwen3-32B-FP8", "7.5", version="0.14.1")
    starts("Qwen--Qwen3-32B-FP8", "8.0", version="0.13.0")


def test_bfloat16_that_is_asked_for_needs_ampere() -> None:
    assert refused(LLAMA, "7.5", dtype="bfloat16").field == "--dtype"
    starts(LLAMA, "7.5", dtype="float16")
    starts(LLAMA, "7.5")
    starts(LLAMA, "8.0", dtype="bfloat16")


def test_gemma_is_served_in_float32_where_there_is_no_bfloat16() -> None:
    # vLLM 0.32.0 on compute capability 7.5: 4,681 blocks and twice the weights.
    turing, ampere = starts("google--gemma-2-9b", "7.5"), starts("google--gemma-2-9b", "8.0")
    assert (turing.kv_blocks.expected, ampere.kv_blocks.expected) == (4681, 9362)
    assert turing.weight_bytes_per_device > 1.99 * ampere.weight_bytes_per_device
    assert refused("google--gemma-2-9b", "8.0", dtype="float16").field == "--dtype"
    starts("google--gemma-2-9b", "8.0", dtype="bfloat16")


@pytest.mark.parametrize("capability", ["8.0", "8.9"])
def test_sparse_mla_has_no_kernel_before_hopper(capability: str) -> None:
    refusal = refused(SPARSE, capability, tensor_parallel=8)
    assert refusal.reason == "UnsupportedDevice"
    assert "sparse MLA" in refusal.message


@pytest.mark.parametrize("capability", ["9.0", "10.0", "12.0", ""])
def test_sparse_mla_has_one_from_hopper_on(capability: str) -> None:
    starts(SPARSE, capability, tensor_parallel=8)
    starts(COMPRESSED, capability, tensor_parallel=4)


def test_sparse_mla_came_late_to_workstations() -> None:
    assert "12.0" in refused(SPARSE, "12.0", tensor_parallel=8, version="0.23.0").message
    starts(SPARSE, "12.0", tensor_parallel=8, version="0.24.0")


CACHES_REFUSED = [
    (LITE, "8.0", "fp8", {}),
    (LITE, "9.0", "fp8_e5m2", {}),
    (LITE, "10.0", "fp8_e5m2", {}),
    (LITE, "9.0", "fp8_ds_mla", {}),
    (LITE, "8.9", "fp8", {"version": "0.17.0"}),
    (LLAMA, "7.5", "fp8", {}),
    (LLAMA, "7.5", "fp8_e5m2", {}),
    (LLAMA, "7.5", "fp8_per_token_head", {}),
    (LLAMA, "8.0", "fp8_per_token_head", {}),
    (LLAMA, "7.5", "nvfp4", {}),
    (LLAMA, "7.0", "bfloat16", {}),
    (LLAMA, "9.0", "nvfp4", {"version": "0.31.0"}),
    ("google--gemma-3-12b-it", "8.0", "fp8", {}),
    ("google--gemma-3-12b-it", "10.0", "nvfp4", {}),
    ("openai--gpt-oss-20b", "8.0", "fp8", {}),
    ("openai--gpt-oss-20b", "9.0", "nvfp4", {}),
    ("microsoft--Phi-3-mini-4k-instruct", "8.0", "fp8", {}),
    (SPARSE, "9.0", "fp8_e5m2", {"tensor_parallel": 8}),
    (COMPRESSED, "9.0", "bfloat16", {"tensor_parallel": 4}),
    (COMPRESSED, "10.0", "bfloat16", {"tensor_parallel": 4}),
]


@pytest.mark.parametrize(("name", "capability", "dtype", "more"), CACHES_REFUSED)
def test_a_cache_that_no_kernel_reads_is_refused(
    name: str, capability: str, dtype: str, more: dict[str, Any]
) -> None:
    refusal = refused(name, capability, kv_cache_dtype=dtype, **more)
    assert (refusal.reason, refusal.field) == ("UnsupportedKvCacheDtype", "--kv-cache-dtype")
    assert dtype in refusal.message
    starts(name, capability, **{key: more[key] for key in more if key != "version"})


@pytest.mark.parametrize(
    ("name", "capability", "dtype", "more"),
    [
        (LITE, "8.9", "fp8", {}),
        (LITE, "9.0", "fp8_e4m3", {}),
        (LITE, "12.0", "fp8", {}),
        (LITE, "9.0", "fp8", {"version": "0.17.0"}),
        (LLAMA, "8.0", "fp8", {}),
        (LLAMA, "8.0", "fp8_e5m2", {}),
        (LLAMA, "7.5", "int8_per_token_head", {}),
        (LLAMA, "8.9", "fp8_per_token_head", {}),
        (LLAMA, "8.0", "nvfp4", {}),
        (LLAMA, "12.0", "nvfp4", {}),
        (LLAMA, "10.0", "nvfp4", {"version": "0.31.0"}),
        (LLAMA, "7.0", "float16", {}),
        (LLAMA, "7.5", "fp8", {"version": "0.23.0"}),
        ("google--gemma-3-12b-it", "9.0", "fp8", {}),
        ("google--gemma-2-9b", "8.0", "fp8", {}),
        ("google--gemma-2-9b", "10.0", "nvfp4", {}),
        ("openai--gpt-oss-20b", "9.0", "fp8", {}),
        ("openai--gpt-oss-20b", "10.0", "nvfp4", {}),
        (SPARSE, "9.0", "fp8", {"tensor_parallel": 8}),
        (COMPRESSED, "9.0", "fp8", {"tensor_parallel": 4}),
        (COMPRESSED, "9.0", "fp8_e5m2", {"tensor_parallel": 4}),
    ],
)
def test_a_cache_that_some_kernel_reads_starts(
    name: str, capability: str, dtype: str, more: dict[str, Any]
) -> None:
    starts(name, capability, kv_cache_dtype=dtype, **more)


def test_sparse_mla_shares_tokens_in_fp8_alone_on_hopper() -> None:
    ranks = {"tensor_parallel": 8, "decode_context_parallel": 2}
    assert refused(SPARSE, **ranks).field == "--kv-cache-dtype"
    starts(SPARSE, **ranks, kv_cache_dtype="fp8")
    starts(SPARSE, "10.0", **ranks)
    assert refused(SPARSE, "12.0", **ranks).field == "--decode-context-parallel-size"
    older = refused(SPARSE, **ranks, kv_cache_dtype="fp8", version="0.28.0")
    assert older.field == "--decode-context-parallel-size"


@pytest.mark.parametrize(
    ("name", "tensor", "block", "least"),
    [(SPARSE, 8, 16, 64), (SPARSE, 8, 96, 64), (COMPRESSED, 4, 64, 256)],
)
def test_a_block_that_sparse_attention_cannot_take_is_refused(
    name: str, tensor: int, block: int, least: int
) -> None:
    refusal = refused(name, tensor_parallel=tensor, block_size=block)
    assert (refusal.reason, refusal.field) == ("InvalidBlockSize", "--block-size")
    assert str(least) in refusal.message
    assert starts(name, tensor_parallel=tensor).block_tokens == least
    assert starts(name, tensor_parallel=tensor, block_size=least).block_tokens == least


@pytest.mark.parametrize(
    ("capability", "dtype", "block", "blocks"),
    [("9.0", "fp8", 16, 103_563), ("9.0", "fp8", 48, 34_521), ("10.0", "auto", 16, 51_781)],
)
def test_a_stated_block_of_latents_is_kept(
    capability: str, dtype: str, block: int, blocks: int
) -> None:
    found = starts(LITE, capability, kv_cache_dtype=dtype, block_size=block)
    assert (found.block_tokens, found.kv_blocks.expected) == (block, blocks)
    raised = starts(LITE, capability, kv_cache_dtype=dtype, block_size=block, version="0.17.0")
    assert raised.block_tokens == 64


@pytest.mark.parametrize(
    ("name", "capability", "dtype"),
    [
        ("nvidia--Llama-3.1-70B-Instruct-FP8", "9.0", "fp8_e5m2"),
        ("Qwen--Qwen3-32B-FP8", "9.0", "fp8_e5m2"),
        ("nvidia--Qwen3-235B-A22B-NVFP4", "10.0", "fp8_e5m2"),
        ("Qwen--Qwen3-8B", "9.0", "fp8_inc"),
        ("deepseek-ai--DeepSeek-V3.2", "9.0", "fp8_per_token_head"),
        ("deepseek-ai--DeepSeek-V3.2", "12.0", "int8_per_token_head"),
        ("nvidia--Gemma-4-31B-IT-NVFP4", "10.0", "nvfp4"),
        ("XiaomiMiMo--MiMo-V2-Flash", "10.0", "nvfp4"),
    ],
)
def test_a_cache_that_no_kernel_reads_beside_that_checkpoint(
    name: str, capability: str, dtype: str
) -> None:
    """Each is refused by vLLM 0.32 itself."""
    refusal = refused(name, capability, kv_cache_dtype=dtype, tensor_parallel=8)
    assert refusal.field == "--kv-cache-dtype"
