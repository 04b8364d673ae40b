"""What `kvscale capacity` says of an engine, for scripts.

The document's keys are a contract. Plain numbers are the expected values; `bands` holds the same
as low, expected and high (equal where the KV memory is given exactly). All of it is per engine but
`replica`, which is the sum of the engines of one pod; bytes are per device.
"""

from kvscale.app.capacity import CapacityView
from kvscale.app.documents import Document, band_document, refusal_document, trace_document
from kvscale.core.refusal import Refusal

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
                "kinds": {kind.value: layers for kind, layers in group.layers_by_kind},
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
            "running": {
                one.name: one.runs(capacity.max_num_seqs) * view.engines for one in view.sequences
            },
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
