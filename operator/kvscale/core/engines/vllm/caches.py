"""Formats of the KV cache that no kernel of vLLM reads on a device, or for a model.

| format | refused below, or where | source (vllm v0.32.0) |
|---|---|---|
| fp8 by Triton | 8.9 | v1/attention/backends/triton_attn.py, mla/triton_mla.py |
| fp8_e5m2 of latents | everywhere | supported_kv_cache_dtypes of v1/attention/backends/mla |
| packed latents without an indexer | everywhere | mla/flashmla_sparse.py |
| other than fp8 for sparse MLA's shared tokens | on 9.x | mla/flashmla_sparse.py |
| bfloat16 | 8.0 | triton_attn.py |
| nvfp4 | 8.0; all but 10.x before 0.32 | flashinfer.py |
| other than fp8 for DeepSeek-V4 | everywhere | models/deepseek_v4/attention.py |
"""

from kvscale.core.devices.compute_capability import NATIVE_FP8
from kvscale.core.engines.vllm.blocks import IMAGE_PREFIX
from kvscale.core.engines.vllm.kernels import BFLOAT16
from kvscale.core.engines.vllm.releases import lacks
from kvscale.core.engines.vllm.start import Start
from kvscale.core.model.dtypes import canonical
from kvscale.core.refusal import Refusal

HOPPER, BLACKWELL = 9, 10
"""Major compute capabilities."""

SINKS = frozenset({"GptOssForCausalLM"})
"""Architectures with attention sinks, which FlashInfer does not serve below 9.0."""

FLASHINFER_HEADS = frozenset({64, 128, 256, 512})
NARROW_HEAD = 64

_PACKED = ("fp8_ds_mla", "nvfp4_ds_mla")


def _cache(start: Start, why: str, mend: str) -> Refusal:
    stated = start.engine.kv_cache_dtype
    name = stated if stated != "auto" else f"auto, which is {start.kv} for this checkpoint"
    return Refusal(
        "UnsupportedKvCacheDtype",
        "--kv-cache-dtype",
        f"--kv-cache-dtype is {name}; {why}. Use {mend}",
    )


def _by_triton(start: Start) -> bool:
    """Whether 8-bit K and V with heads fall to Triton's kernel below 8.9: FlashInfer serves most.

    vllm v0.32.0 platforms/cuda.py, _get_backend_priorities; flashinfer.py.
    """
    if start.capability is None or start.capability < BFLOAT16 or start.kv == "fp8_per_token_head":
        return True
    if start.shape.architecture in SINKS | IMAGE_PREFIX:
        return True
    return any(
        group.head_dim_k not in FLASHINFER_HEADS
        for group in start.shape.layer_groups
        if group.kind.per_head
    )


def eight_bit_heads(start: Start) -> Refusal | None:
    """fp8 K and V by Triton on a device without native fp8 (refused from 0.24.0 on)."""
    cap = start.capability
    if not start.kv.startswith("fp8") or start.latent or start.compressed or cap is None:
        return None
    if cap >= NATIVE_FP8 or lacks(start.rules.version, (0, 24, 0)) or not _by_triton(start):
        return None
    return _cache(
        start,
        f"on compute capability {start.sm} Triton's kernel would serve it, which needs 8.9",
        "float16" if cap < BFLOAT16 else "bfloat16",
    )


def eight_bit_latents(start: Start) -> Refusal | None:
    """fp8 latents where Triton's is the only MLA kernel, which needs 8.9; before 0.18 it has none.

    vllm v0.32.0 v1/attention/backends/mla/triton_mla.py (0.17.0: "not yet supported").
    """
    cap = start.capability
    if not start.kv.startswith("fp8") or not start.latent or start.sparse or cap is None:
        return None
    by_triton = cap[0] not in {HOPPER, BLACKWELL}
    if cap >= NATIVE_FP8 and not (by_triton and lacks(start.rules.version, (0, 18, 0))):
        return None
    why = f"no MLA kernel of vLLM {start.rules.label} reads it on compute capability {start.sm}"
    return _cache(start, why, "bfloat16")


def latent_formats(start: Start) -> Refusal | None:
    """Formats of the KV cache that no MLA kernel reads."""
    stated = start.engine.kv_cache_dtype
    if start.compressed:
        if stated == "auto" or stated.startswith("fp8"):
            return None
        return _cache(start, "DeepSeek-V4 keeps its latents in packed fp8", "auto or fp8")
    if not start.latent:
        return None
    if stated == "fp8_e5m2":
        return _cache(start, "no MLA kernel reads it", "fp8 or auto")
    if stated in _PACKED and not start.sparse:
        return _cache(start, "it is the format of sparse MLA alone", "fp8 or auto")
    return None


