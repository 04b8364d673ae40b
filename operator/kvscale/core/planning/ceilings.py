"""The ceiling of an engine at the lengths that a plan looks at, and what its blocks consist of."""

from collections.abc import Iterable
from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import sequences_at
from kvscale.core.traffic.lengths import whole
from kvscale.core.traffic.profile import Profile
from kvscale.core.values import Band

PERCENTILES = (50, 90, 95, 99)
SHORTEST_ROUND = 1024


@dataclass(frozen=True, slots=True)
class LengthCeiling:
    """How many sequences of one length fit, by KV memory alone.

    Attributes:
        name: which length ("mean", "p95", "max", or the tokens themselves).
        tokens: that length.
        blocks: KV blocks of one such sequence.
        per_engine, per_replica: sequences; a replica is the sum of its engines, because a
            sequence must fit one of them.
    """

    name: str
    tokens: int
    blocks: int
    per_engine: Band
    per_replica: Band

    def runs(self, max_num_seqs: int) -> int:
        """Sequences of that length that one engine holds and runs at once, expected."""
        return min(self.per_engine.expected, max_num_seqs)


def length_ceilings(
    capacity: EngineCapacity, lengths: Iterable[tuple[str, int]], engines_per_replica: int = 1
) -> tuple[LengthCeiling, ...]:
    """The ceiling at each of the named lengths (tokens)."""
    ceilings = []
    for name, tokens in lengths:
        engine = sequences_at(capacity, tokens)
        replica = Band(
            *(n * engines_per_replica for n in (engine.low, engine.expected, engine.high))
        )
        ceilings.append(LengthCeiling(name, tokens, capacity.blocks_for(tokens), engine, replica))
    return tuple(ceilings)


def planning_lengths(requests: Profile | None, max_model_len: int) -> tuple[tuple[str, int], ...]:
    """The lengths of prompt + output that a plan looks at; without traffic only the longest."""
    longest = ("max", max_model_len)
    if requests is None:
        return (longest,)
    percentiles = tuple((f"p{p}", requests.total.tokens(p)) for p in PERCENTILES)
    return (("mean", whole(requests.total.mean())), *percentiles, longest)


def round_lengths(max_model_len: int) -> tuple[tuple[str, int], ...]:
    """Powers of two from 1,024 tokens, and the maximum length itself."""
    lengths = []
    tokens = SHORTEST_ROUND
    while tokens < max_model_len:
        lengths.append(tokens)
        tokens *= 2
    return tuple((str(length), length) for length in (*lengths, max_model_len))


def headroom(ceilings: Iterable[LengthCeiling], percentile: int) -> Band | None:
    """Sequences of a replica between its ceiling at the mean and at the planning percentile.

    None where the ceilings are not those of a traffic.
    """
    by_name = {ceiling.name: ceiling.per_replica for ceiling in ceilings}
    mean, planned = by_name.get("mean"), by_name.get(f"p{percentile}")
    if mean is None or planned is None:
        return None
    return Band(mean.low - planned.low, mean.expected - planned.expected, mean.high - planned.high)
