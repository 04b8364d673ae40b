"""What vLLM estimates for its CUDA graphs, and the run that the estimates are for.

Logged estimates, GiB: 0.04 to 0.83 on one device, 1.2 to 1.65 with recurrent layers, 0.14 to 1.97
on two devices; few captured sizes take 0.04 to 0.45. What is captured in the end is often less
(0.04 of 1.65), but the estimate is what comes off the budget.
"""

from dataclasses import dataclass
from functools import lru_cache

from kvscale.core.devices.device import Device
from kvscale.core.engines.bands import NOTHING, gib, scaled, summed
from kvscale.core.engines.vllm.rules import Rules
from kvscale.core.model.shape import ModelShape
from kvscale.core.values import Band

_GRAPHS_FIRST = gib(0.0, 0.15, 0.5)
"""The first captures: workspaces of the kernels, and the activations of the largest batch."""
_GRAPH_EACH = Band(1 << 20, 5 << 20, 10 << 20)
"""Every further capture; the engine counts 1 MiB at least."""
_GRAPHS_RECURRENT = gib(0.0, 0.3, 1.2)
_GRAPHS_LATENT = gib(0.0, 0.5, 1.2)
_GRAPHS_RANKS = gib(0.0, 0.3, 1.3)
"""More of it with recurrent layers, with latent attention (DeepSeek-R1 on 8 x H200: 1.55 in all),
and with several ranks."""
MOST_CAPTURED = 512


@dataclass(frozen=True, slots=True)
class Run:
    """What the overhead depends on besides model and version.

    Attributes:
        device: one of the engine's devices.
        tensor_parallel: devices that split each layer.
        max_num_batched_tokens, max_num_seqs: of the profiling run.
        enforce_eager: no CUDA graphs.
        weight_bytes: of one rank.
        alone: neither pipeline nor data parallelism.
        expert_ranks: ranks that share out the experts whole; 1: each rank has a part of every one.
    """

    device: Device
    tensor_parallel: int
    max_num_batched_tokens: int
    max_num_seqs: int
    enforce_eager: bool = False
    weight_bytes: int = 0
    alone: bool = True
    expert_ranks: int = 1


def graph_estimate(shape: ModelShape, rules: Rules, run: Run, *, second: bool) -> Band:
    """What the engine estimates for its CUDA graphs before it captures them.

    Sizes up to twice the batch are captured, 512 at most: in pieces, and whole up to the batch
    (vllm v0.32.0 config/vllm.py, v1/cudagraph_dispatcher.py). The second runner estimates nothing
    before 0.29.0 (v1/worker/gpu/model_runner.py).
    """
    if run.enforce_eager or not rules.deducts_graphs:
        return NOTHING
    if second and rules.version < (0, 29, 0):
        return NOTHING
    captures = sizes(2 * run.max_num_seqs) + sizes(run.max_num_seqs)
    parts = [_GRAPHS_FIRST, scaled(_GRAPH_EACH, captures, 1)]
    kinds = [group.kind for group in shape.layer_groups]
    if any(kind.recurrent for kind in kinds):
        parts.append(_GRAPHS_RECURRENT)
    if any(kind.latent for kind in kinds):
        parts.append(_GRAPHS_LATENT)
    if run.tensor_parallel > 1:
        parts.append(_GRAPHS_RANKS)
    return summed(*parts)


@lru_cache(maxsize=256)
def sizes(largest: int) -> int:
    """Batch sizes that are captured up to a largest: 1, 2, 4, by 8 to 256, by 16 to 512."""
    largest = min(largest, MOST_CAPTURED)
    fine = min(largest, 256)
    return sum(one <= largest for one in (1, 2, 4)) + fine // 8 + (largest - fine) // 16
