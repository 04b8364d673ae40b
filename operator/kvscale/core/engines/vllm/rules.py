"""vLLM's defaults and rules, by version.

| setting | value | from | source |
|---|---|---|---|
| gpu_memory_utilization | 0.9, then 0.92 | 0.20.0 | config/cache.py |
| CUDA graphs deducted from the budget | no, then yes | 0.20.0 | envs.py, v1/worker/gpu_worker.py |
| CUDA context counted as used | yes, then no | 0.9.1 | v1/worker/gpu_worker.py |
| NCCL starts before the first measurement | no, then yes | 0.11.0 | v1/worker/gpu_worker.py |
| buffers of the runner counted as used | no, then yes | 0.27.0 | utils/mem_utils.py |
| top-k and top-p of the profiled sampling step | by a sort, then without | 0.17.0 | v1/sample/ops |
| second model runner | 0.22.0 for one model to 0.29.0 for all | 0.22.0 | config/vllm.py |
| "GPU KV cache size" in tokens | blocks x block, then concurrency x length | 0.20.1 | v1/core |
| batched tokens, devices of 160 GiB | 8192, then 16384 | 0.28.0 | engine/arg_utils.py |
| batched tokens, 70 GiB but not A100 | 8192 | 0.8 | engine/arg_utils.py |
| batched tokens, other devices | 2048 | 0.8 | engine/arg_utils.py |
| max_num_seqs | 1024 from 70 GiB (not A100), else 256 | 0.8 | engine/arg_utils.py |
| GB10 counts as a small device | no, then yes | 0.33.0 | engine/arg_utils.py |
| async scheduling | off, then on | 0.14.0 | config/scheduler.py |
| all-reduce fused on 9.x and 10.x | no, then yes | 0.17.0 | config/vllm.py; `vllm.memory` |
| rows of DeepGEMM, fp8 experts on 9.x | not there, then there | 0.11.1 | `vllm.activation` |

Read in releases of every minor version from 0.8 to 0.33; where only one patch of it was read, the
rule counts from its first patch. What a release has at all is in `vllm.releases`, how blocks are
shared out in `vllm.allocation`, their size in `vllm.blocks`. Batch defaults are those of
`vllm serve`; the LLM class has 16384 and 8192 tokens instead.
"""

from dataclasses import dataclass
from functools import lru_cache

from kvscale.core.devices.device import Device
from kvscale.core.engines.versions import LAST_PATCH, Version, parse_version, version_text
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.values import GIB

OLDEST = (0, 8)
NEWEST = (0, 33)

RESERVED_BLOCKS = 1
"""The null block (vllm v0.33.0 v1/core/block_pool.py): usable blocks are one less than printed."""

SORTED_BYTES = 38
"""Peak bytes per sequence and vocabulary entry of a sampling step that sorts: logits in bf16 and
fp32 (6), sorted values and 8-byte indices (12), and as much again for the sort, indices twice."""

UNSORTED_BYTES = 16
"""The same by a kernel without a sort: logits in bf16 and fp32, a scaled copy, probabilities and
noise."""

PLAIN_BYTES = 2
"""The same with the second runner, which profiles a step without top-k and top-p: logits alone."""

COUNTER_MILLI = 4_125
"""Bytes, in thousandths, that the second runner keeps per sequence and vocabulary entry for
penalties: a 4-byte counter and a bit (vllm v0.32.0 v1/worker/gpu/sample/penalties.py)."""

