"""The ceiling of an engine at the lengths that a plan looks at, and what its blocks consist of."""

from collections.abc import Iterable
from dataclasses import dataclass

from kvscale.core.capacity.blocks import RULES, bytes_per_block, layers_on_stage
from kvscale.core.capacity.ceiling import EngineCapacity, Refusal
from kvscale.core.capacity.device import Device
from kvscale.core.capacity.engine import sequences_at
from kvscale.core.capacity.placement import stages
from kvscale.core.capacity.settings import resolve
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import LayerKind, ModelShape
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


@dataclass(frozen=True, slots=True)
class LayerPages:
    """What layers of one kind hold of a block, on one device of the stage with least room."""

    kind: LayerKind
    layers: int
    block_tokens: int
    bytes_per_block: int


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


def layer_pages(
    shape: ModelShape, engine: EngineConfig, device: Device, capacity: EngineCapacity
) -> tuple[LayerPages, ...]:
    """What a block consists of, by layer group; the sum is `capacity.bytes_per_block`."""
    settings = resolve(shape, engine, device)
    if isinstance(settings, Refusal):
        return ()
    block, tensor, kv = settings.block_tokens, engine.tensor_parallel, settings.kv
    for stage in stages(shape.layers, engine.pipeline_parallel):
        groups = layers_on_stage(shape.layer_groups, stage.layers, shape.layers)
        if bytes_per_block(groups, block, tensor, kv) == capacity.bytes_per_block:
            return tuple(
                LayerPages(
                    group.kind,
                    group.layers,
                    block,
                    group.layers * RULES[group.kind].page_bytes(group, block, tensor, kv),
                )
                for group in groups
            )
    return ()
