"""What `kvscale capacity` says of an engine: one document for scripts, one page for people.

The document's keys are a contract. Plain numbers are the expected values; `bands` holds the same
as low, expected and high (equal where the KV memory is given exactly). All of it is per engine,
bytes are per device.
"""

from dataclasses import dataclass
from typing import Any

from kvscale.app.tables import band, facts, notes, number, size, size_band, table, trace_lines
from kvscale.core.capacity.calibrated import calibrated_capacity
from kvscale.core.capacity.calibration import calibrate
from kvscale.core.capacity.ceiling import EngineCapacity, Refusal
from kvscale.core.capacity.devices.device import Device
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.planning import (
    LengthCeiling,
    length_ceilings,
    round_lengths,
)
from kvscale.core.engines.boot_log import BootLog
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.trace import Trace
from kvscale.core.values import Band

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CapacityView:
    """An engine's capacity with what explains it, or the refusal.

    Attributes:
        sequences: the ceiling at round lengths and at the maximum length.
    """

    capacity: EngineCapacity | Refusal
    sequences: tuple[LengthCeiling, ...] = ()


def capacity_view(
    shape: ModelShape | Refusal,
    engine: EngineConfig,
    device: Device,
    kv_memory_bytes: int | None = None,
    *,
    boot: BootLog | Refusal | None = None,
) -> CapacityView:
    """What one engine holds.

    Args:
        shape: the model, or why it cannot be read.
        engine: as it is started.
        device: one of its devices.
        kv_memory_bytes: KV memory per device where it is known; None: estimated.
        boot: a start of the same build to calibrate by, or why it cannot be read; None: none.
    """
    if isinstance(shape, Refusal):
        return CapacityView(shape)
    if boot is None:
        capacity = engine_capacity(shape, engine, device, kv_memory_bytes)
    else:
        capacity = _by_boot(shape, engine, device, boot)
    if isinstance(capacity, Refusal):
        return CapacityView(capacity)
    return CapacityView(
        capacity,
        length_ceilings(capacity, round_lengths(capacity.max_model_len)),
    )


def _by_boot(
    shape: ModelShape, engine: EngineConfig, device: Device, boot: BootLog | Refusal
) -> EngineCapacity | Refusal:
    if isinstance(boot, Refusal):
        return boot
    calibration = calibrate(boot, shape, engine, device)
    if isinstance(calibration, Refusal):
        return calibration
    return calibrated_capacity(shape, engine, device, calibration)


KEYS = (
    "weightBytesPerDevice",
    "kvMemoryBytes",
    "layerGroups",
    "bytesPerBlock",
    "kvBlocks",
    "usableBlocks",
    "kvCacheSizeTokens",
    "maxConcurrency",
    "sequences",
    "bands",
    "assumptions",
    "refusal",
    "trace",
)


def capacity_document(view: CapacityView) -> Document:
    """The view for a script: every key is always there, null where there is no number."""
    capacity = view.capacity
    if isinstance(capacity, Refusal):
        return {**dict.fromkeys(KEYS), "refusal": refusal_document(capacity)}
    usable, concurrency = capacity.usable_blocks, capacity.max_concurrency_milli
    return {
        "weightBytesPerDevice": capacity.weight_bytes_per_device,
        "kvMemoryBytes": band_document(capacity.kv_memory_bytes),
        "layerGroups": [
            {
                "kind": group.kind.value,
                "layers": group.layers,
                "blockTokens": group.block_tokens,
                "bytesPerBlock": group.bytes_per_block,
            }
            for group in capacity.groups
        ],
        "bytesPerBlock": capacity.bytes_per_block,
        "kvBlocks": capacity.kv_blocks.expected,
        "usableBlocks": usable.expected,
        "kvCacheSizeTokens": capacity.kv_cache_size_tokens.expected,
        "maxConcurrency": concurrency.expected / 1000,
        "sequences": {one.name: one.per_engine.expected for one in view.sequences},
        "bands": {
            "kvBlocks": band_document(capacity.kv_blocks),
            "usableBlocks": band_document(usable),
            "kvCacheSizeTokens": band_document(capacity.kv_cache_size_tokens),
            "maxConcurrency": {
                "low": concurrency.low / 1000,
                "expected": concurrency.expected / 1000,
                "high": concurrency.high / 1000,
            },
            "sequences": {one.name: band_document(one.per_engine) for one in view.sequences},
        },
        "assumptions": list(capacity.assumptions),
        "refusal": None,
        "trace": trace_document(capacity.trace),
    }


def capacity_page(view: CapacityView, title: str) -> list[str]:
    """The view for a person; of a refusal only its message."""
    capacity = view.capacity
    if isinstance(capacity, Refusal):
        return [capacity.message]
    lines = [title, "", *facts(capacity_facts(capacity))]
    lines += ["", "What one block consists of, on one device"]
    lines += table(
        ("layers", "count", "tokens/block", "bytes/block"),
        [
            (g.kind.value, number(g.layers), number(g.block_tokens), number(g.bytes_per_block))
            for g in capacity.groups
        ],
    )
    lines += ["", "Resident sequences of one engine, by length"]
    lines += table(
        ("tokens", "blocks", "low", "expected", "high"),
        [(number(one.tokens), number(one.blocks), *_band_cells(one)) for one in view.sequences],
        left=0,
    )
    lines += notes("Assumptions", capacity.assumptions)
    return [*lines, "", "How", *trace_lines(capacity.trace)]


def _band_cells(one: LengthCeiling) -> tuple[str, str, str]:
    each = one.per_engine
    return number(each.low), number(each.expected), number(each.high)


def capacity_facts(capacity: EngineCapacity) -> list[tuple[str, str]]:
    """The capacity's main numbers, named, for `tables.facts`."""
    concurrency = capacity.max_concurrency_milli.expected / 1000
    longest = number(capacity.max_model_len)
    return [
        ("weights per device", size(capacity.weight_bytes_per_device)),
        ("KV memory per device", size_band(capacity.kv_memory_bytes)),
        (
            "bytes per block",
            f"{number(capacity.bytes_per_block)} ({capacity.block_tokens} tokens)",
        ),
        ("KV blocks", band(capacity.kv_blocks)),
        ("KV cache size, tokens", band(capacity.kv_cache_size_tokens)),
        ("max concurrency", f"{concurrency:.2f} sequences of {longest} tokens"),
        ("largest batch", f"{number(capacity.max_num_seqs)} sequences (--max-num-seqs)"),
    ]


def band_document(value: Band) -> Document:
    """A band for a script."""
    return {"low": value.low, "expected": value.expected, "high": value.high}


def refusal_document(refusal: Refusal) -> Document:
    """A refusal for a script."""
    return {"reason": refusal.reason, "field": refusal.field, "message": refusal.message}


def trace_document(trace: Trace) -> list[Document]:
    """The steps for a script."""
    return [
        {
            "name": step.name,
            "value": step.value,
            "unit": step.unit,
            "formula": step.formula,
            "inputs": dict(step.inputs),
            "source": step.source,
        }
        for step in trace
    ]
