"""The steps from a layer's page to a block of the pool."""

from collections.abc import Sequence

from kvscale.core.capacity.ceiling import CacheGroup
from kvscale.core.capacity.placement import Stage
from kvscale.core.capacity.vllm.allocation import MOST_PLACES
from kvscale.core.capacity.vllm.grouping import Table, layers_within
from kvscale.core.capacity.vllm.settings import Settings
from kvscale.core.engines.layer_rules import (
    RULES,
    V4_ALIGNMENT,
    aligned,
    device_kv_heads,
    keeps_every_token,
    state_bits_milli,
    token_bytes,
    vector_bytes,
)
from kvscale.core.model.shape import LayerGroup
from kvscale.core.trace import Inputs, Scalar, Step

_PAGES = "vllm v0.33.0 v1/kv_cache_interface.py"


def page_step(group: LayerGroup, settings: Settings, tensor_parallel: int) -> Step:
    """One block of one layer."""
    block = group.block_tokens or settings.block_tokens
    name = "blockTokens" if block == settings.block_tokens else "ownBlockTokens"
    page = RULES[group.kind].page_bytes(group, block, settings.cache)
    kind = group.kind
    inputs: Inputs
    if kind.recurrent:
        formula, inputs = _state(group, settings)
    elif kind.latent:
        formula, inputs = _latent(group, (name, block), settings)
    else:
        kv = settings.kv
        formula = f"{name} x kvHeadsPerDevice x (keyBytes + valueBytes); one of the layers"
        inputs = (
            ("layerKind", kind.value),
            ("layers", group.layers),
            (name, block),
            ("kvHeadsPerDevice", device_kv_heads(group.kv_heads, tensor_parallel)),
            ("keyBytes", kv.side_bytes(group.head_dim_k)),
            ("valueBytes", kv.side_bytes(group.head_dim_v)),
            ("kvCacheDtype", kv.name),
        )
    return Step("pageBytes", page, "bytes", formula, inputs, _PAGES)


def _latent(group: LayerGroup, block: tuple[str, int], settings: Settings) -> tuple[str, Inputs]:
    size, entry = block[0], group.tokens_per_entry
    inputs: Inputs = (("layerKind", group.kind.value), ("layers", group.layers), block)
    if entry > 1:
        size += " // tokensPerEntry"
        inputs += (("tokensPerEntry", entry),)
    size += " x vectorBytes"
    if aligned(group):
        size = f"ceil({size} / {V4_ALIGNMENT}) x {V4_ALIGNMENT}"
    inputs += (
        ("vectorElements", group.head_dim_k),
        ("vectorBytes", vector_bytes(group, settings.cache)),
        ("storage", group.storage or settings.kv.name),
    )
    return f"{size}; one of the layers, a vector of vectorElements whole on every rank", inputs


