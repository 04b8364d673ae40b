"""`--mem-fraction-static` where it is not stated: SGLang's own formula.

The fraction is of the memory that is free before the weights are loaded. It covers weights and KV;
activations and CUDA graphs live in the rest, and nothing is measured.

    fraction = round((device - reserved) / device, 3), all in MiB

Before 0.4.8 nothing is reserved: 0.79 (16 ranks or more), 0.81 (8), 0.85 (4), 0.87 (2) or 0.88 (1);
on large devices 0.4.6 keeps 13 GiB free, and 0.4.7 keeps 18 (20 with speculation). From 0.4.8 to
0.5.2, in GiB: 2.8 + 0.1 per rank below 35 GiB, 9.5 + 0.5 below 90, 12 + 0.5 below 160, else 32;
speculation adds 2 (a standalone draft 6 from 0.5.2), attention DP 4. From 0.5.3, in MiB:

    reserved = 512 + 1.5 x chunk + 128 x ranks + graphs; above 60 GiB at least 10240

graphs = 2 x decode batch; attention DP adds 3 x batch x ranks (4.5 above 300); prefill graphs, from
0.5.10, add 8 each, or 1536 with MLA. Sources: sglang/srt/server_args.py of each version;
arg_groups/memory_hook.py from 0.5.19.
"""

from dataclasses import dataclass

from kvscale.core.engines.sglang.rules import SGLangRules
from kvscale.core.values import MIB

DRIVER_PERMILLE = 994
"""The CUDA runtime's total over the driver's figure, which SGLang divides by: 79.18 / 79.65 GiB on
H100, 178.35 / 179.06 on B200."""

_RANK_FRACTIONS = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88))


@dataclass(frozen=True, slots=True)
class Launch:
    """What the default fraction depends on.

    Attributes:
        device_mib: memory of the device by its driver.
        ranks: devices of the tensor- and pipeline-parallel group.
        attention_ranks: data-parallel ranks of attention; 1 without attention DP.
        chunk: `--chunked-prefill-size`; 0 where prefill is not chunked.
        decode_batch: largest captured decode batch; 0 without CUDA graphs.
        prefill_graphs: number of captured prefill sizes; 0 without.
        latent: whether the model uses MLA.
        speculative: `--speculative-algorithm`, or "".
        deepep: whether experts are exchanged by DeepEP.
        vision: (layers, width) of the vision tower; None for a text model.
    """

    device_mib: float
    ranks: int
    attention_ranks: int
    chunk: int
    decode_batch: int
    prefill_graphs: int
    latent: bool
    speculative: str
    deepep: bool
    vision: tuple[int, int] | None = None


def device_mib(memory_bytes: int) -> float:
    """The driver's figure in MiB for a device with that CUDA total."""
    return memory_bytes * 1000 / DRIVER_PERMILLE / MIB


_B200_MIB, _SMALL_MIB = 180_000, 25_000
"""Boundaries before 0.4.8."""


def chunk_default(rules: SGLangRules, mib: float) -> int:
    """Default of `--chunked-prefill-size` in tokens."""
    if rules.version < (0, 4, 8):
        if mib > _B200_MIB and rules.version >= (0, 4, 7):
            return 16_384
        return 2048 if mib < _SMALL_MIB else 8192
    if mib < 35 * 1024:
        large = rules.version >= (0, 5, 20) and mib >= 20 * 1024
        return 4096 if large else 2048
    if mib < 60 * 1024 and rules.version >= (0, 5, 3):
        return 4096
    return 8192 if mib < 160 * 1024 else 16_384


_BATCHES = ((160, 512, 512), (60, 256, 512), (35, 32, 160), (20, 24, 80), (0, 8, 8))
"""Device of at least so many GiB: largest captured batch below 4 ranks, and from 4 on (0.5.3)."""


def decode_batch_default(rules: SGLangRules, mib: float, tensor_ranks: int) -> int:
    """Default of `--cuda-graph-max-bs` in sequences."""
    narrow = tensor_ranks < 4  # noqa: PLR2004 - SGLang's own boundary
    if rules.version < (0, 5, 3):
        if mib < (_SMALL_MIB if rules.version < (0, 4, 8) else 35 * 1024):
            return 8 if narrow else 80
        return 160 if mib < 90 * 1024 else 256
    least, few, many = next(row for row in _BATCHES if mib >= row[0] * 1024)
    if least == 20:  # noqa: PLR2004 - GiB; the tier that changed
        few = 16 if rules.version < (0, 5, 5) else few
        few, many = (few, many) if rules.version < (0, 5, 20) else (48, 160)
    return few if narrow else many


