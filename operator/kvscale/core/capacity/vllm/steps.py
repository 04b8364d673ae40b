"""The trace of a vLLM capacity: every step that a stranger needs to find the blocks by hand."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvscale.core.capacity.ceiling import CacheGroup
from kvscale.core.capacity.placement import Stage
from kvscale.core.capacity.sequence_formula import table_formula
from kvscale.core.capacity.vllm.budget import Budget
from kvscale.core.capacity.vllm.grouping import Table
from kvscale.core.capacity.vllm.page_steps import block_step, page_step, token_step
from kvscale.core.capacity.vllm.settings import Settings
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.rules import RESERVED_BLOCKS
from kvscale.core.trace import Inputs, Step, Trace
from kvscale.core.values import Band

BLOCK_TABLE_ENTRY_BYTES = 4
"""An int32 per block in each sequence's block table; reported, not deducted."""

_PLANNING = "vllm v0.33.0 v1/core/kv_cache_planning.py"


@dataclass(frozen=True, slots=True)
class StageRoom:
    """What one rank of a pipeline stage holds.

    Attributes:
        stage: its layers.
        budget: its bytes for KV.
        groups: its block tables, and what a sequence needs of each.
        bytes_per_block: of one block of the pool.
        tables: the layers behind each block table, of the whole model.
    """

    stage: Stage
    budget: Budget
    groups: tuple[CacheGroup, ...]
    bytes_per_block: int
    tables: Sequence[Table]

    def blocks(self, memory: int) -> int:
        """Blocks in that many bytes; none in a negative number."""
        return max(0, memory) // self.bytes_per_block


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the blocks amount to.

    Attributes:
        blocks: of the engine.
        max_model_len: longest sequence in tokens.
        blocks_per_sequence: blocks of one such sequence.
        printed_tokens: tokens that the engine prints for the expected blocks.
    """

    blocks: Band
    max_model_len: int
    blocks_per_sequence: int
    printed_tokens: int


def page_steps(settings: Settings, engine: EngineConfig, room: StageRoom) -> Trace:
    """What a block is and what it costs."""
    return (
        Step(
            "blockTokens",
            settings.block_tokens,
            "tokens",
            settings.block_reason,
            settings.block_inputs,
            "vllm v0.32.0 platforms/cuda.py",
        ),
        *(
            page_step(group, settings, engine.tensor_parallel)
            for group in settings.shape.layer_groups
        ),
        block_step(room.groups, room.tables, room.stage, _PLANNING),
        token_step(settings, engine.tensor_parallel),
    )


def _tokens_formula(
    settings: Settings, engine: EngineConfig, room: StageRoom, length: int
) -> tuple[str, Inputs]:
    """The printed tokens; see `core.engines.vllm.rules.printed_tokens`."""
    if settings.rules.tokens_by_concurrency:
        return "int(maxConcurrency x maxModelLen)", (("maxModelLen", length),)
    tables, ways = len(room.groups), engine.decode_context_parallel
    smallest = min(group.block_tokens for group in room.groups)
    name = "blockTokens" if smallest == settings.block_tokens else "smallestBlockTokens"
    formula = f"kvBlocks{' // blockTables' if tables > 1 else ''} x {name}"
    inputs: Inputs = ((name, smallest),)
    if tables > 1:
        inputs += (("blockTables", tables),)
    if ways > 1:
        formula += " x decodeContextParallel"
        inputs += (("decodeContextParallel", ways),)
    return formula, inputs


def _kv_blocks(engine: EngineConfig, room: StageRoom, blocks: Band) -> Step:
    memory = room.budget.kv_memory.expected
    formula = "kvMemoryBytes // bytesPerBlock"
    inputs: Inputs = (("kvMemoryBytes", memory), ("bytesPerBlock", room.bytes_per_block))
    if engine.num_gpu_blocks_override is not None:
        formula, inputs = "--num-gpu-blocks-override", ()
    elif memory < 0:
        formula = f"max(0, {formula})"
    return Step(
        "kvBlocks",
        blocks.expected,
        "blocks",
        formula,
        (
            *inputs,
            ("pipelineStage", f"layers {room.stage.first} to {room.stage.last - 1}"),
            ("low", blocks.low),
            ("high", blocks.high),
        ),
        _PLANNING,
    )


def block_steps(
    settings: Settings, engine: EngineConfig, room: StageRoom, ceiling: Ceiling
) -> Trace:
    """From bytes to blocks, and from blocks to the numbers that the engine prints."""
    blocks, needed = ceiling.blocks, ceiling.blocks_per_sequence
    per_sequence, parts = table_formula(
        room.groups, "maxModelLen", settings.block_tokens, settings.scheduling.in_flight
    )
    grows = "maxModelLen" in per_sequence  # states take as much at every length
    tokens_formula, tokens_inputs = _tokens_formula(settings, engine, room, ceiling.max_model_len)
    return (
        _kv_blocks(engine, room, blocks),
        Step(
            "usableBlocks",
            max(0, blocks.expected - RESERVED_BLOCKS),
            "blocks",
            "kvBlocks - reservedBlocks; the null block"
            if blocks.expected
            else "max(0, kvBlocks - reservedBlocks); the null block",
            (("kvBlocks", blocks.expected), ("reservedBlocks", RESERVED_BLOCKS)),
            "vllm v0.33.0 v1/core/block_pool.py",
        ),
        Step(
            "blocksPerSequence",
            needed,
            "blocks",
            per_sequence,
            ((("maxModelLen", ceiling.max_model_len), *parts) if grows else parts),
            _PLANNING,
        ),
        Step(
            "maxConcurrency",
            blocks.expected / needed,
            "sequences",
            "kvBlocks / blocksPerSequence",
            (("kvBlocks", blocks.expected), ("blocksPerSequence", needed)),
            _PLANNING,
        ),
        Step(
            "kvCacheSizeTokens",
            ceiling.printed_tokens,
            "tokens",
            tokens_formula,
            (*tokens_inputs, ("engineVersion", settings.rules.label)),
            _PLANNING,
        ),
        Step(
            "blockTableBytes",
            settings.max_num_seqs * needed * BLOCK_TABLE_ENTRY_BYTES,
            "bytes",
            "maxNumSeqs x blocksPerSequence x 4; reported, not deducted",
            (("maxNumSeqs", settings.max_num_seqs), ("blocksPerSequence", needed)),
            "vllm v0.33.0 v1/worker/block_table.py",
        ),
    )
