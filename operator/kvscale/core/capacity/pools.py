"""Engines with a pool for each kind of layer: the scarcest pool admits a sequence.

SGLang and TensorRT-LLM keep layers of one kind in a pool of their own. Capacity is counted in
blocks of the pool of full attention; a need of another pool is the same share of that one.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool, seen from the pool that is counted.

    Attributes:
        name: "full", "window" or "state".
        size: what it holds, in its own unit: tokens, or state slots.
        counted_tokens: what the pool that is counted holds.
        fixed: units that one sequence takes whatever its length; 0: one per token.
        most: tokens beyond which a sequence takes no more; None: it always does.
        resident: the same of a sequence that decodes; None: as `most`.
    """

    name: str
    size: int
    counted_tokens: int
    fixed: int = 0
    most: int | None = None
    resident: int | None = None

    def tokens(self, tokens: int, *, decoding: bool) -> int:
        """What a sequence of that length takes, as tokens of the pool that is counted."""
        most = self.resident if decoding and self.resident is not None else self.most
        held = self.fixed or (tokens if most is None else min(tokens, most))
        if self.size == self.counted_tokens:
            return held
        return -(-held * self.counted_tokens // max(1, self.size))


def pooled_blocks(
    pools: Iterable[Pool], block_tokens: int, tokens: int, *, decoding: bool = False
) -> int:
    """Blocks of the scarcest pool that one sequence of that many tokens takes."""
    most = max(pool.tokens(tokens, decoding=decoding) for pool in pools)
    return -(-most // block_tokens)
