"""`status.ceiling` and `status.reported`: what one engine holds, computed and by its own word."""

from typing import Annotated

from pydantic import Field

from kvscale.api.rules import ApiModel
from kvscale.api.status_types import BandModel, Int64, Sentences, Word, first
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.decide.decision import Decision
from kvscale.core.planning.ceilings import PERCENTILES
from kvscale.core.snapshot import PoolSnapshot
from kvscale.core.traffic.declared import Traffic
from kvscale.core.traffic.lengths import whole
from kvscale.core.traffic.profile import profile
from kvscale.core.values import Band, Known, Unknown


class SequencesModel(ApiModel):
    """Resident sequences of one length that one engine holds."""

    length: Word
    """Which length: mean, p50, p90, p95, p99 or max."""
    tokens: Int64
    """That length in tokens, prompt and output."""
    sequences: BandModel
    """Sequences of that length that are resident at once."""


class CeilingModel(ApiModel):
    """What one engine holds. Bytes are per device."""

    devices: Int64
    """Devices of one engine."""
    block_tokens: Int64
    """Tokens of one KV block."""
    bytes_per_block: Int64
    """Bytes of one KV block on one device."""
    weight_bytes_per_device: Int64
    """Bytes of weights on the fullest device."""
    kv_memory_bytes: BandModel
    """Bytes of KV memory on one device."""
    kv_blocks: BandModel
    """KV blocks of the engine, as it prints them."""
    usable_blocks: BandModel
    """KV blocks that sequences can be given; occupancy is counted in these."""
    kv_cache_tokens: BandModel
    """Tokens of the whole cache, as the engine prints them."""
    max_concurrency_milli: BandModel
    """Sequences of maxModelLen tokens, in thousandths, as the engine prints them."""
    max_model_len: Int64
    """Longest sequence in tokens."""
    max_num_seqs: Int64
    """Largest running batch in sequences."""
    max_num_batched_tokens: Int64
    """Token budget of one step."""
    sequences: Annotated[
        tuple[SequencesModel, ...],
        Field(
            max_length=8,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["length"],
            },
        ),
        first(8),
    ] = ()
    """Resident sequences by length."""
    assumptions: Sentences = ()
    """What was assumed where nothing was stated."""


class ReportedModel(ApiModel):
    """What the ready engines report of themselves, those of the newest revision alone."""

    engines: Int64
    """Engines that report."""
    fewest_blocks: Int64
    """KV blocks of the engine with fewest; it replaces the computed number."""
    most_blocks: Int64
    """KV blocks of the engine with most."""
    ratio_milli: Int64 | None = None
    """fewestBlocks / ceiling.kvBlocks.expected in thousandths; 1000 when they agree. Absent: no
    ceiling is computed."""


def ceiling_of(decision: Decision, traffic: Traffic | None) -> CeilingModel | None:
    """The ceiling in numbers; None where it is not known (condition CapacityKnown says why)."""
    capacity = decision.capacity
    if not isinstance(capacity, EngineCapacity):
        return None
    return CeilingModel(
        devices=capacity.devices,
        block_tokens=capacity.block_tokens,
        bytes_per_block=capacity.bytes_per_block,
        weight_bytes_per_device=capacity.weight_bytes_per_device,
        kv_memory_bytes=BandModel.of(capacity.kv_memory_bytes),
        kv_blocks=BandModel.of(capacity.kv_blocks),
        usable_blocks=BandModel.of(capacity.usable_blocks),
        kv_cache_tokens=BandModel.of(capacity.kv_cache_size_tokens),
        max_concurrency_milli=BandModel.of(capacity.max_concurrency_milli),
        max_model_len=capacity.max_model_len,
        max_num_seqs=capacity.max_num_seqs,
        max_num_batched_tokens=capacity.max_num_batched_tokens,
        sequences=tuple(
            _sequences(capacity, name, tokens)
            for name, tokens in _lengths(traffic, capacity.max_model_len)
        ),
        assumptions=capacity.assumptions,
    )


def _lengths(traffic: Traffic | None, longest: int) -> tuple[tuple[str, int], ...]:
    """Lengths of prompt + output that the ceiling is stated at: the declared ones, the longest."""
    found = profile(traffic, longest)
    if isinstance(found, Unknown):
        return (("max", longest),)
    declared = found.total
    return (
        ("mean", whole(declared.mean())),
        *((f"p{percent}", declared.tokens(percent)) for percent in PERCENTILES),
        ("max", longest),
    )


def _sequences(capacity: EngineCapacity, name: str, tokens: int) -> SequencesModel:
    blocks = max(1, capacity.blocks_for(tokens))
    usable = capacity.usable_blocks
    held = Band(usable.low // blocks, usable.expected // blocks, usable.high // blocks)
    return SequencesModel(length=name, tokens=tokens, sequences=BandModel.of(held))


def reported_of(decision: Decision, pool: PoolSnapshot) -> ReportedModel | None:
    """What the ready engines of the newest revision report; None where none does."""
    revision = "" if isinstance(pool.target, Unknown) else pool.target.template_hash
    blocks = [
        sample.kv_blocks
        for pod in pool.pods
        if pod.ready and isinstance(pod.metrics, Known) and revision in ("", pod.template_hash)
        for sample in pod.metrics.value
        if sample.kv_blocks is not None
    ]
    if not blocks:
        return None
    capacity = decision.capacity
    computed = capacity.kv_blocks.expected if isinstance(capacity, EngineCapacity) else 0
    fewest = min(blocks)
    return ReportedModel(
        engines=len(blocks),
        fewest_blocks=fewest,
        most_blocks=max(blocks),
        ratio_milli=round(1000 * fewest / computed) if computed else None,
    )
