"""What the ranks of vLLM cannot share out: heads, groups, rows of the vocabulary, scales.

Sizes in general are in `core.capacity.placement`; here is what only vLLM asks for.
"""

from kvscale.core.engines.vllm.releases import lacks
from kvscale.core.engines.vllm.start import Start
from kvscale.core.model.shape import LayerGroup, LayerKind, WeightGroup
from kvscale.core.model.weights.groups import padded_vocabulary
from kvscale.core.refusal import Refusal

FP8_BLOCK = 128
FINEST_BLOCK = 32
FP8_BLOCK_BITS = 8_002
"""Bits, in thousandths, of fp8 with one fp32 scale per block of 128 by 128."""

PACKED_GROUP = 128
PACKED_BITS = 4_125
"""The same of 4 bits with one 16-bit scale per 128 in a row."""

_BLOCKED = frozenset({"attention", "feedForward", "sharedExperts"})
_EXPERTS = frozenset({"experts"})

WHOLE_HEADS = frozenset({"GptOssForCausalLM"})
"""Architectures that do not repeat KV heads (vllm v0.32.0 model_executor/models/gpt_oss.py)."""


def _tensor(message: str) -> Refusal:
    return Refusal("InvalidParallelism", "--tensor-parallel-size", message)


def _kv_heads(start: Start) -> int:
    """KV heads of the model's own layers, a draft's left out."""
    own = start.shape.layers
    return max(
        (
            group.kv_heads
            for group in start.shape.layer_groups
            if group.kind.per_head and not (group.positions and group.positions[0] >= own)
        ),
        default=0,
    )