def wide_exponents(start: Start) -> Refusal | None:
    """fp8_e5m2 beside a checkpoint that brings scales of its own for the cache.

    vllm v0.8.0 to v0.33.0 model_executor/layers/attention ("not supported with fp8 checkpoints"):
    fp8 and ModelOpt checkpoints, and others that state the cache's format.
    """
    stored = start.shape.quantization
    if start.engine.kv_cache_dtype != "fp8_e5m2" or start.compressed:
        return None
    if stored != "fp8" and not stored.startswith("modelopt"):
        return None
    return _cache(start, f"vLLM does not use it with {stored} checkpoints", "fp8 or auto")


def other_hardware(start: Start) -> Refusal | None:
    """A format of Gaudi's."""
    if start.engine.kv_cache_dtype != "fp8_inc":
        return None
    return _cache(start, "it is Gaudi's format, no CUDA kernel reads it", "fp8 or auto")


def sixteen_bit_cache(start: Start) -> Refusal | None:
    """A bfloat16 cache that the user asks for, on a device without it (refused from 0.24.0 on)."""
    if canonical(start.engine.kv_cache_dtype) != "bfloat16" or start.capability is None:
        return None
    if start.capability >= BFLOAT16 or lacks(start.rules.version, (0, 24, 0)):
        return None
    return _cache(start, f"it needs compute capability 8.0, the device has {start.sm}", "float16")


def four_bit_sizes(start: Start) -> Refusal | None:
    """nvfp4 K and V of several sizes (Gemma-4, MiMo-V2), which no kernel reads."""
    if start.kv != "nvfp4":
        return None
    sizes = {
        size
        for group in start.shape.layer_groups
        if group.kind.per_head
        for size in (group.head_dim_k, group.head_dim_v)
    }
    if len(sizes) <= 1:
        return None
    return _cache(start, "its kernel reads heads of one size alone", "auto or fp8")


def four_bit_heads(start: Start) -> Refusal | None:
    """nvfp4 K and V where FlashInfer, the only kernel for them, does not serve the model."""
    cap = start.capability
    if start.kv != "nvfp4":
        return None
    if start.shape.architecture in IMAGE_PREFIX:
        return _cache(start, "its kernel does not attend to images both ways", "auto or fp8")
    if cap is None:
        return None
    if cap < BFLOAT16 or (cap[0] != BLACKWELL and lacks(start.rules.version, (0, 32, 0))):
        why = f"vLLM {start.rules.label} has no kernel for it on compute capability {start.sm}"
        return _cache(start, why, "auto or fp8")
    narrow = any(g.head_dim_k == NARROW_HEAD for g in start.shape.layer_groups if g.kind.per_head)
    if cap[0] != BLACKWELL and (narrow or start.shape.architecture in SINKS):
        why = f"its kernel on compute capability {start.sm} reads neither heads of 64 nor sinks"
        return _cache(start, why, "auto or fp8")
    return None


def sparse_context(start: Start) -> Refusal | None:
    """Decode context parallelism of sparse MLA.

    vllm v0.32.0 v1/attention/backends/mla: on 9.x FlashMLA's from 0.29.0 on, and of fp8 alone; on
    10.x FlashInfer's; on 12.x there is none.
    """
    flag, cap = "--decode-context-parallel-size", start.capability
    if start.engine.decode_context_parallel == 1 or not start.sparse or cap is None:
        return None
    if cap[0] == BLACKWELL:
        return None
    if cap[0] == HOPPER and not lacks(start.rules.version, (0, 29, 0)):
        if start.kv.startswith("fp8"):
            return None
        return _cache(start, f"with {flag} sparse MLA needs a packed one", "fp8")
    return Refusal(
        "InvalidParallelism",
        flag,
        f"{flag} is {start.engine.decode_context_parallel}; the sparse MLA of vLLM "
        f"{start.rules.label} has none of it on compute capability {start.sm}. Leave it out",
    )


RULES = (
    latent_formats, sparse_context, eight_bit_heads, eight_bit_latents, sixteen_bit_cache,
    four_bit_sizes, four_bit_heads, wide_exponents, other_hardware,
)  # fmt: skip
