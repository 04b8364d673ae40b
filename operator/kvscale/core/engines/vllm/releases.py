"""What each release of vLLM has: architectures, formats and settings, by the first one.

Read in the releases of `READ` (model_executor/models/registry.py, config/). What came between two
of them counts as there from the one after the older: a version is refused only where an equal or
newer release is known to lack it.
"""

from bisect import bisect_left

from kvscale.core.engines.versions import Version, version_text
from kvscale.core.engines.vllm.drafting import STANDALONE
from kvscale.core.engines.vllm.start import Start
from kvscale.core.model.checkpoint.quantization import canonical_method
from kvscale.core.refusal import Refusal

READ: tuple[Version, ...] = (
    (0, 8, 0), (0, 8, 5), (0, 9, 0), (0, 9, 1), (0, 9, 2), (0, 10, 0), (0, 10, 1), (0, 10, 2),
    (0, 11, 0), (0, 11, 2), (0, 12, 0), (0, 13, 0), (0, 14, 1), (0, 15, 1), (0, 16, 0), (0, 17, 0),
    (0, 18, 0), (0, 19, 1), (0, 20, 0), (0, 21, 0), (0, 22, 0), (0, 23, 0), (0, 24, 0), (0, 25, 0),
    (0, 26, 0), (0, 27, 0), (0, 28, 0), (0, 29, 0), (0, 30, 0), (0, 31, 0), (0, 32, 0), (0, 33, 0),
)  # fmt: skip
"""Releases whose sources were read."""

_FIRST: dict[Version, str] = {
    (0, 8, 5): "Glm4ForCausalLM KimiVLForConditionalGeneration Llama4ForConditionalGeneration "
    "MiniMaxText01ForCausalLM Mistral3ForConditionalGeneration Qwen3ForCausalLM "
    "Qwen3MoeForCausalLM",
    (0, 9, 0): "FalconH1ForCausalLM GraniteMoeHybridForCausalLM MiMoForCausalLM",
    (0, 9, 1): "NemotronHForCausalLM",
    (0, 9, 2): "Ernie4_5_MoeForCausalLM Glm4vForConditionalGeneration HunYuanMoEV1ForCausalLM "
    "MiniMaxM1ForCausalLM",
    (0, 10, 0): "ArceeForCausalLM Exaone4ForCausalLM Glm4MoeForCausalLM HunYuanDenseV1ForCausalLM "
    "MiniMaxForCausalLM",
    (0, 10, 1): "Ernie4_5ForCausalLM Gemma3nForCausalLM Glm4vMoeForConditionalGeneration "
    "GptOssForCausalLM Llama4ForCausalLM SmolLM3ForCausalLM",
    (0, 10, 2): "ApertusForCausalLM Lfm2ForCausalLM Qwen3NextForCausalLM SeedOssForCausalLM",
    (0, 11, 0): "BailingMoeV2ForCausalLM DeepseekV32ForCausalLM Olmo3ForCausalLM "
    "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration",
    (0, 11, 2): "AfmoeForCausalLM KimiLinearForCausalLM Lfm2MoeForCausalLM MiniMaxM2ForCausalLM",
    (0, 12, 0): "MistralLarge3ForCausalLM",
    (0, 14, 1): "ExaoneMoEForCausalLM MiMoV2FlashForCausalLM",
    (0, 15, 1): "Glm4MoeLiteForCausalLM KimiK25ForConditionalGeneration Step3p5ForCausalLM",
    (0, 16, 0): "GlmMoeDsaForCausalLM",
    (0, 17, 0): "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration",
    (0, 18, 0): "OlmoHybridForCausalLM",
    (0, 19, 1): "Gemma4ForCausalLM Gemma4ForConditionalGeneration",
    (0, 20, 0): "DeepseekV4ForCausalLM HYV3ForCausalLM Ministral3ForCausalLM",
    (0, 21, 0): "MiMoV2ForCausalLM",
    (0, 24, 0): "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
    (0, 27, 0): "ExaoneMoeForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
}
ARCHITECTURES: dict[str, Version] = {
    name: version for version, names in _FIRST.items() for name in names.split()
}
"""First release read that registers an architecture; those of 0.8.0 are left out."""

REMOVED: dict[str, Version] = {
    "BambaForCausalLM": (0, 24, 0),
    "MiniMaxForCausalLM": (0, 24, 0),
    "MiniMaxM1ForCausalLM": (0, 24, 0),
    "MiniMaxText01ForCausalLM": (0, 24, 0),
    "BaichuanForCausalLM": (0, 25, 0),
    "Grok1ForCausalLM": (0, 25, 0),
    "Grok1ModelForCausalLM": (0, 25, 0),
}
"""First release that refuses an architecture (registry.py, _PREVIOUSLY_SUPPORTED_MODELS)."""

