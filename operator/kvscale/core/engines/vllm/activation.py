"""The peak of the run by which vLLM profiles itself: what its activations take.

The profiling run is one pass of the vision encoder, one forward pass of `max_num_batched_tokens`
and one sampling step of `max_num_seqs`. The largest peak counts, since the memory of one serves the
next; what the encoder put out is held throughout:

    forward  = tokens x (3 x hidden + feed-forward / tp) x element
               with experts: feed-forward = k x hidden + max(k x hidden, k x 3 x width / tp)
               with experts in fp8 blocks on 9.x (DeepGEMM): (tokens x k + experts x 128) x hidden
               x 5 bytes, as each expert's rows are rounded up to 128 and kept in fp8 beside bf16
    sampling = sequences x vocabulary x bytes per logit + tokens x hidden x element

Bytes per logit follow from the tensors alive in the sampler (`vllm.rules.SORTED_BYTES` and
its neighbours). Peaks that engines logged ("GiB for peak activation"), and this rule, GiB:

| model, tp, tokens, sequences | version | logged | rule |
|---|---|---|---|
| Llama-3.1-8B, 1, 8192, 1024 | 0.11.0 | 4.76 | 4.71 |
| Qwen3-0.6B, 1, 8192, 1024 | 0.11.0 | 5.56 | 5.52 |
| Qwen3-32B, 1 and 2, 8192, 1024 | 0.11.0 | 5.64 | 5.58 |
| gpt-oss-20b, 1, 8192, 1024 | 0.11.0 | 7.38 | 7.33 |
| Llama-3.3-70B, 2, 8192, 1024 | 0.11.0 | 4.84 | 4.77 |
| Qwen3-Next-80B-A3B, 2, 8192, 1024 | 0.11.0 | 5.58 | 5.53 |
| Qwen3-8B, 1, 2048, 256 | main, Feb 2026 | 1.40 | 1.40 |
| Qwen2.5-0.5B, 1, 32768, 256 | 0.26 | 1.06 | 1.06 |
| OPT-2.7B, 4, 8192, 256 | 0.11.0 | 0.22 | 0.23 with FlashInfer, 0.48 without |
| Mistral-Small-3.2-24B, 1, 8192, 1024 | 0.11.0 | 2.12 | 2.08 with FlashInfer, 4.82 without |

And what engines of a benchmark took besides weights, KV and 0.13 GiB outside torch, on one H200 by
0.18: Ministral-3-14B 2.14 (rule 2.08), Nemotron-3-Nano 2.05 (2.04), gemma-4-31B 4.03 (4.08).
"""

from dataclasses import dataclass

from kvscale.core.devices.compute_capability import compute_major
from kvscale.core.engines.bands import NOTHING, gib, scaled, summed
from kvscale.core.engines.versions import Version
from kvscale.core.engines.vllm.graphs import Run
from kvscale.core.engines.vllm.rules import PLAIN_BYTES, SORTED_BYTES, Rules
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.shape import LayerKind, ModelShape
from kvscale.core.model.weights.groups import padded_vocabulary
from kvscale.core.values import GIB, Band

UNKNOWN_WIDTH = 12
"""Feed-forward width in hidden sizes of a shape that does not state it (Llama: 10.5)."""

SORTED_LOW_PERCENT, SORTED_HIGH_PERCENT = 90, 112
"""Band of a peak that a sorting sampler makes."""

LAST_SILENT_FLASHINFER = (0, 11, 0)
FLASHINFER_LOW_PERCENT = 42
"""Until this version a sampler that does not sort (16 of 38 bytes) is taken where FlashInfer is
installed, which no setting shows; later it is asked for."""

LOW_PERCENT, HIGH_PERCENT = 60, 150
"""Band of any other peak."""

TUNING_HIGH = round(0.4 * GIB)
"""Buffers of kernels that are tuned in the profiling run, where no earlier run has left a cache."""

COMPILING_HIGH = round(1.3 * GIB)
"""A peak that compiling the model makes at least, where no earlier start has left its result:
Qwen3-8B on an RTX 4090 logged 1.18 GiB at the first start, 0.19 at the second (0.27.1)."""

_ENCODER_TOKENS = 8192
_ENCODER = gib(0.0, 1.5, 4.0)
"""A vision encoder at its largest input, for a batch of that many tokens. Logged: 1.97 (16,384
tokens), 2.12 (8192), about 1.5 (16,384)."""

_DEEP_LEVELS = 4
_DEEP = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")
_DEEP_TOKENS: tuple[tuple[Version, int], ...] = (
    ((0, 14, 0), 61_440), ((0, 12, 0), 32_768), ((0, 0, 0), 153_600),
)  # fmt: skip
"""What Qwen3-VL's encoder puts out for one video, at four levels, by version: 153,600 tokens are
logged (0.11.0); 0.5 GiB (0.13), 0.9 (0.14 to 0.20, hidden size 2048) and 1.9 (4096) follow."""

_GATED = gib(0.0, 0.6, 1.6)
"""Kernels of gated delta nets, which are tuned in the profiling run: 0.3 to 1.1 GiB (0.18)."""

_GATED_KINDS = (LayerKind.GATED_DELTA_NET, LayerKind.KIMI_DELTA)

_COMPRESSED_FIXED = (0, 23, 0)
_COMPRESSED = (gib(1.0, 5.5, 9.0), gib(0.0, 0.5, 4.0))
"""Buffers of DeepSeek-V4's compressed attention, before and from that version: 4.8 and 6.8 GiB
(V4-Pro, 0.20.2), less than 1 (V4-Flash, 0.26)."""

