"""What vLLM takes from its share of the device besides weights and KV: the overhead.

    KV memory = ceil(total x utilisation) - weights - overhead
    overhead  = non-torch + max(forward peak, sampling peak) [+ CUDA graphs, from 0.20.2]

(vllm v0.33.0 v1/worker/gpu_worker.py, determine_available_memory). The profiling run is one
forward pass of `max_num_batched_tokens` and one sampling step of `max_num_seqs`; the larger peak
counts, since the memory of one serves the other:

    forward  = batched tokens x (3 x hidden + feed-forward width / tp) x element
    sampling = sequences x vocabulary x bytes per logit

Bytes per logit: 36 before 0.19 (logits in bf16 and fp32, probabilities, and a sort with 8-byte
indices), 10 from then on (a top-k kernel without the sort).

Observed overheads without graphs, GiB per device (observed / expected by this rule):

| model, tp, tokens, sequences | version | device | observed | expected | source |
|---|---|---|---|---|---|
| Llama-3.3-70B, 2, 8192, 1024 | 0.11.0 | H100 | 5.38 | 5.10 | llm-d-planner e50305a |
| Qwen3-0.6B, 1, 8192, 1024 | 0.11.0 | H100 | 5.69 | 5.47 | llm-d-planner e50305a |
| gpt-oss-20b, 1, 8192, 1024 | 0.11.0 | H100 | 7.5 | 7.15 | llm-d-planner e50305a |
| Mistral-Small-24B, 1, 8192, 1024 | 0.11.0 | H100 | 2.26 | 4.75 | llm-d-planner e50305a |
| Llama-3.1-70B, 4, 2048, 128 | not stated | H100 | 1.24 | 1.25 | inference-sim f90a1e3 |
| Mistral-Nemo, 2, 1024, 128 | not stated | H100 | 1.25 | 1.26 | inference-sim f90a1e3 |
| Yi-34B, 2, 2048, 128 | not stated | H100 | 1.16 | 0.97 | inference-sim f90a1e3 |
| Llama-2-70B, 4, 2048, 128 | not stated | H100 | 0.86 | 0.88 | sim-to-real dcec3fd |
| CodeLlama-34B, 2, 2048, 128 | not stated | H100 | 0.87 | 0.92 | sim-to-real dcec3fd |
| Llama-2-7B, 1, 2048, 128 | not stated | H100 | 0.41 | 0.42 | sim-to-real dcec3fd |
| Llama-3.1-8B, 1, 2048, 256 | not stated | A5000 | 1.35 | 1.35 | public log, eager |
| Llama-3.3-70B, 8, 8192, 32 | main, May 2026 | H100 | 2.21 | 2.19 | vllm_hybrid 8fa80a9 |
| Llama-3.3-70B, 8, 8192, 256 | main, May 2026 | H100 | 2.22 | 2.19 | vllm_hybrid 8fa80a9 |
| Qwen2.5-7B, 1, 2048, 256 | main, Apr 2026 | RTX 3090 | 0.60 | 0.61 | vllm_hybrid 8fa80a9 |

Where the source states no utilisation (inference-sim, sim-to-real), 0.9 was the default of the
time; where it states no batch, the default of its version is meant. CUDA graphs, estimated or
measured in these and other logs: 0, 0.28, 0.55 and 1.42 GiB on one device, 0.81, 1.29 and 2.23 on
several.
"""

from dataclasses import dataclass

from kvscale.core.engines.vllm import GIB, Rules
from kvscale.core.model.dtypes import BITS
from kvscale.core.model.shape import ModelShape
from kvscale.core.model.weights import padded_vocabulary
from kvscale.core.values import Band

ACTIVATION_LOW_PERCENT = 40
ACTIVATION_HIGH_PERCENT = 150
"""Band of the activation peak around the rule: observed were 45 % (Mistral-Small) to 120 %."""

UNKNOWN_WIDTH = 12
"""Feed-forward width in hidden sizes of a shape that does not state it (Llama: 10.5)."""


def _gib(low: float, expected: float, high: float) -> Band:
    return Band(round(low * GIB), round(expected * GIB), round(high * GIB))


def _by_ranks(bands: tuple[tuple[int, Band], ...], tensor_parallel: int) -> Band:
    return next(band for ranks, band in bands if tensor_parallel >= ranks)


_NON_TORCH = ((8, _gib(0.9, 1.65, 2.4)), (2, _gib(0.35, 0.7, 1.4)), (1, _gib(0.1, 0.25, 0.6)))
"""CUDA context, NCCL buffers and custom all-reduce, by tensor parallelism of at least this."""

_GRAPHS = ((2, _gib(0.0, 0.7, 2.5)), (1, _gib(0.0, 0.5, 1.5)))
"""What the engine estimates for its CUDA graphs, by tensor parallelism of at least this."""

_VISION_HIGH = round(2.5 * GIB)
"""A vision encoder is profiled at its largest input; no log of one was found, so only `high`."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """The overhead per device in bytes, by cause.

    Attributes:
        non_torch: contexts and communication.
        forward, sampling: expected peaks of the profiling run.
        activation: the larger of the two, with its band.
        graphs: CUDA graphs, where they are deducted; 0 otherwise.
        assumptions: what was assumed.
    """

    non_torch: Band
    forward: int
    sampling: int
    activation: Band
    graphs: Band
    assumptions: tuple[str, ...] = ()

    @property
    def total(self) -> Band:
        """All of it."""
        parts = (self.non_torch, self.activation, self.graphs)
        return Band(
            sum(part.low for part in parts),
            sum(part.expected for part in parts),
            sum(part.high for part in parts),
        )


def overhead(
    shape: ModelShape,
    rules: Rules,
    tensor_parallel: int,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    *,
    enforce_eager: bool,
) -> Overhead:
    """The overhead of an engine, as a band; see the module for the rule and its evidence."""
    assumptions: tuple[str, ...] = ()
    width = shape.feed_forward_width
    if width == 0:
        width = UNKNOWN_WIDTH * shape.hidden_size
        assumptions = (f"the shape states no feed-forward width: {width} is taken",)
    element = BITS.get(shape.dtype, BITS["bfloat16"]) // 8_000
    forward = (
        max_num_batched_tokens
        * (3 * shape.hidden_size + -(-width // tensor_parallel))
        * element
    )  # fmt: skip
    sampling = max_num_seqs * padded_vocabulary(shape.vocabulary_size) * rules.sampler_bytes
    peak = max(forward, sampling)
    high = peak * ACTIVATION_HIGH_PERCENT // 100
    if any(group.name == "vision" for group in shape.weight_groups):
        high += _VISION_HIGH
        assumptions += ("the activation peak of the vision encoder is not known: 0 to 2.5 GiB",)
    deducted = rules.deducts_graphs and not enforce_eager
    return Overhead(
        non_torch=_by_ranks(_NON_TORCH, tensor_parallel),
        forward=forward,
        sampling=sampling,
        activation=Band(peak * ACTIVATION_LOW_PERCENT // 100, peak, high),
        graphs=_by_ranks(_GRAPHS, tensor_parallel) if deducted else Band.point(0),
        assumptions=assumptions,
    )
