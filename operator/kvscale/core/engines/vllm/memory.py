"""What vLLM takes from its share of the device besides weights and KV: the overhead.

    KV memory = ceil(total x utilisation) - weights - overhead
    overhead  = non-torch + runner's buffers + peak of the profiling run [+ CUDA graphs]

(vllm v0.8.0 to v0.33.0 v1/worker/gpu_worker.py, determine_available_memory; which terms count is
in `vllm.Rules`, by version). The profiling run is one pass of the vision encoder, one forward pass
of `max_num_batched_tokens` and one sampling step of `max_num_seqs`. The largest peak counts, since
the memory of one serves the next:

    forward  = tokens x (3 x hidden + feed-forward / tp) x element
               with experts: feed-forward = k x hidden + max(k x hidden, k x 3 x width / tp)
    sampling = sequences x vocabulary x bytes per logit + tokens x hidden x element

Bytes per logit follow from the tensors alive in the sampler (`vllm.SORTED_BYTES` and its
neighbours). Peaks that engines logged ("GiB for peak activation"), and this rule, GiB:

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
| OPT-2.7B, 4, 8192, 256 | 0.11.0 | 0.22 | 0.21 with FlashInfer, 0.48 without |
| Mistral-Small-3.2-24B, 1, 8192, 1024 | 0.11.0 | 2.12 | 1.83 with FlashInfer, 4.82 without |

Logged memory outside torch: 0.02 to 0.14 GiB on one device, 0.55 (2 x H100), 0.21 (4 x L40S, no
NVLink), 1.38 (2 x H200, Qwen3-Next), 1.65 (8 x H100).
"""

from dataclasses import dataclass

from kvscale.core.engines.bands import GIB, by_ranks, gib, scaled, summed
from kvscale.core.engines.vllm.graphs import Run, graph_estimate
from kvscale.core.engines.vllm.rules import (
    COUNTER_MILLI,
    PLAIN_BYTES,
    SORTED_BYTES,
    Rules,
    second_runner,
    unified_memory,
)
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.shape import ModelShape
from kvscale.core.model.weights.groups import padded_vocabulary
from kvscale.core.values import Band

UNKNOWN_WIDTH = 12
"""Feed-forward width in hidden sizes of a shape that does not state it (Llama: 10.5)."""

SORTED_LOW_PERCENT, SORTED_HIGH_PERCENT = 90, 112
"""Band of a peak that a sorting sampler makes."""

LAST_SILENT_FLASHINFER = (0, 11, 0)
FLASHINFER_LOW_PERCENT = 37
"""Until this version a sampler that does not sort (14 of 38 bytes) is taken where FlashInfer is
installed, which no setting shows; later it is asked for."""

LOW_PERCENT, HIGH_PERCENT = 60, 150
"""Band of any other peak."""

TUNING_HIGH = round(0.4 * GIB)
"""Buffers of kernels that are tuned in the profiling run, where no earlier run has left a cache."""


_LINKED = (
    (8, gib(0.5, 1.65, 2.6)), (4, gib(0.25, 0.7, 1.8)), (2, gib(0.2, 0.55, 1.6)),
    (1, gib(0.0, 0.13, 0.6)),
)  # fmt: skip
_UNLINKED = ((8, gib(0.1, 0.4, 1.5)), (2, gib(0.05, 0.21, 1.0)), (1, gib(0.0, 0.1, 0.5)))
"""Outside torch, by ranks of at least this: NCCL's buffers over NVLink, and over PCIe."""

_COMMUNICATORS = ((2, gib(0.1, 0.35, 1.0)), (1, Band.point(0)))
"""What NCCL and custom all-reduce take when they start, where that is counted."""

_CONTEXT = gib(0.3, 0.5, 1.0)
"""The CUDA context, where it is counted."""

_PCIE = ("7.5", "8.6", "8.9", "12.0", "12.1")
"""Compute capabilities of cards without NVLink between them."""

_ENCODER_TOKENS = 8192
_ENCODER = gib(0.0, 1.5, 4.0)
"""A vision encoder at its largest input, for a batch of that many tokens. Logged: 1.97 (16,384
tokens), 2.12 (8192), about 1.5 (16,384)."""

_REPACKED_PERMILLE = 40
"""Weights in four bits that a kernel lays out anew, at most, in thousandths of them: gpt-oss-20b
loads as 13.47 to 13.76 GiB and gpt-oss-120b as 64.38, allocated as 13.27 and 63.35."""

_UNIFIED_PERMILLE = (0, 20, 90)
"""Memory that the host takes on a device that shares it, in thousandths of the total."""

_SHARED = "the device shares the host's memory: what runs there comes off the KV memory"


