"""What each way of handing out cache costs: the same engine under four allocation policies.

All four are asked the same question: how many sequences of one length are resident at once, and
how much of the memory do they reserve without using it?

- Contiguous: room for the longest sequence is reserved at the start, as in FasterTransformer.
- Contiguous, with fragmentation: room for the sequence's own length, known beforehand, from a buddy
  allocator, which hands out powers of two (Knuth, The Art of Computer Programming 1, 2.5). It is
  the baseline "Orca (Pow2)" of Kwon et al., Efficient Memory Management for Large Language Model
  Serving with PagedAttention (SOSP 2023), section 6.1. In its figure 2 such systems fill 20 to
  38 % of the memory with tokens and paging 96 %; what is counted here is the loss by length alone.
- Paged: blocks as the sequence grows, so at most the last block has empty slots.
- Paged with a shared prefix: full blocks of the prefix are held once for all that share it; the
  block in which a sequence departs from it is its own copy.

The first two never reserve less than the third, and the fourth never holds more, so sequences never
descend from one to the next.
"""

from dataclasses import dataclass
from enum import StrEnum

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.trace import Scalar, Step, Trace
from kvscale.core.values import Band


class Policy(StrEnum):
    """How cache is handed out."""

    CONTIGUOUS = "Contiguous"
    FRAGMENTED = "ContiguousFragmented"
    PAGED = "Paged"
    SHARED_PREFIX = "PagedSharedPrefix"


