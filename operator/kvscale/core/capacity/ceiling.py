"""The ceiling of one engine: the value that `engine_capacity` computes."""

from dataclasses import dataclass, field

from kvscale.core.trace import Trace
from kvscale.core.values import Band


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no number is given, and what to change.

    Attributes:
        reason: CamelCase and constant ("UnsupportedLayerKind", "ModelDoesNotFit", ...).
        field: the setting at fault, in the user's own words ("--max-model-len", "layer_types").
        message: one sentence with the mend.
    """

    reason: str
    field: str
    message: str


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
    assumptions: tuple[str, ...] = field(default=(), hash=False)
    trace: Trace = field(default=(), hash=False)

    @property
    def usable_blocks(self) -> Band:
        """Blocks that sequences can be given; admission is counted in these."""
        b, r = self.kv_blocks, self.reserved_blocks
        return Band(max(0, b.low - r), max(0, b.expected - r), max(0, b.high - r))

    def blocks_for(self, tokens: int) -> int:
        """Blocks that one resident sequence of that many tokens holds."""
        return -(-tokens // self.block_tokens)
