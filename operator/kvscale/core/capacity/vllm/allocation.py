"""How an engine lays a model's layers out in its pool: block tables, and what each needs."""

from collections.abc import Sequence
from operator import mul

from kvscale.core.capacity.ceiling import CacheGroup
from kvscale.core.capacity.placement import Stage
from kvscale.core.capacity.vllm.grouping import Table, layer_caches, layers_within, tables
from kvscale.core.capacity.vllm.settings import Settings
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.layer_rules import RULES
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerKind

MOST_PLACES = 1 << 31
"""Beyond the place of any layer."""


def allocate(settings: Settings, engine: EngineConfig) -> list[Table]:
    """The block tables of the whole model.

    Raises:
        Refused: a mix of layers that the engine would not start with.
    """
    groups = settings.shape.layer_groups
    if not groups:
        raise Refused(
            "NoKvCache",
            "architectures",
            "no layer of the model keeps a KV cache, so memory does not limit its sequences",
        )
    if engine.decode_context_parallel > 1 and any(group.window for group in groups):
        raise Refused(
            "InvalidParallelism",
            "--decode-context-parallel-size",
            f"--decode-context-parallel-size is {engine.decode_context_parallel}; the engine "
            "cannot share out the tokens of windowed layers. Leave it at 1",
        )
    return tables(
        layer_caches(groups, settings.block_tokens, settings.state_page, settings.cache),
        settings.tables,
    )


def cache_groups(
    found: Sequence[Table], settings: Settings, engine: EngineConfig, stage: Stage
) -> tuple[CacheGroup, ...]:
    """What a block can be on a pipeline stage, and how many a sequence needs of each table.

    Layers of one table need the same blocks, so its first member speaks for all.
    """
    groups = []
    # Draft layers come after the model's own and lie on the last stage.
    last = MOST_PLACES if stage.is_last else stage.last
    for table in found:
        first = table[0] if len(table) == 1 else max(table, key=lambda cache: cache.layers)
        need = RULES[first.kind].need(first.group, settings.scheduling)
        fixed = need.fixed_blocks
        if need.fixed_tokens is not None:
            fixed = -(-need.fixed_tokens // first.block_tokens)
        counts = [layers_within(cache, stage.first, last) for cache in table]
        pages = [cache.page_bytes for cache in table]
        groups.append(
            CacheGroup(
                kind=first.kind,
                layers=sum(counts),
                block_tokens=first.block_tokens,
                bytes_per_block=sum(map(mul, pages, counts)),
                fixed_blocks=fixed,
                admitted_tokens=need.admitted_tokens,
                resident_tokens=need.resident_tokens,
                extra_blocks=need.extra_blocks,
                ways=1 if first.kind.recurrent else engine.decode_context_parallel,
                kinds=_kinds(table, counts),
            )
        )
    return tuple(groups)


def _kinds(table: Table, counts: Sequence[int]) -> tuple[tuple[LayerKind, int], ...]:
    """Layers of a stage by kind; nothing where all are of one."""
    if len(table) == 1:
        return ()
    found: dict[LayerKind, int] = {}
    for cache, count in zip(table, counts, strict=True):
        found[cache.kind] = found.get(cache.kind, 0) + count
    return tuple(found.items()) if len(found) > 1 else ()


def bytes_per_block(groups: Sequence[CacheGroup]) -> int:
    """Bytes of one block of the pool: the largest table decides, the others leave room unused."""
    return max(group.bytes_per_block for group in groups)


def blocks_of(groups: Sequence[CacheGroup], tokens: int) -> int:
    """Blocks that one sequence of that many tokens needs, over all tables."""
    total = 0
    for group in groups:
        total += group.blocks(tokens)
    return total


def longest_within(groups: Sequence[CacheGroup], blocks: int, longest: int) -> int:
    """The longest sequence that so many blocks hold, at most `longest`; 0: not one token.

    Blocks grow with the length, so halving finds it (vllm v0.32.0 kv_cache_utils.py,
    _estimate_max_model_len_from_groups).
    """
    if blocks_of(groups, longest) <= blocks:
        return longest
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        if blocks_of(groups, middle) <= blocks:
            low = middle
        else:
            high = middle - 1
    return low
