"""TensorRT-LLM's rules: its defaults, its memory rule and what it takes besides weights and KV.

    KV memory = (total - peak of a dummy step) x free_gpu_memory_fraction

capped by `max_tokens` and `max_gpu_total_bytes`, the smallest of the three (tensorrt_llm
_torch/pyexecutor/_util.py, KvCacheCreator.configure_kv_cache_capacity and _cal_max_memory, read in
main of 2026). The fraction is of what is left after weights, activations and buffers, not of the
device. The peak is that of a step of `max_num_tokens` tokens.

| setting | value | source |
|---|---|---|
| free_gpu_memory_fraction | 0.9 | llmapi/llm_args.py, KvCacheConfig |
| tokens_per_block | 32 | llmapi/llm_args.py, KvCacheConfig |
| max_batch_size | 2048 | builder.py, BuildConfig |
| max_num_tokens | 8192 | builder.py, BuildConfig |

Observed: 35,136 bytes per token (MLA of 61 layers in fp8) on 8 H200, 16,384 tokens a step: peak
91.46 GiB of 139.81, fraction 0.85, 41.11 GiB for KV = (139.81 - 91.46) x 0.85 (public log of
2026-01; the model is not named). No further log was found, so the band is wide.
"""

from dataclasses import dataclass

from kvscale.core.engines.bands import gib
from kvscale.core.engines.versions import Version, parse_version, version_text
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.values import Band

OLDEST: Version = (0, 17, 0)
NEWEST: Version = (1, 3, 9_999)

FRACTION_MILLI = 900
BLOCK_TOKENS = 32
BATCH = 2048
STEP_TOKENS = 8192


_NON_TORCH = ((8, gib(1.5, 4.0, 9.5)), (2, gib(0.8, 1.8, 4.5)), (1, gib(0.4, 1.0, 2.5)))
"""CUDA context, NCCL, all-reduce workspaces and CUDA graphs, by ranks of at least this."""


@dataclass(frozen=True, slots=True)
class TrtRules:
    """The rules of one version.

    Attributes:
        version: (1, 1, 0).
        assumptions: what was assumed.
    """

    version: Version
    assumptions: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The version for a person."""
        return version_text(self.version)


def trt_rules(version: str | None) -> TrtRules | Refusal:
    """The rules of a version; the newest ones where it is not known."""
    said = "TensorRT-LLM's estimate rests on one public log: the band is wide"
    parsed = parse_version(version) if version is not None else None
    newest = f"{NEWEST[0]}.{NEWEST[1]}"
    if parsed is None:
        what = "is not known" if version is None else f"{version[:40]!r} is no release"
        return TrtRules(
            NEWEST, (f"TensorRT-LLM's version {what}: the rules of {newest} apply", said)
        )
    if parsed < OLDEST:
        return Refusal(
            "UnsupportedEngineVersion",
            "engine.version",
            f"engine.version is {version!r}; TensorRT-LLM before 0.17 sizes its cache by an engine "
            "file that is not read here. Use a newer version, or correct engine.version",
        )
    if parsed > NEWEST:
        newer = f"TensorRT-LLM {version} is newer than {newest}, whose rules apply"
        return TrtRules(NEWEST, (newer, said))
    return TrtRules(parsed, (said,))


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak besides weights.

    Attributes:
        total: its bytes.
        context_bytes: contexts and buffers, expected.
        feed_forward: elements per token of a feed-forward layer on one rank.
        element_bytes: of one activation.
    """

    total: Band
    context_bytes: int
    feed_forward: int
    element_bytes: int


def peak_beside_weights(shape: ModelShape, ranks: int, tensor_parallel: int, tokens: int) -> Peak:
    """Contexts, buffers and one step of that many tokens."""
    taken = next(band for least, band in _NON_TORCH if ranks >= least)
    width = -(-(shape.feed_forward_width or 12 * shape.hidden_size) // tensor_parallel)
    element = BITS.get(shape.dtype, BITS["bfloat16"]) // 8_000
    step = tokens * (4 * shape.hidden_size + width) * element
    total = Band(taken.low + step // 3, taken.expected + step, taken.high + 3 * step)
    return Peak(total, taken.expected, width, element)