@dataclass(frozen=True, slots=True)
class Allocation:
    """An engine under one policy.

    Attributes:
        policy: which.
        reserved_tokens: slots that a sequence reserves for itself.
        reserved_blocks: the same in blocks of the engine.
        shared_blocks: blocks held once for all sequences.
        sequences: resident at once in one engine, by memory alone.
        wasted_bytes: reserved by one sequence and not used by its tokens, on one device.
        used_share_milli: share of the usable memory that distinct tokens fill, in thousandths.
    """

    policy: Policy
    reserved_tokens: int
    reserved_blocks: int
    shared_blocks: int
    sequences: Band
    wasted_bytes: int
    used_share_milli: int


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies side by side, in the order of `Policy`.

    Attributes:
        tokens: the length of every sequence.
        shared_tokens: of the prefix as far as whole blocks go; 0 without one.
        trace: the arithmetic.
    """

    tokens: int
    shared_tokens: int
    allocations: tuple[Allocation, ...]
    trace: Trace = ()


def policies(
    capacity: EngineCapacity, tokens: int, *, prefix_tokens: int = 0, prefixes: int = 1
) -> Policies:
    """Every policy at one length.

    Args:
        capacity: of the engine.
        tokens: length of each sequence, from 1 to the engine's maximum.
        prefix_tokens: that its prompt shares with others; 0: none.
        prefixes: different prefixes, positive; sequences are spread over them.
    """
    tokens = max(1, min(tokens, capacity.max_model_len))
    longest = capacity.max_model_len
    buddy = max(tokens, min(1 << (tokens - 1).bit_length(), longest))
    # The engine computes at least the last token of a prompt, so a prefix never covers it all.
    whole_blocks = max(0, min(prefix_tokens, tokens - 1)) // capacity.block_tokens
    shared = whole_blocks * capacity.block_tokens
    found = [
        _allocation(capacity, policy, tokens, reserved)
        for policy, reserved in (
            (Policy.CONTIGUOUS, longest),
            (Policy.FRAGMENTED, buddy),
            (Policy.PAGED, tokens),
        )
    ]
    if shared:
        found.append(_sharing(capacity, tokens, shared, prefixes))
    return Policies(
        tokens, shared, tuple(found), tuple(_step(capacity, one, tokens, shared) for one in found)
    )


def _allocation(capacity: EngineCapacity, policy: Policy, tokens: int, reserved: int) -> Allocation:
    blocks = max(1, capacity.blocks_for(reserved))
    usable = capacity.usable_blocks
    sequences = Band(usable.low // blocks, usable.expected // blocks, usable.high // blocks)
    return _counted(capacity, policy, tokens, (reserved, blocks, 0), sequences)


def _sharing(capacity: EngineCapacity, tokens: int, shared: int, prefixes: int) -> Allocation:
    """Blocks of the prefix once, and for each sequence those of its other tokens.

    In a layer with a window the blocks behind it are freed, prefix or not: `blocks_for` of the
    tokens that are left says so.
    """
    own = max(1, capacity.blocks_for(tokens - shared))
    held = prefixes * capacity.blocks_for(shared)
    paged = max(1, capacity.blocks_for(tokens))

    def fits(usable: int) -> int:
        # Fewer sequences than prefixes share nothing.
        together = (usable - held) // own
        return max(usable // paged, together if together >= prefixes else 0)

    usable = capacity.usable_blocks
    sequences = Band(fits(usable.low), fits(usable.expected), fits(usable.high))
    return _counted(
        capacity, Policy.SHARED_PREFIX, tokens - shared, (tokens - shared, own, held), sequences
    )


def _counted(
    capacity: EngineCapacity,
    policy: Policy,
    used: int,
    reserved: tuple[int, int, int],
    sequences: Band,
) -> Allocation:
    """The allocation with what is wasted of it; `reserved` is tokens, blocks and shared blocks."""
    tokens, blocks, shared = reserved
    # Slots of the last block that its tokens leave empty.
    empty = -used % capacity.block_tokens * capacity.bytes_per_block // capacity.block_tokens
    needed = min(blocks, max(1, capacity.blocks_for(used)))
    wasted = (blocks - needed) * capacity.bytes_per_block + empty
    usable = capacity.usable_blocks.expected * capacity.bytes_per_block
    filled = sequences.expected * (blocks * capacity.bytes_per_block - wasted)
    filled += shared * capacity.bytes_per_block if sequences.expected else 0
    return Allocation(
        policy,
        reserved_tokens=tokens,
        reserved_blocks=blocks,
        shared_blocks=shared,
        sequences=sequences,
        wasted_bytes=wasted,
        used_share_milli=min(1000, 1000 * filled // usable) if usable else 0,
    )


_FORMULAS = {
    Policy.CONTIGUOUS: "usableBlocks // blocksReserved; the blocks of maxModelLen, whatever the "
    "tokens",
    Policy.FRAGMENTED: "usableBlocks // blocksReserved; the blocks of min(2 ** ceil(log2(tokens)), "
    "maxModelLen)",
    Policy.PAGED: "usableBlocks // blocksReserved; the blocks of tokens",
    Policy.SHARED_PREFIX: "max((usableBlocks - sharedBlocks) // blocksReserved, usableBlocks // "
    "blocksAlone); the blocks of tokens - sharedTokens, or of all tokens where few share",
}
_KWON = "Kwon et al., PagedAttention, SOSP 2023, section 6.1"


def _step(capacity: EngineCapacity, one: Allocation, tokens: int, shared: int) -> Step:
    inputs: list[tuple[str, Scalar]] = [
        ("usableBlocks", capacity.usable_blocks.expected),
        ("tokens", tokens),
        ("blocksReserved", one.reserved_blocks),
        ("bytesWastedPerSequence", one.wasted_bytes),
    ]
    if one.policy is Policy.SHARED_PREFIX:
        alone = max(1, capacity.blocks_for(tokens))
        inputs += [
            ("sharedTokens", shared),
            ("sharedBlocks", one.shared_blocks),
            ("blocksAlone", alone),
        ]
    return Step(
        f"sequences{one.policy.value}",
        one.sequences.expected,
        "sequences per engine",
        f"{_FORMULAS[one.policy]}; bytesWastedPerSequence beside them",
        tuple(inputs),
        _KWON if one.policy is Policy.FRAGMENTED else "",
    )