METHODS: dict[str, Version] = {"mxfp4": (0, 10, 1)}
METHODS_REMOVED: dict[str, Version] = {"bitsandbytes": (0, 28, 0)}
"""Formats of checkpoints that have not always been there (model_executor/layers/quantization)."""

CACHE_DTYPES: dict[str, Version] = {
    "fp8_ds_mla": (0, 11, 0),
    "nvfp4": (0, 20, 0),
    "int8_per_token_head": (0, 20, 0),
    "fp8_per_token_head": (0, 20, 0),
    "nvfp4_ds_mla": (0, 29, 0),
}
"""Dtypes of the KV cache (config/cache.py, CacheDType)."""

CONTEXT_PARALLEL: Version = (0, 10, 2)
CONTEXT_PARALLEL_HEADS: Version = (0, 11, 2)
"""Decode context parallelism of latents, and of attention with heads (config/model.py)."""

AUTO_LENGTH: Version = (0, 14, 1)
"""`--max-model-len -1` and "auto" (config/model.py)."""

DRAFT_MODEL: Version = (0, 15, 0)
"""Speculation by a second model (v1/worker/gpu_model_runner.py)."""


def lacks(version: Version, first: Version) -> bool:
    """Whether a version is known to lack what the release `first` has.

    Args:
        version: of the engine.
        first: the oldest release of `READ` that has it.
    """
    older = bisect_left(READ, first) - 1
    return older >= 0 and version <= READ[older]


def _too_old(start: Start, what: str, first: Version) -> Refusal | None:
    if not lacks(start.rules.version, first):
        return None
    return Refusal(
        "UnsupportedEngineVersion",
        "engine.version",
        f"vLLM {start.rules.label} does not know {what}: the first release known to is "
        f"{version_text(first)}. Take that or a newer one, or correct engine.version",
    )


def _too_new(start: Start, what: str, removed: Version) -> Refusal | None:
    # Of an unknown version the newest rules are taken; that is no reason to refuse the model.
    if not start.rules.certain or start.rules.version < removed:
        return None
    return Refusal(
        "UnsupportedEngineVersion",
        "engine.version",
        f"vLLM {start.rules.label} has no {what} any more: it was removed in "
        f"{version_text(removed)}. Take an older release, or correct engine.version",
    )


def architecture(start: Start) -> Refusal | None:
    """An architecture that the version does not have yet, or no longer."""
    name = start.shape.architecture
    if name in ARCHITECTURES:
        return _too_old(start, f"the architecture {name}", ARCHITECTURES[name])
    return _too_new(start, name, REMOVED[name]) if name in REMOVED else None


def method(start: Start) -> Refusal | None:
    """A format of the checkpoint that the version does not have."""
    name = start.shape.quantization or canonical_method(start.engine.quantization or "")
    if name in METHODS:
        return _too_old(start, f"the format {name}", METHODS[name])
    if name in METHODS_REMOVED:
        return _too_new(start, f"format {name}", METHODS_REMOVED[name])
    return None


def cache_dtype(start: Start) -> Refusal | None:
    """A dtype of the KV cache that the version does not have."""
    stated = start.engine.kv_cache_dtype
    first = CACHE_DTYPES.get(stated)
    return _too_old(start, f"--kv-cache-dtype {stated}", first) if first else None


def context_parallel(start: Start) -> Refusal | None:
    """Decode context parallelism before it was there."""
    if start.engine.decode_context_parallel == 1:
        return None
    if start.latent or start.compressed:
        return _too_old(start, "--decode-context-parallel-size", CONTEXT_PARALLEL)
    what = "--decode-context-parallel-size for attention with KV heads"
    return _too_old(start, what, CONTEXT_PARALLEL_HEADS)


def standalone_draft(start: Start) -> Refusal | None:
    """A draft model, before the V1 engine could use one."""
    if start.engine.speculative_method != STANDALONE:
        return None
    return _too_old(start, "speculation by a draft model", DRAFT_MODEL)


def automatic_length(start: Start) -> Refusal | None:
    """A length that the engine is to find itself, before it could."""
    if start.engine.max_model_len != -1:
        return None
    return _too_old(start, "--max-model-len -1", AUTO_LENGTH)


RULES = (architecture, method, cache_dtype, context_parallel, automatic_length, standalone_draft)
