"""The trace of a capacity: every step that a stranger needs to find the blocks by hand."""

from dataclasses import dataclass

from kvscale.core.capacity.ceiling import CacheGroup
from kvscale.core.capacity.placement import Stage
from kvscale.core.capacity.vllm.budget import Budget
from kvscale.core.capacity.vllm.settings import Settings
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.layer_rules import (
    RULES,
    bytes_per_token,
    device_kv_heads,
    state_bits_milli,
)
from kvscale.core.engines.vllm.rules import RESERVED_BLOCKS
from kvscale.core.model.shape import LayerGroup, LayerKind
from kvscale.core.trace import Scalar, Step, Trace
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
    """

    stage: Stage
    budget: Budget
    groups: tuple[CacheGroup, ...]
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


def _page_step(group: LayerGroup, settings: Settings, tensor_parallel: int) -> Step:
    rule, block = RULES[group.kind], group.block_tokens or settings.block_tokens
    page = rule.page_bytes(group, block, settings.cache)
    inputs: tuple[tuple[str, Scalar], ...] = (
        ("layerKind", group.kind.value),
        ("layers", group.layers),
        ("blockTokens", block),
    )
    if group.kind.recurrent:
        inputs += _state_inputs(group, settings)
    elif group.kind.latent or group.storage:
        inputs += (
            ("vectorElements", group.head_dim_k),
            ("vectorBytes", page * group.tokens_per_entry // block),
            ("tokensPerEntry", group.tokens_per_entry),
            ("storage", group.storage or settings.kv.name),
        )
    else:
        inputs += (
            ("kvHeadsPerDevice", device_kv_heads(group.kv_heads, tensor_parallel)),
            ("keyBytes", settings.kv.side_bytes(group.head_dim_k)),
            ("valueBytes", settings.kv.side_bytes(group.head_dim_v)),
            ("kvCacheDtype", settings.kv.name),
        )
    return Step(
        "pageBytes", page, "bytes", rule.formula, inputs, "vllm v0.33.0 v1/kv_cache_interface.py"
    )


def _state_inputs(group: LayerGroup, settings: Settings) -> tuple[tuple[str, Scalar], ...]:
    cache = settings.cache
    tensors = tuple(
        (
            f"tensor {number}",
            (
                f"{part.shares} shares of {part.elements + cache.drafts * part.elements_per_draft} "
                f"elements, {state_bits_milli(part, cache) // 8000} bytes each"
            ),
        )
        for number, part in enumerate(group.state, start=1)
    )
    return tensors + ((("paddedTo", settings.state_page),) if settings.state_page else ())


def page_steps(settings: Settings, engine: EngineConfig, room: StageRoom) -> Trace:
    """What a block is and what it costs."""
    return (
        Step(
            "blockTokens",
            settings.block_tokens,
            "tokens",
            settings.block_reason,
            (),
            "vllm v0.32.0 platforms/cuda.py",
        ),
        *(
            _page_step(group, settings, engine.tensor_parallel)
            for group in settings.shape.layer_groups
        ),
        Step(
            "bytesPerBlock",
            room.bytes_per_block,
            "bytes",
            "sum over the layers of the stage of pageBytes"
            if len(room.groups) == 1
            else "the largest block table of the stage: its layers x their pages, made equal",
            tuple(
                (
                    f"table {number}: {group.layers} layers of {group.kind.value}",
                    group.bytes_per_block,
                )
                for number, group in enumerate(room.groups, start=1)
            ),
            _PLANNING,
        ),
        Step(
            "bytesPerToken",
            bytes_per_token(settings.shape.layer_groups, settings.cache),
            "bytes",
            "what one more token of a long sequence adds: pages / blockTokens, of the layers that "
            "keep every token",
            (("kvCacheDtype", settings.kv.name), ("tensorParallel", engine.tensor_parallel)),
        ),
    )  # fmt: skip


def _table_inputs(groups: tuple[CacheGroup, ...], tokens: int) -> tuple[tuple[str, Scalar], ...]:
    if len(groups) == 1:
        return ()
    return tuple(
        (f"table {number}: {group.kind.value}", group.blocks(tokens))
        for number, group in enumerate(groups, start=1)
    )


def _sequence_formula(groups: tuple[CacheGroup, ...]) -> str:
    if len(groups) > 1:
        return "sum over the block tables of the blocks of one sequence of maxModelLen tokens"
    (only,) = groups
    if only.fixed_blocks is not None:
        return "stateBlocks, whatever the length"
    tokens = "maxModelLen"
    if only.admitted_tokens is not None:
        edge = "" if only.kind is LayerKind.CHUNKED_LOCAL else " - 1"
        tokens = f"min(maxModelLen, window{edge} + tokensInFlight)"
    shared = " / decodeContextParallel" if only.ways > 1 else ""
    return f"ceil({tokens}{shared} / blockTokens)" + (" + 1" if only.extra_blocks else "")


def _bounds(settings: Settings) -> tuple[tuple[str, Scalar], ...]:
    """What bounded layers hold besides their bound."""
    found: tuple[tuple[str, Scalar], ...] = ()
    windows = {group.window for group in settings.shape.layer_groups if group.window}
    if windows:
        found += (
            ("window", ", ".join(str(window) for window in sorted(windows))),
            ("tokensInFlight", settings.scheduling.in_flight),
        )
    if any(group.kind.recurrent for group in settings.shape.layer_groups):
        kept = settings.scheduling.state_blocks
        found += (("stateBlocks", "one in every block" if kept is None else kept),)
    return found


def block_steps(
    settings: Settings, engine: EngineConfig, room: StageRoom, ceiling: Ceiling
) -> Trace:
    """From bytes to blocks, and from blocks to the numbers that the engine prints."""
    blocks, needed = ceiling.blocks, ceiling.blocks_per_sequence
    ways = max(group.ways for group in room.groups)
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
            _sequence_formula(room.groups),
            (
                ("maxModelLen", ceiling.max_model_len),
                ("blockTokens", settings.block_tokens),
                *_bounds(settings),
                *((("decodeContextParallel", ways),) if ways > 1 else ()),
                *_table_inputs(room.groups, ceiling.max_model_len),
            ),
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
