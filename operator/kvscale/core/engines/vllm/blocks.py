"""Tokens per block in vLLM: the default, raised to what backends and recurrent states need.

| layers | smallest block | source (vllm v0.32.0) |
|---|---|---|
| attention with heads | 16 | v1/attention/backends/flash_attn.py |
| ... of 256 elements, with image prefixes, on 10.x | 64 | v1/attention/backends/flash_attn.py |
| MLA | 16 to 128, by version and compute capability | platforms/cuda.py, measured |
| sparse MLA (DeepSeek-V3.2, GLM-5) | 64 | v1/attention/backends/mla/indexer.py |
| MiniMax-M3's sparse attention | 128 | models/minimax_m3/common/sparse_attention.py |
| DeepSeek-V4 | 256 | v1/attention/backends/mla/sparse_swa.py |
| attention beside states | so long that a page holds a state | platforms/interface.py |
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from kvscale.core.devices.compute_capability import compute_major
from kvscale.core.engines.cache_format import CacheFormat
from kvscale.core.engines.layer_rules import RULES
from kvscale.core.engines.vllm.rules import Rules
from kvscale.core.model.dtypes import KvDtype
from kvscale.core.model.shape import LayerGroup, LayerKind
from kvscale.core.refusal import Refusal

BLOCK_TOKENS = 16
"""Default block, and the multiple that every backend needs."""

IMAGE_PREFIX = frozenset({"Gemma3ForConditionalGeneration"})
"""Architectures in which images attend to themselves both ways."""

WIDE_HEAD, WIDE_HEAD_BLOCK = 256, 64
"""Heads of that size take pages of that many tokens with image prefixes on 10.x (flash_attn.py,
FA4_HD256_PAGE_SIZE; measured on 0.32.0)."""

SPARSE_BLOCK = 64
SPARSE_HEADS_BLOCK = 128
COMPRESSED_BLOCK = 256

LATENT_HYBRID_BLOCK = 128
"""A block of latents beside states is a multiple of this (`_align_hybrid_block_size`)."""

MOST_BLOCK = 1 << 16

COMPRESSED_BACKEND = "compressed attention"
ONLY_BACKENDS = frozenset({COMPRESSED_BACKEND, "sparse MLA", "sparse attention"})
"""Kernels beside which there is none that takes another block."""

STATED_BLOCK = (0, 18, 0)
"""From this release on a block that the user states is kept: another backend takes it, or none
does (v1/attention/selector.py, user_specified_block_size). Before, it was raised."""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """What besides the layers decides on a block.

    Attributes:
        capability: compute capability ("9.0"); "" if not known.
        state_grid: tokens of which a block beside states must be a multiple.
        image_prefix: images attend to themselves both ways, which takes a backend of its own.
    """

    capability: str
    state_grid: int = 1
    image_prefix: bool = False


@dataclass(frozen=True, slots=True)
class BlockSize:
    """The block that an engine ends up with.

    Attributes:
        tokens: per block of one sequence.
        why: the rule that gave it, a formula where it is arithmetic.
        inputs: of that formula.
        state_page: bytes that the page of a recurrent state is padded to; 0: no padding.
        assumption: what was assumed; "" if nothing.
    """

    tokens: int
    why: str
    state_page: int = 0
    assumption: str = ""
    inputs: tuple[tuple[str, int], ...] = ()


def _latent_minimum(rules: Rules, kv: KvDtype, capability: str) -> tuple[int, str]:
    """Smallest block of the MLA backend that vLLM chooses, and its name.

    Measured on vLLM 0.32.0: compute capability 8.0 takes 16 (Triton), 9.0 takes 16 in bf16
    (FlashAttention) and 64 in fp8 (FlashMLA has the only fp8 kernel there), 10.0 takes 32
    (FlashInfer). Before 0.18, FlashMLA was forced on 9.x; on 10.x Triton was taken, from 0.10.1 on
    CUTLASS was forced, from 0.15 on FlashInfer (platforms/cuda.py, check_and_update_config).
    """
    major = compute_major(capability)
    forced = rules.version < (0, 18, 0)
    if major == "10":
        if not forced:
            return 32, "FlashInfer MLA"
        if rules.version < (0, 10, 1):
            return 16, "Triton MLA"
        return (128, "CUTLASS MLA") if rules.version < (0, 15, 0) else (64, "FlashInfer MLA")
    if major == "9":
        fp8 = kv.bits_milli == 8_000  # noqa: PLR2004 - 8 bits
        return (64, "FlashMLA") if forced or fp8 else (16, "FlashAttention MLA")
    return 16, "Triton MLA"


def _minimum(
    rules: Rules, groups: Sequence[LayerGroup], kv: KvDtype, device: BlockDevice
) -> tuple[int, str, str]:
    """Smallest block of the backends of these layers, whose it is, and what was assumed."""
    kinds, capability = {group.kind for group in groups}, device.capability
    if device.image_prefix and compute_major(capability) == "10":
        wide = any(group.head_dim_k == WIDE_HEAD for group in groups)
        return (WIDE_HEAD_BLOCK, "FlashAttention 4", "") if wide else (BLOCK_TOKENS, "", "")
    if LayerKind.COMPRESSED_MLA in kinds:
        return COMPRESSED_BLOCK, COMPRESSED_BACKEND, ""
    if LayerKind.SPARSE_INDEXER in kinds:
        if LayerKind.MLA in kinds:
            return SPARSE_BLOCK, "sparse MLA", ""
        return SPARSE_HEADS_BLOCK, "sparse attention", ""
    if LayerKind.MLA not in kinds:
        return BLOCK_TOKENS, "", ""
    minimum, backend = _latent_minimum(rules, kv, capability or "9.0")
    assumption = ""
    if not capability:
        assumption = "the compute capability is not known: the MLA block of 9.0 (Hopper) is taken"
    elif rules.version < (0, 20, 0):
        assumption = f"the MLA block of vLLM {rules.label} was not measured: {minimum} is taken"
    return minimum, backend, assumption


def block_size(
    rules: Rules,
    requested: int | None,
    groups: Sequence[LayerGroup],
    cache: CacheFormat,
    device: BlockDevice,
) -> BlockSize | Refusal:
    """Tokens per block.

    Args:
        rules: of the version.
        requested: `--block-size`; None: not set.
        groups: the model's layers.
        cache: how they are stored.
        device: what the device and the states ask for.
    """
    wanted = BLOCK_TOKENS if requested is None else requested
    if wanted < BLOCK_TOKENS or wanted % BLOCK_TOKENS or wanted > MOST_BLOCK:
        return Refusal(
            "InvalidBlockSize",
            "--block-size",
            f"--block-size is {wanted}; it must be a multiple of 16 from 16 to 65536",
        )
    minimum, backend, assumption = _minimum(rules, groups, cache.kv, device)
    why = "default" if requested is None else "--block-size"
    kept = requested is not None and rules.version >= STATED_BLOCK
    refusal = _refused_block(wanted, minimum, backend) if kept else None
    if refusal is not None:
        return refusal
    if wanted % minimum and not kept:
        wanted, why = minimum, f"raised to what {backend} needs"
    longer = _beside_states(wanted, groups, cache, device.state_grid)
    if longer is None:
        return BlockSize(wanted, why, 0, assumption)
    if longer.tokens > wanted:
        return replace(longer, assumption=assumption)
    return BlockSize(wanted, why, longer.state_page, assumption)


def _refused_block(wanted: int, minimum: int, backend: str) -> Refusal | None:
    """Why a stated block is not taken by a kernel beside which there is no other.

    vLLM takes longer blocks of compressed attention too; what their pages are padded to is not
    known here.
    """
    only = backend == COMPRESSED_BACKEND
    if backend not in ONLY_BACKENDS or wanted == minimum or not (only or wanted % minimum):
        return None
    return Refusal(
        "InvalidBlockSize",
        "--block-size",
        f"--block-size is {wanted}; {backend} "
        + (f"is known here with {minimum} alone" if only else f"needs a multiple of {minimum}")
        + ". Leave it out",
    )


def _beside_states(
    wanted: int, groups: Sequence[LayerGroup], cache: CacheFormat, grid: int
) -> BlockSize | None:
    """The block whose page holds a state, and the size that states are padded to.

    vllm v0.32.0 platforms/interface.py, _align_hybrid_block_size. None without states or without
    attention beside them.
    """
    states = [group for group in groups if group.kind.recurrent]
    if not states or len(states) == len(groups):
        return None
    state = max(RULES[group.kind].page_bytes(group, 1, cache) for group in states)
    first = next(group for group in groups if not group.kind.recurrent)
    token = RULES[first.kind].page_bytes(first, 1, cache)
    step = lcm(max(wanted, LATENT_HYBRID_BLOCK) if first.kind.latent else wanted, grid)
    tokens = max(wanted, step * -(-state // (step * token)))
    return BlockSize(
        tokens,
        "stepTokens x ceil(stateBytes / (stepTokens x tokenBytes)); raised until a page of "
        "attention holds a recurrent state",
        tokens * token,
        inputs=(("stateBytes", state), ("tokenBytes", token), ("stepTokens", step)),
    )