def context_over_heads(start: Start) -> Refusal | None:
    """Ranks share out tokens only of KV heads that they would otherwise repeat.

    vllm v0.32.0 config/model.py, verify_with_parallel_config: tensor parallelism above the number
    of KV heads, context parallelism at most their quotient, and a divisor of the query heads per
    KV head (so since 0.11.2).
    """
    context, tensor = start.engine.decode_context_parallel, start.engine.tensor_parallel
    heads = 0 if context == 1 or start.latent or start.compressed else _kv_heads(start)
    if not heads:
        return None
    flag, most = "--decode-context-parallel-size", max(1, tensor // heads)
    each = start.shape.attention_heads // heads
    if context <= most and tensor > heads and each % context == 0:
        return None
    why = (
        f"the model has {heads} KV heads, so that {tensor} tensor-parallel ranks keep at most "
        f"{most} copies to share tokens over"
        if context > most or tensor <= heads
        else f"it must divide the {each} query heads per KV head"
    )
    return Refusal(
        "InvalidParallelism",
        flag,
        f"{flag} is {context}; {why}. Lower it, or raise --tensor-parallel-size",
    )


def whole_heads(start: Start) -> Refusal | None:
    """More ranks than KV heads, where the model's module does not repeat heads.

    vllm v0.32.0 model_executor/models/gpt_oss.py: `num_key_value_heads // tp_size`, then divided
    by.
    """
    tensor = start.engine.tensor_parallel
    if start.shape.architecture not in WHOLE_HEADS or tensor <= (heads := _kv_heads(start)):
        return None
    return _tensor(
        f"--tensor-parallel-size is {tensor}; {start.shape.architecture} has {heads} KV heads, "
        f"which vLLM does not repeat: at most {heads}"
    )


def vocabulary(start: Start) -> Refusal | None:
    """A vocabulary, padded to 64, that the ranks cannot share evenly.

    vllm v0.32.0 model_executor/layers/vocab_parallel_embedding.py, `divide`.
    """
    tensor, rows = start.engine.tensor_parallel, start.shape.vocabulary_size
    padded = padded_vocabulary(rows)
    if not start.shape.architecture or padded % tensor == 0:
        return None
    return _tensor(
        f"--tensor-parallel-size is {tensor}; it must divide the vocabulary, which is {padded} "
        "padded to a multiple of 64. Use a power of two"
    )


def _state_shares(group: LayerGroup) -> tuple[int, int]:
    """Heads of a state and groups that share its B and C; 0: none."""
    heads = next((part.shares for part in group.state if part.temporal), 0)
    groups = group.state[1].shares if group.kind is LayerKind.MAMBA2 and group.state[2:] else 0
    return heads, groups


def state_heads(start: Start) -> Refusal | None:
    """Heads of a recurrent state, or its groups, that the ranks cannot share evenly.

    vllm v0.32.0 model_executor/layers/mamba/mamba_mixer2.py: heads are divided; groups too, unless
    there is only one.
    """
    tensor = start.engine.tensor_parallel
    if tensor == 1:
        return None
    for group in start.shape.layer_groups:
        if not group.kind.recurrent:
            continue
        heads, groups = _state_shares(group)
        if heads % tensor:
            return _tensor(
                f"--tensor-parallel-size is {tensor}; it must divide the {heads} heads of the "
                "recurrent layers' states"
            )
        if groups > 1 and groups % tensor:
            return _tensor(
                f"--tensor-parallel-size is {tensor}; it must divide the {groups} groups of the "
                "Mamba layers (n_groups)"
            )
    return None


def _share(group: WeightGroup, start: Start) -> int:
    """A rank's share of the dimension that is split; 0 where it is not known."""
    if group.units is None or not group.split_by_tensor_parallel:
        return 0
    ways = start.engine.tensor_parallel
    if group.split_by_data_parallel:
        if start.engine.expert_parallel:
            return 0
        ways *= start.engine.data_parallel
    return 0 if ways == 1 else group.units // ways


def fp8_blocks(start: Start) -> Refusal | None:
    """Blocks of an fp8 checkpoint that would lie on two ranks.

    vllm v0.32.0 model_executor/layers/quantization/utils/fp8_utils.py, validate_fp8_block_shape.
    """
    if start.shape.quantization != "fp8":
        return None
    return _across(start, FP8_BLOCK_BITS, FP8_BLOCK, _BLOCKED, "blocks of the fp8 checkpoint")


def fp8_experts(start: Start) -> Refusal | None:
    """The same of a mixture's experts, whose blocks are made finer, down to 32, from 0.29.0 on.

    vllm v0.32.0 model_executor/layers/fused_moe/oracle/fp8.py, refine_fp8_moe_block_shape.
    """
    if start.shape.quantization != "fp8":
        return None
    finest = FP8_BLOCK if lacks(start.rules.version, (0, 29, 0)) else FINEST_BLOCK
    return _across(start, FP8_BLOCK_BITS, finest, _EXPERTS, "blocks of the fp8 checkpoint")


def packed_groups(start: Start) -> Refusal | None:
    """Scale groups of a mixture in compressed-tensors that would lie on two ranks.

    vllm v0.32.0 compressed_tensors_moe/compressed_tensors_moe_wna16.py, create_weights; refused
    from 0.24.0 on.
    """
    if start.shape.quantization != "compressed-tensors" or lacks(start.rules.version, (0, 24, 0)):
        return None
    return _across(start, PACKED_BITS, PACKED_GROUP, _EXPERTS, "scale groups of the checkpoint")


def _across(start: Start, bits: int, size: int, names: frozenset[str], what: str) -> Refusal | None:
    for group in start.shape.weight_groups:
        if group.bits_per_parameter_milli != bits or group.name not in names:
            continue
        share = _share(group, start)
        if share % size:
            return _tensor(
                f"--tensor-parallel-size is {start.engine.tensor_parallel}; a rank's share of "
                f"{group.name} is {share}, no multiple of {size}, the {what}. Lower it"
                + (", or set --enable-expert-parallel" if group.name == "experts" else "")
            )
    return None


RULES = (
    context_over_heads, whole_heads,
    vocabulary, state_heads, fp8_blocks, fp8_experts, packed_groups,
)  # fmt: skip
