"""What a device cannot run in vLLM: dtypes, formats of weights and of the KV cache, sparse MLA.

| cannot run | below, or where | source (vllm v0.32.0) |
|---|---|---|
| weights in a quantised format | `MINIMA` | get_min_capability of quantization/*.py |
| bfloat16 | 8.0 | platforms/cuda.py, check_if_supports_dtype |
| sparse MLA | neither 9.x, 10.x nor, from 0.24 on, 12.x | v1/attention/backends/mla/*sparse*.py |
| fp8 KV by Triton | 8.9 | triton_attn.py, mla/triton_mla.py |
| fp8_e5m2 of latents | everywhere | supported_kv_cache_dtypes of mla/*.py |
| packed latents without an indexer | everywhere | mla/flashmla_sparse.py |
| nvfp4 KV | 8.0; all but 10.x before 0.32 | flashinfer.py |
| DeepSeek-V4 with other KV than fp8 | everywhere | models/deepseek_v4/attention.py |
"""

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.engines.versions import Version
from kvscale.core.engines.vllm.blocks import IMAGE_PREFIX
from kvscale.core.engines.vllm.releases import lacks
from kvscale.core.engines.vllm.start import Start
from kvscale.core.model.checkpoint.quantization import canonical_method
from kvscale.core.model.dtypes import canonical
from kvscale.core.model.shape import LayerKind

Capability = tuple[int, int]

BFLOAT16: Capability = (8, 0)
NATIVE_FP8: Capability = (8, 9)

MINIMA: dict[str, tuple[tuple[Version, Capability], ...]] = {
    "fp8": (((0, 14, 1), (7, 5)), ((0, 8, 0), (8, 0))),
    "awq": (((0, 8, 0), (7, 5)),),
    "gptq": (((0, 8, 0), (6, 0)),),
    "compressed-tensors": (((0, 8, 0), (7, 5)),),
    "modelopt": (((0, 27, 0), (8, 0)), ((0, 8, 0), (8, 9))),
    "modelopt-fp4": (((0, 14, 1), (7, 5)), ((0, 9, 0), (8, 0)), ((0, 8, 0), (10, 0))),
    "mxfp4": (((0, 8, 0), (8, 0)),),
    "bitsandbytes": (((0, 8, 0), (7, 0)),),
}
"""Least compute capability of each format, newest release first. compressed-tensors has it from
its schemes, of which none is for less."""

SINKS = frozenset({"GptOssForCausalLM"})
"""Architectures with attention sinks, which FlashInfer does not serve below 9.0."""

FLASHINFER_HEADS = frozenset({64, 128, 256, 512})
NARROW_HEAD = 64

_PACKED = ("fp8_ds_mla", "nvfp4_ds_mla")
_HEADS = (
    LayerKind.FULL_ATTENTION, LayerKind.SLIDING_WINDOW, LayerKind.CHUNKED_LOCAL,
)  # fmt: skip


def _format(start: Start) -> str:
    name = start.shape.quantization or canonical_method(start.engine.quantization or "")
    four_bits = any(
        group.quantizable and group.bits_per_parameter_milli < 8_000  # noqa: PLR2004 - 8 bits
        for group in start.shape.weight_groups
    )
    return "modelopt-fp4" if name == "modelopt" and four_bits else name


def weight_format(start: Start) -> Refusal | None:
    """A device older than the kernels of the checkpoint's format.

    vllm v0.32.0 config/vllm.py, get_quantization_config.
    """
    name = _format(start)
    least = next(
        (
            least
            for version, least in MINIMA.get(name, ())
            if not lacks(start.rules.version, version)
        ),
        None,
    )
    if least is None or start.capability is None or start.capability >= least:
        return None
    return Refusal(
        "UnsupportedQuantization",
        "quantization_config.quant_method",
        f"the checkpoint is in {name}, whose kernels need compute capability "
        f"{least[0]}.{least[1]}; the device has {start.sm}. Take a newer device or another "
        "checkpoint",
    )


def activations(start: Start) -> Refusal | None:
    """bfloat16 that the user asks for, on a device without it (`auto` becomes float16 there)."""
    stated = canonical(start.engine.dtype) == "bfloat16"
    if not stated or start.capability is None or start.capability >= BFLOAT16:
        return None
    return Refusal(
        "InvalidDtype",
        "--dtype",
        f"--dtype is bfloat16, which needs compute capability 8.0; the device has {start.sm}. "
        "Use float16",
    )


def sparse_latents(start: Start) -> Refusal | None:
    """Sparse MLA on a device without a kernel for it."""
    if not start.sparse or start.capability is None:
        return None
    majors = {9, 10} if lacks(start.rules.version, (0, 24, 0)) else {9, 10, 12}
    if start.capability[0] in majors:
        return None
    return Refusal(
        "UnsupportedDevice",
        "architectures",
        f"{start.shape.architecture or 'the model'} has sparse MLA, for which vLLM "
        f"{start.rules.label} has no kernel on compute capability {start.sm}; take a device of "
        + " or ".join(f"{major}.x" for major in sorted(majors)),
    )


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
        if group.kind in _HEADS
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
    by_triton = cap[0] not in {9, 10}
    if cap >= NATIVE_FP8 and not (by_triton and lacks(start.rules.version, (0, 18, 0))):
        return None
    why = f"no MLA kernel of vLLM {start.rules.label} reads it on compute capability {start.sm}"
    return _cache(start, why, "bfloat16")


def latent_formats(start: Start) -> Refusal | None:
    """Formats of the KV cache that no MLA kernel reads."""
    stated = start.engine.kv_cache_dtype
    if start.compressed:
        if stated == "auto" or (stated.startswith("fp8") and "head" not in stated):
            return None
        return _cache(start, "DeepSeek-V4 keeps its latents in packed fp8", "auto or fp8")
    if not start.latent:
        return None
    if stated == "fp8_e5m2":
        return _cache(start, "no MLA kernel reads it", "fp8 or auto")
    if stated in _PACKED and not start.sparse:
        return _cache(start, "it is the format of sparse MLA alone", "fp8 or auto")
    return None


def four_bit_heads(start: Start) -> Refusal | None:
    """nvfp4 K and V where FlashInfer, the only kernel for them, does not serve the model."""
    cap = start.capability
    if start.kv != "nvfp4":
        return None
    if start.shape.architecture in IMAGE_PREFIX:
        return _cache(start, "its kernel does not attend to images both ways", "auto or fp8")
    if cap is None:
        return None
    if cap < BFLOAT16 or (cap[0] != 10 and lacks(start.rules.version, (0, 32, 0))):  # noqa: PLR2004
        why = f"vLLM {start.rules.label} has no kernel for it on compute capability {start.sm}"
        return _cache(start, why, "auto or fp8")
    narrow = any(g.head_dim_k == NARROW_HEAD for g in start.shape.layer_groups if g.kind in _HEADS)
    if cap[0] != 10 and (narrow or start.shape.architecture in SINKS):  # noqa: PLR2004
        why = f"its kernel on compute capability {start.sm} reads neither heads of 64 nor sinks"
        return _cache(start, why, "auto or fp8")
    return None


RULES = (
    weight_format, activations, sparse_latents, latent_formats, eight_bit_heads,
    eight_bit_latents, four_bit_heads,
)  # fmt: skip
