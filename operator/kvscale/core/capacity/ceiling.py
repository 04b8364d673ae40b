"""The ceiling of one engine: the value that `engine_capacity` computes."""

from dataclasses import dataclass, field

from kvscale.core.capacity.pools import Pool, pooled_blocks
from kvscale.core.model.shape import LayerKind
from kvscale.core.trace import Trace
from kvscale.core.values import Band


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that share a block table: every block of theirs is one block of the pool.

    Attributes:
        kind: of its layers (of the most of them, where several share one).
        layers: how many on the fullest stage, padding left out.
        block_tokens: tokens per block.
        bytes_per_block: pages of its layers on one device of the fullest stage.
        fixed_blocks: blocks of a sequence, whatever its length (states); None: they grow.
        admitted_tokens: most tokens that the engine sets aside for a sequence, those in flight
            included; None: every token.
        resident_tokens: most tokens that stay while it decodes; None: every token.
        extra_blocks: one more where the tokens kept need not begin at a block's edge.
        ways: ranks of decode context parallelism that share the tokens.
        kinds: layers by kind, where several share the table; () where there is one.
    """

    kind: LayerKind
    layers: int
    block_tokens: int
    bytes_per_block: int
    fixed_blocks: int | None = None
    admitted_tokens: int | None = None
    resident_tokens: int | None = None
    extra_blocks: int = 0
    ways: int = 1
    kinds: tuple[tuple[LayerKind, int], ...] = ()

    @property
    def layers_by_kind(self) -> tuple[tuple[LayerKind, int], ...]:
        """Its layers, kind by kind."""
        return self.kinds or ((self.kind, self.layers),)

    def blocks(self, tokens: int) -> int:
        """Blocks that the engine sets aside for one sequence of that many tokens."""
        return self._held(tokens, self.admitted_tokens)

    def resident_blocks(self, tokens: int) -> int:
        """Blocks that one sequence of that many tokens holds while it decodes."""
        return self._held(tokens, self.resident_tokens)

    def _held(self, tokens: int, most: int | None) -> int:
        if self.fixed_blocks is not None:
            return self.fixed_blocks
        kept = tokens if most is None or tokens < most else most
        if self.ways > 1:
            kept = -(-kept // self.ways)
        return -(-kept // self.block_tokens) + self.extra_blocks


@dataclass(frozen=True, slots=True)
class EngineCapacity:
    """What one engine (one KV pool) holds.

    Attributes:
        block_tokens: tokens per KV block of one sequence.
        bytes_per_block: of the whole pool, on one device.
        weight_bytes_per_device: on the fullest rank.
        kv_memory_bytes: what is left for KV, per device.
        kv_blocks: total blocks of the engine, as the engine prints them.
        reserved_blocks: blocks that the engine never gives to a sequence (vLLM: 1 null block).
        kv_cache_size_tokens: with the engine version's own meaning.
        max_concurrency_milli: sequences of `max_model_len`, in thousandths, as the engine prints.
        max_model_len: longest sequence in tokens, resolved.
        max_num_seqs: largest running batch, resolved.
        max_num_batched_tokens: token budget of a step, resolved.
        devices: devices of the engine.
        groups: what a block of the pool can be, and how many a sequence needs of each; () where
            every layer keeps every token in blocks of `block_tokens`.
        pools: where kinds of layers have a pool of their own (SGLang, TensorRT-LLM): blocks are
            those of the first, and the scarcest decides; () where there is one pool.
        assumptions: what was assumed, one sentence each.
        trace: the arithmetic.

    The texts follow from the numbers, so hashes are of the numbers alone.
    """

    block_tokens: int
    bytes_per_block: int
    weight_bytes_per_device: int
    kv_memory_bytes: Band
    kv_blocks: Band
    reserved_blocks: int
    kv_cache_size_tokens: Band
    max_concurrency_milli: Band
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    devices: int
    groups: tuple[CacheGroup, ...] = ()
    pools: tuple[Pool, ...] = ()
    assumptions: tuple[str, ...] = field(default=(), hash=False)
    trace: Trace = field(default=(), hash=False)

    @property
    def usable_blocks(self) -> Band:
        """Blocks that sequences can be given; admission is counted in these."""
        b, r = self.kv_blocks, self.reserved_blocks
        return Band(max(0, b.low - r), max(0, b.expected - r), max(0, b.high - r))

    def blocks_for(self, tokens: int) -> int:
        """Blocks that the engine sets aside for one sequence of that many tokens.

        The engine admits by this number and prints its concurrency from it.
        """
        if self.pools:
            return pooled_blocks(self.pools, self.block_tokens, tokens)
        if not self.groups:
            return -(-tokens // self.block_tokens)
        return sum([group.blocks(tokens) for group in self.groups])

    def resident_blocks(self, tokens: int) -> int:
        """Blocks that one sequence of that many tokens holds while it decodes.

        Fewer than `blocks_for` where windows forget: what a prompt needs in flight is free again.
        """
        if self.pools:
            return pooled_blocks(self.pools, self.block_tokens, tokens, decoding=True)
        if not self.groups:
            return -(-tokens // self.block_tokens)
        return sum([group.resident_blocks(tokens) for group in self.groups])