_FIRST_SECOND_RUNNER = frozenset({"Qwen3ForCausalLM"})
_MORE_SECOND_RUNNER = _FIRST_SECOND_RUNNER | {"LlamaForCausalLM", "MistralForCausalLM"}
_EXPERTS_SECOND_RUNNER = frozenset(
    {"DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "Qwen2MoeForCausalLM"}
)
"""Architectures of the second runner (vllm config/vllm.py, 0.22.0, 0.23.0 and 0.24.0)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one version.

    Attributes:
        version: (major, minor, patch); the newest rules have the patch `LAST_PATCH`.
        memory_utilization_milli: default of `--gpu-memory-utilization`, in thousandths.
        deducts_graphs: whether the estimate of CUDA graphs comes off the KV budget.
        counts_context: whether the CUDA context, and whatever else is on the device, comes off.
        counts_communicators: whether what NCCL takes when it starts comes off.
        counts_buffers: whether the runner's own buffers come off.
        tokens_by_concurrency: whether the printed tokens are concurrency times length.
        large_tier: whether devices of 160 GiB have a larger default batch.
        sampler_bytes: peak bytes per sequence and vocabulary entry of one sampling step.
        assumptions: what was assumed about the version.
    """

    version: Version
    memory_utilization_milli: int
    deducts_graphs: bool
    counts_context: bool
    counts_communicators: bool
    counts_buffers: bool
    tokens_by_concurrency: bool
    large_tier: bool
    sampler_bytes: int
    assumptions: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The version for a person ("0.32")."""
        return version_text(self.version)

    @property
    def certain(self) -> bool:
        """Whether the version is known and in the table."""
        return not self.assumptions


def _parsed(text: str) -> Version | None:
    """The version; None for "0.1.dev15917" too, a build without tags whose number says nothing."""
    return None if text.strip().removeprefix("v").startswith("0.1.dev") else parse_version(text)


@lru_cache(maxsize=256)
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
        parsed = (*NEWEST, LAST_PATCH)
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
        memory_utilization_milli=920 if parsed >= (0, 20, 0) else 900,
        deducts_graphs=parsed >= (0, 20, 0),
        counts_context=parsed < (0, 9, 1),
        counts_communicators=parsed < (0, 11, 0),
        counts_buffers=parsed >= (0, 27, 0),
        tokens_by_concurrency=parsed >= (0, 20, 1),
        large_tier=parsed >= (0, 28, 0),
        sampler_bytes=UNSORTED_BYTES if parsed >= (0, 17, 0) else SORTED_BYTES,
        assumptions=assumptions,
    )


def second_runner(rules: Rules, shape: ModelShape) -> bool:
    """Whether the version runs this model by its second model runner, by default.

    vllm v0.22.0 to v0.33.0 config/vllm.py, use_v2_model_runner. Features that the second runner
    lacks send an engine back to the first one; they are not looked at here.
    """
    version = rules.version
    if version < (0, 22, 0):
        return False
    if version >= (0, 29, 0):
        return True
    experts = any(group.name == "experts" for group in shape.weight_groups)
    plain = not experts and not shape.quantization
    if version < (0, 23, 0):
        return plain and shape.architecture in _FIRST_SECOND_RUNNER
    if version < (0, 24, 0):
        return plain and shape.architecture in _MORE_SECOND_RUNNER
    if version < (0, 25, 0):
        return shape.architecture in _MORE_SECOND_RUNNER | _EXPERTS_SECOND_RUNNER
    hybrid = any(group.kind.recurrent for group in shape.layer_groups)
    return not hybrid and (not experts or shape.architecture in _EXPERTS_SECOND_RUNNER)


def batch_defaults(rules: Rules, device: Device) -> tuple[int, int]:
    """Defaults of `--max-num-batched-tokens` and `--max-num-seqs` for `vllm serve`.

    vllm v0.8.0 to v0.33.0 engine/arg_utils.py, get_batch_defaults. A100, and GB10 in the newest
    version, are excluded: a large batch costs them throughput.
    """
    product = device.product.lower()
    gb10 = device.compute_capability == "12.1" or "gb10" in product
    slow = "a100" in product or (rules.version >= (0, 33, 0) and gb10)
    if device.memory_bytes >= 160 * GIB and rules.large_tier and not slow:
        return 16_384, 1024
    if device.memory_bytes >= 70 * GIB and not slow:
        return 8192, 1024
    return 2048, 256


def printed_tokens(
    rules: Rules,
    blocks: int,
    block_tokens: int,
    blocks_per_sequence: int,
    max_model_len: int,
    *,
    tables: int = 1,
    ranks: int = 1,
) -> int:
    """The "GPU KV cache size" that the engine prints, in tokens.

    From 0.20.1: `int(max_concurrency * max_model_len)` with the engine's own floating-point order
    (vllm v0.33.0 v1/core/kv_cache_planning.py). Before: the blocks of one table times the smallest
    block, and times the ranks that share out the tokens (vllm v0.9.2 to v0.20.0
    v1/core/kv_cache_utils.py).

    Args:
        rules: of the version.
        blocks: of the engine.
        block_tokens: tokens of the smallest block.
        blocks_per_sequence: of one sequence of `max_model_len`.
        max_model_len: in tokens.
        tables: block tables of a sequence (groups of layers).
        ranks: of decode context parallelism.
    """
    if rules.tokens_by_concurrency:
        return int(blocks / blocks_per_sequence * max_model_len)
    return blocks // tables * block_tokens * ranks
