"""Which layers share a block table, and what a block of the pool then is.

An engine has one pool of equal blocks. Layers of one kind share a table; where kinds differ, the
layers are dealt out into groups of as many layers each, with pages of one size, so that any block
can serve any group. Source: vllm v0.32.0 v1/core/kv_cache_utils.py, get_kv_cache_groups and the
functions that it calls, named below.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kvscale.core.engines.cache_format import CacheFormat
from kvscale.core.engines.layer_rules import RULES
from kvscale.core.engines.vllm.allocation import TableRules
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerGroup, LayerKind


class LayerCache(NamedTuple):
    """Layers whose caches are alike on one rank.

    Attributes:
        group: the layers.
        block_tokens: tokens per block of theirs.
        page_bytes: of one block of one layer.
        every_token: windows and chunks are kept as if they were full attention.
        positions: which layers of the model.
    """

    group: LayerGroup
    block_tokens: int
    page_bytes: int
    positions: Sequence[int]
    every_token: bool = False

    @property
    def layers(self) -> int:
        """How many layers."""
        return len(self.positions)

    @property
    def kind(self) -> LayerKind:
        """The rule by which the engine keeps them."""
        return LayerKind.FULL_ATTENTION if self.every_token else self.group.kind


Table = tuple[LayerCache, ...]
"""Layers behind one block table; more than one member where pages differ in size."""


def layer_caches(
    groups: Sequence[LayerGroup], block_tokens: int, state_page: int, cache: CacheFormat
) -> list[LayerCache]:
    """The caches of a model's layers on one rank, before pages are made equal.

    Args:
        groups: the layers.
        block_tokens: the engine's block size.
        state_page: bytes that the page of a recurrent state is padded to; 0: as large as it is.
        cache: how it is stored.
    """
    found = []
    for group in groups:
        block = group.block_tokens or block_tokens
        page = RULES[group.kind].page_bytes(group, block, cache)
        if group.kind.recurrent:
            page = max(page, state_page)
        places = group.positions or range(group.layers)
        found.append(LayerCache(group, block, page, places))
    return found


def tables(caches: list[LayerCache], rules: TableRules) -> list[Table]:
    """The block tables of a model.

    Args:
        caches: its layers; at least one.
        rules: of the engine's version.

    Raises:
        Refused: pages cannot be made equal (`unify_kv_cache_spec_page_size`).
    """
    if rules.keeps_windows_whole or (
        rules.keeps_chunks_whole and any(c.kind is LayerKind.CHUNKED_LOCAL for c in caches)
    ):
        caches = _promoted(caches)
    if len(caches) == 1 or _same_tokens(caches):
        return [tuple(caches)]
    if any(cache.group.tokens_per_entry > 1 for cache in caches):
        return _packed(caches)
    unified = _equal_pages(caches, rules)
    if unified is None:
        promoted = _promoted(caches)
        if promoted == caches or not _same_tokens(promoted):
            raise Refused(
                "UnsupportedLayerMix",
                "engine.version",
                "this version of the engine cannot make the pages of the model's layers equal ("
                + ", ".join(f"{c.kind.value} {c.page_bytes} bytes" for c in caches)
                + "); use a newer one, or start it with --disable-hybrid-kv-cache-manager",
            )
        return [tuple(promoted)]
    return _dealt(unified, rules.deal_limit)


_EVERY_TOKEN = frozenset({
    LayerKind.FULL_ATTENTION, LayerKind.MLA, LayerKind.SPARSE_INDEXER, LayerKind.COMPRESSED_MLA,
})  # fmt: skip


def _same_tokens(caches: Sequence[LayerCache]) -> bool:
    """Whether all need the same slots (UniformTypeKVCacheSpecs.is_uniform_type)."""
    first = caches[0]
    if any(cache.block_tokens != first.block_tokens for cache in caches):
        return False
    if first.kind in _EVERY_TOKEN:
        return all(cache.kind in _EVERY_TOKEN for cache in caches)
    if first.kind.recurrent:
        # Mamba2 keeps checkpoints that the others do not.
        return all(
            cache.kind.recurrent
            and cache.page_bytes == first.page_bytes
            and (cache.kind is LayerKind.MAMBA2) == (first.kind is LayerKind.MAMBA2)
            for cache in caches
        )
    return all(
        cache.kind is first.kind and cache.group.window == first.group.window for cache in caches
    )


_LOCAL = frozenset({LayerKind.SLIDING_WINDOW, LayerKind.CHUNKED_LOCAL})


def _promoted(caches: list[LayerCache]) -> list[LayerCache]:
    """Windows and chunks beside full attention, kept whole (_promote_local_kv_cache_specs)."""
    full = [cache for cache in caches if cache.kind in _EVERY_TOKEN]
    if not full or not any(cache.kind in _LOCAL for cache in caches):
        return caches
    block = full[0].block_tokens
    return [
        cache._replace(
            every_token=True, block_tokens=block,
            page_bytes=cache.page_bytes * block // cache.block_tokens,
        )
        if cache.kind in _LOCAL else cache
        for cache in caches
    ]  # fmt: skip


def _equal_pages(caches: list[LayerCache], rules: TableRules) -> list[LayerCache] | None:
    """Pages of one size: longer blocks where it divides, padding where not.

    None where the version cannot, and where a latent's page does not divide the largest: its rows
    cannot be padded (unify_kv_cache_spec_page_size).
    """
    largest = max(cache.page_bytes for cache in caches)
    equal = []
    for cache in caches:
        if cache.page_bytes == largest:
            equal.append(cache)
        elif cache.kind.recurrent:
            equal.append(cache._replace(page_bytes=largest))
        elif rules.stretches and largest % cache.page_bytes == 0:
            longer = cache.block_tokens * (largest // cache.page_bytes)
            equal.append(cache._replace(page_bytes=largest, block_tokens=longer))
        elif cache.kind.latent or not rules.pads:
            return None
        else:
            equal.append(cache._replace(page_bytes=largest))
    return equal


def _alike(one: LayerCache, other: LayerCache) -> bool:
    """Whether two caches can share a table as one kind (KVCacheSpec.merge)."""
    if one.block_tokens != other.block_tokens or one.page_bytes != other.page_bytes:
        return False
    a, b = one.group, other.group
    return one.kind is other.kind and (
        (a.kv_heads, a.head_dim_k, a.head_dim_v, a.storage, a.state)
        == (b.kv_heads, b.head_dim_k, b.head_dim_v, b.storage, b.state)
    ) and (a.window == b.window or one.kind is LayerKind.FULL_ATTENTION)  # fmt: skip


def _dealt(caches: list[LayerCache], limit: float) -> list[Table]:
    """Tables of as many layers each (_get_kv_cache_groups_uniform_page_size).

    Layers of a kind are dealt out like cards, so that pipeline stages hold a share of each table.
    """
    buckets: list[list[LayerCache]] = []
    for cache in caches:
        for bucket in buckets:
            if _alike(bucket[0], cache):
                bucket.append(cache)
                break
        else:
            buckets.append([cache])
    counts = [sum(cache.layers for cache in bucket) for bucket in buckets]
    size = max(counts) if max(counts) < min(counts) * limit else min(counts)
    found: list[Table] = []
    for bucket, count in zip(buckets, counts, strict=True):
        ways = -(-count // size)
        places = [place for cache in bucket for place in cache.positions]
        found += [(bucket[0]._replace(positions=places[way::ways]),) for way in range(ways)]
    return found


def _packed(caches: list[LayerCache]) -> list[Table]:
    """Tables of unlike pages side by side in one block (_get_packed_kv_cache_groups).

    Kinds that need the same slots share a bucket. A bucket with as many layers of each page size
    is a pattern that repeats; the repeats are dealt out so that padding is least.
    """
    buckets: list[list[LayerCache]] = []
    for cache in caches:
        for bucket in buckets:
            if _same_tokens([*bucket, cache]):
                bucket.append(cache)
                break
        else:
            buckets.append([cache])
    shapes = []
    for bucket in buckets:
        by_page: dict[int, list[LayerCache]] = {}
        for cache in bucket:
            by_page.setdefault(cache.page_bytes, []).append(cache)
        repeats = [sum(cache.layers for cache in members) for members in by_page.values()]
        shapes.append((bucket, max(repeats), len(set(repeats)) == 1, len(by_page)))
    floor = max((most for _, most, even, sizes in shapes if even and sizes > 1), default=0)
    share = _least_padding([most for _, most, even, _ in shapes if even], floor) if floor else 0
    found: list[Table] = []
    for bucket, most, even, _ in shapes:
        ways = -(-most // share) if even and share else 1
        found += [
            tuple(cache._replace(positions=cache.positions[way::ways]) for cache in bucket)
            for way in range(ways)
        ]
    return found


def _least_padding(counts: list[int], lowest: int) -> int:
    """The size of a share that pads the counts least, the larger of equals (_approximate_gcd)."""
    return min(
        range(lowest, max(counts) + 1),
        key=lambda size: (sum(-count % size for count in counts), -size),
        default=lowest,
    )


def layers_within(cache: LayerCache, first: int, last: int) -> int:
    """How many of its layers lie in [first, last)."""
    places = cache.positions
    # Places are in order, so most often the stage has all of them.
    if first <= places[0] and places[-1] < last:
        return len(places)
    return sum(first <= place < last for place in places)
