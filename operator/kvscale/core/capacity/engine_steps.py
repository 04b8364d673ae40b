"""The trace of a capacity: every step that a stranger needs to find the blocks by hand."""

from dataclasses import dataclass

from kvscale.core.capacity.blocks import RULES, device_kv_heads
from kvscale.core.capacity.budget import Budget
from kvscale.core.capacity.placement import Stage
from kvscale.core.capacity.settings import Settings
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm import RESERVED_BLOCKS
from kvscale.core.model.shape import LayerGroup
from kvscale.core.trace import Step, Trace
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
        groups: its layers that keep KV.
        bytes_per_block: of one block in all of them.
    """

    stage: Stage
    budget: Budget
    groups: tuple[LayerGroup, ...]
    bytes_per_block: int

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
    pages = []
    for group in room.groups:
        rule = RULES[group.kind]
        heads = 1 if rule.replicated else device_kv_heads(group.kv_heads, engine.tensor_parallel)
        pages.append(
            Step(
                "pageBytes",
                rule.page_bytes(group, settings.block_tokens, engine.tensor_parallel, settings.kv),
                "bytes",
                rule.formula,
                (
                    ("layerKind", group.kind.value),
                    ("blockTokens", settings.block_tokens),
                    ("kvHeadsPerDevice", heads),
                    ("keyBytes", settings.kv.side_bytes(group.head_dim_k)),
                    ("valueBytes", settings.kv.side_bytes(group.head_dim_v)),
                    ("kvCacheDtype", settings.kv.name),
                ),
                "vllm v0.33.0 v1/kv_cache_interface.py",
            )
        )
    return (
        Step(
            "blockTokens",
            settings.block_tokens,
            "tokens",
            settings.block_reason,
            (),
            "vllm v0.32.0 platforms/cuda.py",
        ),
        *pages,
        Step(
            "bytesPerBlock",
            room.bytes_per_block,
            "bytes",
            "sum over the layers of the stage of pageBytes",
            tuple(
                (f"layers of {group.kind.value}", group.layers) for group in room.groups
            ),
            _PLANNING,
        ),
        Step(
            "bytesPerToken",
            room.bytes_per_block / settings.block_tokens,
            "bytes",
            "bytesPerBlock / blockTokens",
            (("bytesPerBlock", room.bytes_per_block), ("blockTokens", settings.block_tokens)),
        ),
    )  # fmt: skip


def block_steps(
    settings: Settings, engine: EngineConfig, room: StageRoom, ceiling: Ceiling
) -> Trace:
    """From bytes to blocks, and from blocks to the numbers that the engine prints."""
    blocks, needed = ceiling.blocks, ceiling.blocks_per_sequence
    overridden = engine.num_gpu_blocks_override is not None
    entries = settings.max_num_seqs * needed
    return (
        Step(
            "kvBlocks",
            blocks.expected,
            "blocks",
            "--num-gpu-blocks-override" if overridden else "kvMemoryBytes // bytesPerBlock",
            (
                ("kvMemoryBytes", room.budget.kv_memory.expected),
                ("bytesPerBlock", room.bytes_per_block),
                ("pipelineStage", f"layers {room.stage.first} to {room.stage.last - 1}"),
                ("low", blocks.low),
                ("high", blocks.high),
            ),
            _PLANNING,
        ),
        Step(
            "usableBlocks",
            max(0, blocks.expected - RESERVED_BLOCKS),
            "blocks",
            "kvBlocks - the null block",
            (("kvBlocks", blocks.expected), ("reservedBlocks", RESERVED_BLOCKS)),
            "vllm v0.33.0 v1/core/block_pool.py",
        ),
        Step(
            "blocksPerSequence",
            needed,
            "blocks",
            "ceil(maxModelLen / blockTokens)",
            (("maxModelLen", ceiling.max_model_len), ("blockTokens", settings.block_tokens)),
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
            "int(maxConcurrency x maxModelLen)"
            if settings.rules.tokens_by_concurrency
            else "kvBlocks x blockTokens",
            (("maxModelLen", ceiling.max_model_len), ("engineVersion", settings.rules.label)),
            _PLANNING,
        ),
        Step(
            "blockTableBytes",
            entries * BLOCK_TABLE_ENTRY_BYTES,
            "bytes",
            "maxNumSeqs x blocksPerSequence x 4; reported, not deducted",
            (("maxNumSeqs", settings.max_num_seqs), ("blocksPerSequence", needed)),
            "vllm v0.33.0 v1/worker/block_table.py",
        ),
    )
