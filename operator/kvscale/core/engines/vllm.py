"""vLLM's defaults and rules, by version.

| setting | value | from | source |
|---|---|---|---|
| gpu_memory_utilization | 0.9, then 0.92 | 0.20.2 | config/cache.py |
| CUDA graphs deducted from the budget | no, then yes | 0.20.2 | v1/worker/gpu_worker.py |
| "GPU KV cache size" in tokens | blocks x block, then concurrency x length | 0.20.1 | v1/core |
| batched tokens, devices of 160 GiB | 8192, then 16384 | 0.28.0 | engine/arg_utils.py |
| batched tokens, 70 GiB but not A100 or GB10 | 8192 | 0.8 | engine/arg_utils.py |
| batched tokens, other devices | 2048 | 0.8 | engine/arg_utils.py |
| max_num_seqs | 1024 from 70 GiB (not A100 or GB10), else 256 | 0.8 | engine/arg_utils.py |
| block size | 16, raised to what the attention backend needs | 0.8 | platforms/cuda.py |
| null block | one block is never given to a sequence | 0.8 | v1/core/block_pool.py |

Versions between two observed ones take the rule of the older (0.19.1 and 0.20.2 were read for the
first two rows, 0.20.0 and 0.20.1 for the third). Batched tokens are those of `vllm serve`.
"""

import re
from dataclasses import dataclass

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.device import Device
from kvscale.core.model.dtypes import KvDtype

GIB = 1 << 30

OLDEST = (0, 8)
NEWEST = (0, 33)
NEWEST_PATCH = 99
"""Patch of a version that names none: "0.20" is the last of 0.20."""

RESERVED_BLOCKS = 1
"""The null block (vllm v0.33.0 v1/core/block_pool.py): usable blocks are one less than printed."""

BLOCK_TOKENS = 16
"""Default block, and the multiple that every backend needs."""

_NUMBER = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?!\.?\d)")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one version.

    Attributes:
        version: (major, minor, patch); the newest rules have the patch `NEWEST_PATCH`.
        memory_utilization_milli: default of `--gpu-memory-utilization`, in thousandths.
        deducts_graphs: whether the estimate of CUDA graphs comes off the KV budget.
        tokens_by_concurrency: whether the printed tokens are concurrency times length.
        large_tier: whether devices of 160 GiB have a larger default batch.
        sampler_bytes: peak bytes per sequence and vocabulary entry of one sampling step.
        assumptions: what was assumed about the version.
    """

    version: tuple[int, int, int]
    memory_utilization_milli: int
    deducts_graphs: bool
    tokens_by_concurrency: bool
    large_tier: bool
    sampler_bytes: int
    assumptions: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The version for a person ("0.32")."""
        major, minor, patch = self.version
        return f"{major}.{minor}" + ("" if patch == NEWEST_PATCH else f".{patch}")


def _parsed(text: str) -> tuple[int, int, int] | None:
    """(major, minor, patch) of "v0.20.2", "0.19.2rc1.dev134+g1", "0.32"; None if it is none.

    "0.1.dev15917" is a build without tags: its number says nothing.
    """
    found = _NUMBER.match(text.strip())
    if found is None or re.match(r"v?0\.1\.dev", text.strip()):
        return None
    major, minor, patch = found.groups()
    return int(major), int(minor), NEWEST_PATCH if patch is None else int(patch)


def rules_of(version: str | None) -> Rules | Refusal:
    """The rules of a version; the newest ones where it is not known.

    Args:
        version: as an image tag or the user states it; None: not known.

    Returns:
        The rules, or a Refusal for versions before the V1 engine, whose budget differs.
    """
    parsed = _parsed(version) if version is not None else None
    newest = f"{NEWEST[0]}.{NEWEST[1]}"
    assumptions: tuple[str, ...] = ()
    if parsed is None:
        parsed = (*NEWEST, NEWEST_PATCH)
        what = "is not known" if version is None else f"{version[:40]!r} is no release"
        assumptions = (f"vLLM's version {what}: the rules of {newest} apply",)
    elif parsed[:2] < OLDEST:
        return Refusal(
            "UnsupportedEngineVersion",
            "engine.version",
            f"engine.version is {version!r}; vLLM before 0.8 budgets memory by a rule that is not "
            "known here. Use a newer version, or correct engine.version",
        )
    elif parsed[:2] > NEWEST:
        assumptions = (f"vLLM {version} is newer than {newest}, whose rules apply",)
    return Rules(
        version=parsed,
        memory_utilization_milli=920 if parsed >= (0, 20, 2) else 900,
        deducts_graphs=parsed >= (0, 20, 2),
        tokens_by_concurrency=parsed >= (0, 20, 1),
        large_tier=parsed >= (0, 28, 0),
        sampler_bytes=10 if parsed >= (0, 19, 0) else 36,
        assumptions=assumptions,
    )


