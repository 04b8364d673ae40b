"""How many blocks one sequence takes, as the formula of a step.

It says what `EngineCapacity.blocks_for` computes, over its block tables or over its pools.
"""

from collections import Counter
from collections.abc import Sequence

from kvscale.core.capacity.ceiling import CacheGroup
from kvscale.core.capacity.pools import Pool
from kvscale.core.model.shape import LayerKind
from kvscale.core.trace import Inputs


class _Names:
    """Names of inputs: one for each value, the second of a kind with a 2 behind it."""

    def __init__(self, block_tokens: int) -> None:
        # The bare name is the engine's own block, whichever table comes first.
        self._kinds: dict[str, list[int]] = {"blockTokens": [block_tokens]}
        self._named: dict[str, int] = {}

    def name(self, kind: str, value: int) -> str:
        """The name of that value."""
        seen = self._kinds.setdefault(kind, [])
        if value not in seen:
            seen.append(value)
        number = seen.index(value) + 1
        name = kind if number == 1 else f"{kind}{number}"
        self._named[name] = value
        return name

    @property
    def inputs(self) -> Inputs:
        """Every value that was named."""
        return tuple(self._named.items())


def table_formula(
    groups: Sequence[CacheGroup], tokens: str, block_tokens: int, in_flight: int | None = None
) -> tuple[str, Inputs]:
    """Blocks of one sequence over all block tables, and the inputs of that formula.

    Args:
        groups: the tables; at least one.
        tokens: name of the sequence's length, which is an input beside those returned.
        block_tokens: tokens of the engine's own block; a table may have another.
        in_flight: what windows hold besides themselves, where the formula is to tell it.
    """
    if len(groups) == 1 and _plain(groups[0], block_tokens):
        return f"ceil({tokens} / blockTokens)", (("blockTokens", block_tokens),)
    names = _Names(block_tokens)
    if len(groups) == 1:
        return _table(groups[0], tokens, in_flight, names), names.inputs
    terms = Counter(_table(group, tokens, in_flight, names) for group in groups)
    told = " + ".join(
        term if count == 1 else f"{count} x ({term})" if " + " in term else f"{count} x {term}"
        for term, count in terms.items()
    )
    return f"{told}; {len(groups)} block tables", names.inputs


def _plain(group: CacheGroup, block_tokens: int) -> bool:
    """Whether it keeps every token in the engine's own blocks, as most models do."""
    return (
        group.fixed_blocks is None
        and group.admitted_tokens is None
        and group.ways == 1
        and group.block_tokens == block_tokens
        and not group.extra_blocks
    )


def _table(group: CacheGroup, tokens: str, in_flight: int | None, names: _Names) -> str:
    if group.fixed_blocks is not None:
        kind = "encoderBlocks" if group.kind is LayerKind.CROSS_ATTENTION else "stateBlocks"
        return names.name(kind, group.fixed_blocks)
    kept, most = tokens, group.admitted_tokens
    if most is not None and in_flight is None:
        kept = f"min({tokens}, {names.name('admittedTokens', most)})"
    elif most is not None and in_flight is not None:
        edge = 0 if group.kind is LayerKind.CHUNKED_LOCAL else 1
        window = names.name("window", most - in_flight + edge) + (" - 1" if edge else "")
        kept = f"min({tokens}, {window} + {names.name('tokensInFlight', in_flight)})"
    if group.ways > 1:
        kept += f" / {names.name('decodeContextParallel', group.ways)}"
    blocks = f"ceil({kept} / {names.name('blockTokens', group.block_tokens)})"
    return blocks + (f" + {group.extra_blocks}" if group.extra_blocks else "")


def pool_formula(pools: Sequence[Pool], block_tokens: int, tokens: str) -> tuple[str, Inputs]:
    """The same over pools, of which the scarcest decides."""
    names = _Names(block_tokens)
    shares = [_share(pool, tokens, names) for pool in pools]
    most = shares[0] if len(shares) == 1 else f"max({', '.join(shares)})"
    return f"ceil({most} / {names.name('blockTokens', block_tokens)})", names.inputs


def _share(pool: Pool, tokens: str, names: _Names) -> str:
    held = tokens
    if pool.fixed:
        held = names.name(f"{pool.name}SlotsPerSequence", pool.fixed)
    elif pool.most is not None:
        held = f"min({tokens}, {names.name(f'{pool.name}KeptTokens', pool.most)})"
    if pool.size == pool.counted_tokens:
        return held
    unit = "Slots" if pool.fixed else "Tokens"
    size = names.name(f"{pool.name}Pool{unit}", max(1, pool.size))
    return f"ceil({held} x {names.name('kvCacheSizeTokens', pool.counted_tokens)} / {size})"


def blocks_formula(
    pools: Sequence[Pool], groups: Sequence[CacheGroup], block_tokens: int, tokens: str
) -> tuple[str, Inputs]:
    """The formula of `EngineCapacity.blocks_for`, whatever the engine."""
    if pools:
        return pool_formula(pools, block_tokens, tokens)
    if groups:
        return table_formula(groups, tokens, block_tokens)
    return f"ceil({tokens} / blockTokens)", (("blockTokens", block_tokens),)