def _state(group: LayerGroup, settings: Settings) -> tuple[str, Inputs]:
    """The tensors of a state, each with a number where there are several."""
    cache, terms = settings.cache, []
    inputs: Inputs = (("layerKind", group.kind.value), ("layers", group.layers))
    for number, part in enumerate(group.state, start=1):
        mark = str(number) if len(group.state) > 1 else ""
        names = [f"{name}{mark}" for name in ("shares", "elements", "elementBytes")]
        elements = part.elements + cache.drafts * part.elements_per_draft
        shares = device_kv_heads(part.shares, cache.tensor_parallel)
        values = (shares, elements, state_bits_milli(part, cache) // 8_000)
        terms.append(" x ".join(names))
        inputs += tuple(zip(names, values, strict=True))
    formula = f"{' + '.join(terms)}; one of the layers, shares of one rank"
    if settings.state_page:
        formula += ", padded to paddedTo"
        inputs += (("paddedTo", settings.state_page),)
    return formula, inputs


def block_step(
    groups: Sequence[CacheGroup], tables: Sequence[Table], stage: Stage, source: str
) -> Step:
    """One block of the pool: the largest block table decides.

    Args:
        groups: the block tables of the stage.
        tables: the layers behind each, of the whole model.
        stage: the pipeline stage.
        source: where the rule is from.
    """
    value = max(group.bytes_per_block for group in groups)
    if len(groups) == len(tables[0]) == 1:
        layers = groups[0].layers
        inputs: Inputs = (("layers", layers), ("pageBytes", value // layers))
        return Step("bytesPerBlock", value, "bytes", "layers x pageBytes", inputs, source)
    held = [
        _members(table, stage) if len(table) > 1 else ((group.layers, group.bytes_per_block),)
        for group, table in zip(groups, tables, strict=True)
    ]
    formula, inputs = _largest(held, "pageBytes" if len(groups) == 1 else "equalPageBytes")
    if len(groups) > 1:
        formula += "; the largest block table of the stage, pages made equal"
        inputs += (("tables", _described(groups)),)
    return Step("bytesPerBlock", value, "bytes", formula, inputs, source)


def _members(table: Table, stage: Stage) -> tuple[tuple[int, int], ...]:
    """Layers on the stage, and their bytes, of each member of a table."""
    last = MOST_PLACES if stage.is_last else stage.last
    counts = [layers_within(cache, stage.first, last) for cache in table]
    return tuple(
        (count, count * cache.page_bytes) for count, cache in zip(counts, table, strict=True)
    )


def _largest(held: Sequence[tuple[tuple[int, int], ...]], page: str) -> tuple[str, Inputs]:
    """The largest of sums over the members of tables; tables that are alike are named once."""
    different = [
        members for table in dict.fromkeys(held) if (members := [one for one in table if one[0]])
    ]
    alone = sum(map(len, different)) == 1
    inputs: list[tuple[str, Scalar]] = []
    sums = []
    for table in different:
        terms = []
        for layers, size in table:
            mark = "" if alone else str(len(inputs) // 2 + 1)
            terms.append(f"layers{mark} x {page}{mark}")
            inputs += [(f"layers{mark}", layers), (f"{page}{mark}", size // layers)]
        sums.append(" + ".join(terms))
    return sums[0] if len(sums) == 1 else f"max({', '.join(sums)})", tuple(inputs)


def _described(groups: Sequence[CacheGroup]) -> str:
    """The tables by the kinds of their layers: 5 of SlidingWindow, 1 of FullAttention."""
    counts: dict[str, int] = {}
    for group in groups:
        kinds = " and ".join(kind for kind, _ in group.kinds) if group.kinds else group.kind
        counts[kinds] = counts.get(kinds, 0) + 1
    return ", ".join([f"{count} of {kinds}" for kinds, count in counts.items()])


def token_step(settings: Settings, tensor_parallel: int) -> Step:
    """What one more token of a long sequence adds; see `engines.layer_rules.bytes_per_token`."""
    kept = [
        (group.layers, token_bytes(group, settings.cache))
        for group in settings.shape.layer_groups
        if keeps_every_token(group)
    ]
    inputs: Inputs
    if len(kept) == 1:
        ((layers, each),) = kept
        value, formula = layers * each, "layers x layerBytes"
        inputs = (("layers", layers), ("layerBytes", each))
    else:
        value = sum(layers * each for layers, each in kept)
        numbers = range(1, len(kept) + 1)
        formula = " + ".join(f"layers{n} x layerBytes{n}" for n in numbers) or "0"
        inputs = tuple(
            one
            for n, (layers, each) in zip(numbers, kept, strict=True)
            for one in ((f"layers{n}", layers), (f"layerBytes{n}", each))
        )
    return Step(
        "bytesPerToken",
        value,
        "bytes",
        formula + "; what one more token of a long sequence adds: its share of pageBytes in the "
        "layers that keep every token, on one of tensorParallel ranks",
        (*inputs, ("kvCacheDtype", settings.kv.name), ("tensorParallel", tensor_parallel)),
    )
