"""What vLLM takes from its share of the device besides weights and KV: the overhead.

    KV memory = ceil(total x utilisation) - weights - overhead
    overhead  = non-torch + runner's buffers + peak of the profiling run [+ CUDA graphs]

(vllm v0.8.0 to v0.33.0 v1/worker/gpu_worker.py, determine_available_memory; which terms count is
in `vllm.rules`, by version; the peak is in `vllm.activation`, the graphs in `vllm.graphs`).

Logged memory outside torch: 0.02 to 0.14 GiB on one device, 0.55 (2 x H100), 0.21 (4 x L40S, no
NVLink), 1.38 (2 x H200, Qwen3-Next), 1.65 (8 x H100). From 0.17.0 all-reduce is fused with the norm
behind it on 9.x and 10.x (config/vllm.py, enable_allreduce_rms_fusion), whose workspaces are
outside torch too: what engines of a benchmark took besides weights, KV and peak, by 0.18 and 0.20,
is 1.9 GiB on 2 devices, 2.1 on 4 (the same on H200 and B200), 1.9 to 2.5 on 8; by 0.11.2 to 0.16 it
is 0.7 on 4 and 1.0 to 1.6 on 8.
"""

from dataclasses import dataclass

from kvscale.core.devices.compute_capability import compute_major
from kvscale.core.engines.bands import NOTHING, by_ranks, gib, summed
from kvscale.core.engines.vllm.activation import Activation, activation
from kvscale.core.engines.vllm.graphs import Run, graph_estimate
from kvscale.core.engines.vllm.rules import COUNTER_MILLI, Rules, second_runner
from kvscale.core.model.shape import ModelShape
from kvscale.core.values import Band

_LINKED = (
    (8, gib(0.3, 1.4, 3.2)), (4, gib(0.25, 0.7, 1.8)), (2, gib(0.2, 0.55, 1.6)),
    (1, gib(0.0, 0.13, 0.6)),
)  # fmt: skip
_UNLINKED = ((8, gib(0.1, 0.4, 1.5)), (2, gib(0.05, 0.21, 1.0)), (1, gib(0.0, 0.1, 0.5)))
"""Outside torch, by ranks of at least this: NCCL's buffers over NVLink, and over PCIe."""

_FUSED = (
    (8, gib(1.2, 2.1, 3.8)), (4, gib(0.9, 2.1, 3.4)), (2, gib(0.7, 1.9, 3.2)),
    (1, gib(0.0, 0.13, 0.6)),
)  # fmt: skip
_FIRST_FUSED, _ALWAYS_FUSED = (0, 17, 0), (0, 21, 0)
"""The same over NVLink where all-reduce is fused, and since which version: first without pipeline
and data parallelism, then with them too; never where nothing is compiled."""

_COMMUNICATORS = ((2, gib(0.1, 0.35, 1.0)), (1, Band.point(0)))
"""What NCCL and custom all-reduce take when they start, where that is counted."""

_CONTEXT = gib(0.3, 0.5, 1.0)
"""The CUDA context, where it is counted."""

_PCIE = ("7.5", "8.6", "8.9", "12.0", "12.1")
"""Compute capabilities of cards without NVLink between them."""

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
        activation: the peak of the profiling run.
        graphs: CUDA graphs, where they are deducted; 0 otherwise.
        repacked: what weights take beside their stored size.
        assumptions: what was assumed.
    """

    non_torch: Band
    buffers: int
    activation: Activation
    graphs: Band
    repacked: Band
    assumptions: tuple[str, ...] = ()

    @property
    def total(self) -> Band:
        """All of it."""
        buffers = Band.point(self.buffers)
        return summed(self.non_torch, buffers, self.activation.peak, self.graphs, self.repacked)


def overhead(shape: ModelShape, rules: Rules, run: Run) -> Overhead:
    """The overhead of an engine, as a band; see the module for the rule and its evidence."""
    second, unified = second_runner(rules, shape), run.device.unified_memory
    taken = activation(shape, rules, run, second=second)
    logits = run.max_num_seqs * taken.vocabulary
    return Overhead(
        non_torch=_non_torch(rules, run, unified=unified),
        buffers=logits * COUNTER_MILLI // 1000 if second and rules.counts_buffers else 0,
        activation=taken,
        graphs=graph_estimate(shape, rules, run, second=second),
        repacked=_repacked(shape, run.weight_bytes),
        assumptions=(*taken.assumptions, *((_SHARED,) if unified else ())),
    )


def _links(rules: Rules, run: Run) -> tuple[tuple[int, Band], ...]:
    """The table of what is outside torch, by how the devices are linked and how they reduce."""
    device = run.device
    if device.compute_capability in _PCIE or "pcie" in device.product.lower():
        return _UNLINKED
    fused = (
        compute_major(device.compute_capability) in {"9", "10"}
        and not run.enforce_eager
        and rules.version >= (_FIRST_FUSED if run.alone else _ALWAYS_FUSED)
    )
    return _FUSED if fused else _LINKED


def _non_torch(rules: Rules, run: Run, *, unified: bool) -> Band:
    parts = [by_ranks(_links(rules, run), run.tensor_parallel)]
    if rules.counts_communicators:
        parts.append(by_ranks(_COMMUNICATORS, run.tensor_parallel))
    if rules.counts_context:
        parts.append(_CONTEXT)
    if unified:
        memory = run.device.memory_bytes
        low, expected, high = (memory * share // 1000 for share in _UNIFIED_PERMILLE)
        parts.append(Band(low, expected, high))
    return summed(*parts)


def _repacked(shape: ModelShape, weight_bytes: int) -> Band:
    if shape.quantization in {"", "fp8"}:
        return NOTHING
    return Band(0, 0, weight_bytes * _REPACKED_PERMILLE // 1000)