def prefill_graph_count(largest: int) -> int:
    """How many prefill sizes are captured up to `largest` tokens.

    Source: sglang 0.5.23 arg_groups/cuda_graph_hook.py, generate_prefill_cuda_graph_batch_sizes.
    """
    sizes = (
        *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64),
        *range(1280, 4097, 256), *range(4608, largest + 1, 512),
    )  # fmt: skip
    return sum(size <= largest for size in sizes)


@dataclass(frozen=True, slots=True)
class DefaultFraction:
    """The default fraction, and what it is made of.

    Attributes:
        milli: in thousandths, rounded down.
        device_mib, reserved_mib: what the device has, and what the default keeps free of it.
        rounded: the version rounds before it applies the factor.
        vision_factor: what a vision tower leaves of it; 1 without.
    """

    milli: int
    device_mib: float
    reserved_mib: float
    rounded: bool
    vision_factor: float


def default_fraction(rules: SGLangRules, launch: Launch) -> DefaultFraction:
    """The default fraction."""
    rounded, factor = rules.version >= (0, 4, 8), 1.0
    if rules.version < (0, 4, 8):
        fraction = _by_ranks(rules, launch)
        reserved = launch.device_mib * (1 - fraction)
    else:
        reserved = _by_tier(rules, launch) if rules.version < (0, 5, 3) else _by_use(rules, launch)
        fraction = round(1 - reserved / launch.device_mib, 3)
    if launch.vision is not None and rules.version >= (0, 4, 9):
        factor = vision_factor(rules, launch.vision)
    milli = int(max(0.0, fraction * factor) * 1000 + 1e-6)
    return DefaultFraction(milli, launch.device_mib, reserved, rounded, factor)


def _by_ranks(rules: SGLangRules, launch: Launch) -> float:
    ranks, mib = launch.ranks, launch.device_mib
    fraction = next(share for least, share in _RANK_FRACTIONS if ranks >= least)
    if rules.version < (0, 4, 6) or mib <= 80 * 1024:
        slower = rules.version >= (0, 4, 7) and launch.speculative
        return fraction * 0.95 if slower else fraction
    if rules.version < (0, 4, 7):
        return 1 - 13 * 1024 / mib
    fraction = 0.88
    if mib > _B200_MIB:
        return 0.79
    if mib <= 96 * 1024:
        return fraction * 0.95 if launch.speculative else fraction
    kept = (20 if launch.speculative else 18) * 1024
    return min(fraction + 48 * 1024 * (1 - fraction) / mib, 1 - kept / mib)


def _by_tier(rules: SGLangRules, launch: Launch) -> float:
    mib = launch.device_mib
    if mib < 35 * 1024:
        reserved = 2.8 + launch.ranks / 10
    elif mib < 90 * 1024:
        reserved = 9.5 + launch.ranks / 2
    elif mib < 160 * 1024:
        reserved = 12 + launch.ranks / 2
    else:
        reserved = 32.0
    if launch.speculative:
        standalone = launch.speculative == "STANDALONE" and rules.version >= (0, 5, 2)
        reserved += 6 if standalone else 2
    if launch.attention_ranks > 1:
        reserved += 4
    return reserved * 1024


def _by_use(rules: SGLangRules, launch: Launch) -> float:
    batch = launch.decode_batch
    reserved = 512 + 1.5 * max(launch.chunk or 16_384, 2048) + launch.ranks / 8 * 1024 + 2 * batch
    if launch.attention_ranks > 1:
        per_rank = 4.5 if batch > 300 else 3  # noqa: PLR2004 - SGLang's own boundary
        reserved += per_rank * batch * launch.attention_ranks
    if launch.prefill_graphs:
        reserved += 1536 if launch.latent else 8 * launch.prefill_graphs
    if launch.device_mib > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    if launch.deepep and rules.version >= (0, 5, 15):
        reserved += 2048
    if launch.speculative and rules.version < (0, 5, 14):
        if launch.speculative == "STANDALONE":
            reserved += 6 * 1024
        elif launch.speculative != "NGRAM":
            reserved += (4 if rules.version >= (0, 5, 10) else 2) * 1024
    return reserved


def vision_factor(rules: SGLangRules, vision: tuple[int, int]) -> float:
    """What a vision tower leaves of the fraction: 0.95 for a ViT-L, less for a larger one."""
    if rules.version < (0, 4, 10):
        return 0.9
    layers, width = vision
    complexity = layers * width * width / (24 * 1024 * 1024)
    return 0.95 * max(0.8, min(1.05, 1 - 0.1 * (complexity - 1)))