_DEEP_GEMM = (0, 11, 1)
_DEEP_GEMM_ROWS, _DEEP_GEMM_BYTES = 128, 5


@dataclass(frozen=True, slots=True)
class Activation:
    """The peak per device in bytes, by cause.

    Attributes:
        forward, sampling, encoder: expected peaks of the profiling run.
        held: outputs of the encoder, and kernels' buffers, beside the largest of them.
        bytes_per_logit: of the sampling step.
        feed_forward: elements per token of the widest feed-forward layer on one rank.
        element_bytes: of one activation.
        vocabulary: padded.
        peak: the largest of the three and what is held, with its band.
        assumptions: what was assumed.
    """

    forward: int
    sampling: int
    encoder: int
    held: int
    bytes_per_logit: int
    feed_forward: int
    element_bytes: int
    vocabulary: int
    peak: Band
    assumptions: tuple[str, ...] = ()


def activation(shape: ModelShape, rules: Rules, run: Run, *, second: bool) -> Activation:
    """The peak of the profiling run, as a band; see the module for the rule and its evidence.

    Args:
        shape: as loaded.
        rules: of the version.
        run: the profiling run.
        second: by the second model runner.
    """
    vocabulary = padded_vocabulary(shape.vocabulary_size)
    logits = run.max_num_seqs * vocabulary
    element = BITS.get(shape.dtype, BITS["bfloat16"]) // 8_000
    kept = run.max_num_batched_tokens * shape.hidden_size * element
    width, assumptions = _width(shape, rules, run, element)
    forward = run.max_num_batched_tokens * (3 * shape.hidden_size + width) * element
    each = PLAIN_BYTES if second else rules.sampler_bytes
    sampling = logits * each + kept
    peak = max(forward, sampling)
    sorts = each == SORTED_BYTES and sampling == peak
    low, high = _band(peak, rules, sorts=sorts)
    if not run.enforce_eager:
        high = max(high, COMPILING_HIGH)
    if not rules.certain:
        high = max(high, (logits * SORTED_BYTES + kept) * SORTED_HIGH_PERCENT // 100)
    encoder = 0
    if any(group.name == "vision" for group in shape.weight_groups):
        seen = scaled(_ENCODER, run.max_num_batched_tokens, _ENCODER_TOKENS)
        encoder, peak, high = seen.expected, max(peak, seen.expected), max(high, seen.high)
        assumptions += ("the peak of the vision encoder is not known: up to 4 GiB for 8192 tokens",)
    held = _held(shape, rules, element)
    return Activation(
        forward=forward,
        sampling=sampling,
        encoder=encoder,
        held=held.expected,
        bytes_per_logit=each,
        feed_forward=width,
        element_bytes=element,
        vocabulary=vocabulary,
        peak=Band(low + held.low, peak + held.expected, high + held.high),
        assumptions=assumptions,
    )


def _width(shape: ModelShape, rules: Rules, run: Run, element: int) -> tuple[int, tuple[str, ...]]:
    """Elements per token that the widest feed-forward layer holds on one rank."""
    width = shape.feed_forward_width
    if width == 0:
        width = UNKNOWN_WIDTH * shape.hidden_size
        said = f"the shape states no feed-forward width: {width} is taken"
        return -(-width // run.tensor_parallel), (said,)
    tokens, chosen = run.max_num_batched_tokens, shape.experts_per_token
    if chosen and _by_deep_gemm(shape, rules, run):
        experts = max((group.experts for group in shape.weight_groups), default=0)
        rows = tokens * chosen + experts // run.expert_ranks * _DEEP_GEMM_ROWS
        return -(-rows * shape.hidden_size * _DEEP_GEMM_BYTES // (tokens * element)), ()
    # What comes out of the experts is one hidden state for each choice, whole on every rank, and
    # the two workspaces of the kernel are at least that wide (vllm v0.32.0 fused_moe/experts).
    states = min(width, chosen * shape.hidden_size)
    return states + max(states, -(-(width - states) // run.tensor_parallel)), ()


def _by_deep_gemm(shape: ModelShape, rules: Rules, run: Run) -> bool:
    """Whether experts in fp8 blocks are multiplied by DeepGEMM, the default on 9.x."""
    hopper = compute_major(run.device.compute_capability) == "9"
    return hopper and shape.quantization == "fp8" and rules.version >= _DEEP_GEMM


def _band(peak: int, rules: Rules, *, sorts: bool) -> tuple[int, int]:
    """What the larger of forward pass and sampling step may be instead: low and high."""
    low, high, more = LOW_PERCENT, HIGH_PERCENT, TUNING_HIGH
    if sorts:
        low, high, more = SORTED_LOW_PERCENT, SORTED_HIGH_PERCENT, 0
        if rules.version <= LAST_SILENT_FLASHINFER:
            low = FLASHINFER_LOW_PERCENT
    return peak * low // 100, peak * high // 100 + more


def _held(shape: ModelShape, rules: Rules, element: int) -> Band:
    """What is there beside the largest peak."""
    parts = []
    if shape.architecture in _DEEP:
        tokens = next(most for first, most in _DEEP_TOKENS if rules.version >= first)
        size = tokens * shape.hidden_size * _DEEP_LEVELS * element
        parts.append(Band(0, size, size * 3 // 2))
    kinds = [group.kind for group in shape.layer_groups]
    if any(kind in kinds for kind in _GATED_KINDS):
        parts.append(_GATED)
    if LayerKind.COMPRESSED_MLA in kinds:
        parts.append(_COMPRESSED[rules.version >= _COMPRESSED_FIXED])
    return summed(*parts) if parts else NOTHING
