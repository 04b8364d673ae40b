"""What `kvscale capacity` says of an engine: one document for scripts, one page for people.

The document's keys are a contract. Plain numbers are the expected values; `bands` holds the same
as low, expected and high (equal where the KV memory is given exactly). All of it is per engine but
`replica`, which is the sum of the engines of one pod; bytes are per device.
"""

from dataclasses import dataclass
from typing import Any

from kvscale.core.capacity.boot_settings import as_started
from kvscale.core.capacity.calibrated import calibrated_capacity
from kvscale.core.capacity.calibration import calibrate
from kvscale.core.capacity.ceiling import CacheGroup, EngineCapacity, Refusal
from kvscale.core.capacity.devices.device import Device
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.planning import (
    LengthCeiling,
    length_ceilings,
    round_lengths,
)
from kvscale.core.engines.boot_log import BootLog
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import LayerKind, ModelShape
from kvscale.core.trace import Trace
from kvscale.core.values import Band

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CapacityView:
    """An engine's capacity with what explains it, or the refusal.

    Attributes:
        engine, device: what was asked about.
        capacity: of one engine.
        sequences: the ceiling at round lengths and at the maximum length.
        model: name of the shape; "" where it cannot be read.
    """

    engine: EngineConfig
    device: Device
    capacity: EngineCapacity | Refusal
    sequences: tuple[LengthCeiling, ...] = ()
    model: str = ""

    @property
    def engines(self) -> int:
        """Engines of one replica, each with a KV pool of its own."""
        return self.engine.data_parallel


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
        return CapacityView(engine, device, shape)
    if isinstance(boot, BootLog):
        engine = as_started(engine, boot, shape)
    if boot is None:
        capacity = engine_capacity(shape, engine, device, kv_memory_bytes)
    else:
        capacity = _by_boot(shape, engine, device, boot)
    if isinstance(capacity, Refusal):
        return CapacityView(engine, device, capacity, model=shape.name)
    lengths = round_lengths(capacity.max_model_len)
    found = length_ceilings(capacity, lengths, engine.data_parallel)
    return CapacityView(engine, device, capacity, found, shape.name)


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
    "model",
    "engine",
    "devices",
    "weightBytesPerDevice",
    "kvMemoryBytes",
    "layerGroups",
    "bytesPerBlock",
    "kvBlocks",
    "usableBlocks",
    "kvCacheSizeTokens",
    "maxConcurrency",
    "maxModelLen",
    "maxNumSeqs",
    "sequences",
    "replica",
    "bands",
    "assumptions",
    "refusal",
    "trace",
)


def capacity_document(view: CapacityView) -> Document:
    """The view for a script: every key is always there, null where there is no number."""
    capacity = view.capacity
    if isinstance(capacity, Refusal):
        document = {**dict.fromkeys(KEYS), **_subject_document(view)}
        return {**document, "refusal": refusal_document(capacity)}
    usable, concurrency = capacity.usable_blocks, capacity.max_concurrency_milli
    return {
        **_subject_document(view),
        "weightBytesPerDevice": capacity.weight_bytes_per_device,
        "kvMemoryBytes": band_document(capacity.kv_memory_bytes),
        "layerGroups": [
            {
                "kind": group.kind.value,
                "kinds": {kind.value: layers for kind, layers in kinds_of(group)},
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
        "maxModelLen": capacity.max_model_len,
        "maxNumSeqs": capacity.max_num_seqs,
        "sequences": {one.name: one.per_engine.expected for one in view.sequences},
        "replica": {
            "engines": view.engines,
            "devices": view.engine.devices * view.engines,
            "kvCacheSizeTokens": capacity.kv_cache_size_tokens.expected * view.engines,
            "sequences": {one.name: one.per_replica.expected for one in view.sequences},
            "running": {one.name: runs(one, capacity) * view.engines for one in view.sequences},
        },
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


def _subject_document(view: CapacityView) -> Document:
    """What was asked about."""
    engine, device = view.engine, view.device
    return {
        "model": view.model or None,
        "engine": {
            "kind": engine.kind.value,
            "version": engine.version,
            "tensorParallel": engine.tensor_parallel,
            "pipelineParallel": engine.pipeline_parallel,
            "dataParallel": engine.data_parallel,
            "kvCacheDtype": engine.kv_cache_dtype,
        },
        "devices": {
            "product": device.product,
            "memoryBytes": device.memory_bytes,
            "perEngine": engine.devices,
            "perReplica": engine.devices * engine.data_parallel,
        },
    }


def runs(ceiling: LengthCeiling, capacity: EngineCapacity) -> int:
    """Sequences of that length that one engine holds and runs at once, expected."""
    return min(ceiling.per_engine.expected, capacity.max_num_seqs)


def kinds_of(group: CacheGroup) -> tuple[tuple[LayerKind, int], ...]:
    """Layers of a block table by kind."""
    return group.kinds or ((group.kind, group.layers),)


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