@dataclass(frozen=True, slots=True)
class Overhead:
    """The overhead per device in bytes, by cause.

    Attributes:
        non_torch: contexts, communication, and what else is not torch's.
        buffers: that the runner keeps, where they are counted.
        forward, sampling, encoder: expected peaks of the profiling run.
        bytes_per_logit: of the sampling step.
        feed_forward: elements per token of the widest feed-forward layer on one rank.
        element_bytes: of one activation.
        vocabulary: padded.
        activation: the largest of the three, with its band.
        graphs: CUDA graphs, where they are deducted; 0 otherwise.
        repacked: what weights take beside their stored size.
        assumptions: what was assumed.
    """

    non_torch: Band
    buffers: int
    forward: int
    sampling: int
    encoder: int
    bytes_per_logit: int
    feed_forward: int
    element_bytes: int
    vocabulary: int
    activation: Band
    graphs: Band
    repacked: Band
    assumptions: tuple[str, ...] = ()

    @property
    def total(self) -> Band:
        """All of it."""
        buffers = Band.point(self.buffers)
        return summed(self.non_torch, buffers, self.activation, self.graphs, self.repacked)


def overhead(shape: ModelShape, rules: Rules, run: Run) -> Overhead:
    """The overhead of an engine, as a band; see the module for the rule and its evidence."""
    second, unified = second_runner(rules, shape), unified_memory(run.device)
    vocabulary = padded_vocabulary(shape.vocabulary_size)
    logits = run.max_num_seqs * vocabulary
    element = BITS.get(shape.dtype, BITS["bfloat16"]) // 8_000
    kept = run.max_num_batched_tokens * shape.hidden_size * element
    width, assumptions = _width(shape, run.tensor_parallel)
    forward = run.max_num_batched_tokens * (3 * shape.hidden_size + width) * element
    each = PLAIN_BYTES if second else rules.sampler_bytes
    sampling = logits * each + kept
    sees = "vision" in [group.name for group in shape.weight_groups]
    encoder = 0
    peak = max(forward, sampling)
    activation = _band(peak, rules, sorts=each == SORTED_BYTES and sampling == peak)
    if sees:
        seen = scaled(_ENCODER, run.max_num_batched_tokens, _ENCODER_TOKENS)
        encoder = seen.expected
        activation = Band(
            activation.low,
            max(peak, encoder),
            max(activation.high, seen.high),
        )
        assumptions += ("the peak of the vision encoder is not known: up to 4 GiB for 8192 tokens",)
    if not rules.certain:
        sorted_high = (logits * SORTED_BYTES + kept) * SORTED_HIGH_PERCENT // 100
        activation = Band(
            activation.low, activation.expected, max(activation.high, sorted_high)
        )  # fmt: skip
    return Overhead(
        non_torch=_non_torch(rules, run, unified=unified),
        buffers=logits * COUNTER_MILLI // 1000 if second and rules.counts_buffers else 0,
        forward=forward,
        sampling=sampling,
        encoder=encoder,
        bytes_per_logit=each,
        feed_forward=width,
        element_bytes=element,
        vocabulary=vocabulary,
        activation=activation,
        graphs=graph_estimate(shape, rules, run, second=second),
        repacked=_repacked(shape, run.weight_bytes),
        assumptions=(*assumptions, *((_SHARED,) if unified else ())),
    )


def _width(shape: ModelShape, tensor_parallel: int) -> tuple[int, tuple[str, ...]]:
    """Elements per token that the widest feed-forward layer holds on one rank."""
    width = shape.feed_forward_width
    if width == 0:
        width = UNKNOWN_WIDTH * shape.hidden_size
        said = f"the shape states no feed-forward width: {width} is taken"
        return -(-width // tensor_parallel), (said,)
    # What comes out of the experts is one hidden state for each choice, whole on every rank, and
    # the two workspaces of the kernel are at least that wide (vllm v0.32.0 fused_moe/experts).
    chosen = min(width, shape.experts_per_token * shape.hidden_size)
    return chosen + max(chosen, -(-(width - chosen) // tensor_parallel)), ()


def _band(peak: int, rules: Rules, *, sorts: bool) -> Band:
    low, high, more = LOW_PERCENT, HIGH_PERCENT, TUNING_HIGH
    if sorts:
        low, high, more = SORTED_LOW_PERCENT, SORTED_HIGH_PERCENT, 0
        if rules.version <= LAST_SILENT_FLASHINFER:
            low = FLASHINFER_LOW_PERCENT
    return Band(peak * low // 100, peak, peak * high // 100 + more)


def _non_torch(rules: Rules, run: Run, *, unified: bool) -> Band:
    device = run.device
    apart = device.compute_capability in _PCIE or "pcie" in device.product.lower()
    parts = [by_ranks(_UNLINKED if apart else _LINKED, run.tensor_parallel)]
    if rules.counts_communicators:
        parts.append(by_ranks(_COMMUNICATORS, run.tensor_parallel))
    if rules.counts_context:
        parts.append(_CONTEXT)
    if unified:
        low, expected, high = (device.memory_bytes * share // 1000 for share in _UNIFIED_PERMILLE)
        parts.append(Band(low, expected, high))
    return summed(*parts)


def _repacked(shape: ModelShape, weight_bytes: int) -> Band:
    four = shape.quantization not in {"", "fp8"}
    return Band(0, 0, weight_bytes * _REPACKED_PERMILLE // 1000 if four else 0)