def batch_defaults(rules: Rules, device: Device) -> tuple[int, int]:
    """Defaults of `--max-num-batched-tokens` and `--max-num-seqs` for `vllm serve`.

    vllm v0.33.0 engine/arg_utils.py, get_batch_defaults. A100 and GB10 are excluded by name: a
    large batch costs them throughput.
    """
    product = device.product.lower()
    slow = "a100" in product or "gb10" in product.split("-") or "gb10" in product.split()
    if device.memory_bytes >= 160 * GIB and rules.large_tier and not slow:
        return 16_384, 1024
    if device.memory_bytes >= 70 * GIB and not slow:
        return 8192, 1024
    return 2048, 256


@dataclass(frozen=True, slots=True)
class BlockSize:
    """The block that an engine ends up with.

    Attributes:
        tokens: per block of one sequence.
        why: the rule that gave it.
        assumption: what was assumed; "" if nothing.
    """

    tokens: int
    why: str
    assumption: str = ""


def _latent_minimum(rules: Rules, kv: KvDtype, capability: str) -> tuple[int, str]:
    """Smallest block of the MLA backend that vLLM chooses, and its name.

    Measured on vLLM 0.32.0: compute capability 8.0 takes 16 (Triton), 9.0 takes 16 in bf16
    (FlashAttention) and 64 in fp8 (FlashMLA has the only fp8 kernel there), 10.0 takes 32
    (FlashInfer). Before, FlashMLA was forced on 9.0 and CUTLASS, then FlashInfer, on 10.x
    (platforms/cuda.py, check_and_update_config, about 0.9 to 0.16).
    """
    major = capability.split(".", maxsplit=1)[0]
    forced = rules.version < (0, 20, 0)
    if major == "10":
        if not forced:
            return 32, "FlashInfer MLA"
        return (128, "CUTLASS MLA") if rules.version < (0, 12, 0) else (64, "FlashInfer MLA")
    if major == "9":
        fp8 = kv.bits_milli == 8_000  # noqa: PLR2004 - 8 bits
        return (64, "FlashMLA") if forced or fp8 else (16, "FlashAttention MLA")
    return 16, "Triton MLA"


def block_size(
    rules: Rules, requested: int | None, kv: KvDtype, capability: str, *, latent: bool
) -> BlockSize | Refusal:
    """Tokens per block.

    Args:
        rules: of the version.
        requested: `--block-size`; None: not set.
        kv: storage of the KV cache.
        capability: compute capability of the device ("9.0"); "" if not known.
        latent: whether the model uses MLA.
    """
    wanted = BLOCK_TOKENS if requested is None else requested
    if wanted < BLOCK_TOKENS or wanted % BLOCK_TOKENS or wanted > 1 << 16:
        return Refusal(
            "InvalidBlockSize",
            "--block-size",
            f"--block-size is {wanted}; it must be a multiple of 16 from 16 to 65536",
        )
    if not latent:
        why = "default" if requested is None else "--block-size"
        return BlockSize(wanted, why)
    minimum, backend = _latent_minimum(rules, kv, capability or "9.0")
    assumption = ""
    if not capability:
        assumption = "the compute capability is not known: the MLA block of 9.0 (Hopper) is taken"
    elif rules.version < (0, 20, 0):
        assumption = f"the MLA block of vLLM {rules.label} was not measured: {minimum} is taken"
    if wanted % minimum:
        return BlockSize(minimum, f"raised to what {backend} needs", assumption)
    return BlockSize(wanted, "default" if requested is None else "--block-size", assumption)


def printed_tokens(
    rules: Rules, blocks: int, block_tokens: int, blocks_per_sequence: int, max_model_len: int
) -> int:
    """The "GPU KV cache size" that the engine prints, in tokens.

    From 0.20.1: `int(max_concurrency * max_model_len)` with the engine's own floating-point
    order (vllm v0.33.0 v1/core/kv_cache_planning.py); before: all blocks times their tokens.
    """  # fmt: skip
    if rules.tokens_by_concurrency:
        return int(blocks / blocks_per_sequence * max_model_len)
    return blocks * block_tokens
