"""Engines as they could be started instead: what `levers` judges."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.devices.compute_capability import NATIVE_FP8, capability_of
from kvscale.core.devices.device import Device
from kvscale.core.devices.table import CARDS
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.dtypes import canonical
from kvscale.core.model.shape import LayerKind, ModelShape
from kvscale.core.refusal import Refusal

DEGREES = (2, 4, 8)
MOST_TENSOR = 8
"""Devices of one node. Tensor parallelism across nodes pays for bytes that no step time counts."""

UTILIZATION_MILLI = 950
"""The highest share that leaves the CUDA runtime and other processes something."""

BATCHED_TOKENS = 2048
"""Token budget of a step at which prompts still fill a device's arithmetic."""

MOST_SEQUENCES = 1024
LENGTH_STEP = 1024
SHORTER = 2
"""The maximum length is worth lowering when requests stay below half of it."""

DEVICE = "device"
"""The group of candidates that are other devices."""

_FLAGS = {
    "vLLM": {
        "kv": "--kv-cache-dtype fp8",
        "length": "--max-model-len",
        "sequences": "--max-num-seqs",
        "batch": "--max-num-batched-tokens",
        "tensor": "--tensor-parallel-size",
    },
    "SGLang": {
        "kv": "--kv-cache-dtype fp8_e4m3",
        "length": "--context-length",
        "sequences": "--max-running-requests",
        "batch": "--chunked-prefill-size",
        "tensor": "--tensor-parallel-size",
    },
    "TensorRT-LLM": {
        "kv": "kv_cache_config.dtype: fp8",
        "length": "--max_seq_len",
        "sequences": "--max_batch_size",
        "batch": "--max_num_tokens",
        "tensor": "--tp_size",
    },
}
"""What each engine calls a setting (core/engines, arguments of each)."""

_NEW_QUALITY = "changes numerics: check the answers"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine as it could be started.

    Attributes:
        name: a few words, for a table.
        change: what to set, in full.
        caveat: what else it changes; "" if nothing.
        engine, device: after the change.
        group: alternatives to each other share it.
    """

    name: str
    change: str
    caveat: str
    engine: EngineConfig
    device: Device
    group: str = ""


def candidates(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    capacity: EngineCapacity,
    longest_tokens: int | None,
) -> Iterator[Candidate]:
    """Every change worth a look; whether it does anything is for the caller to find out.

    Args:
        shape: the model.
        engine: as it is started.
        device: one of its devices.
        capacity: of that engine.
        longest_tokens: what one request in a thousand exceeds; None: not known.
    """
    yield from _formats(shape, engine, device)
    yield from _settings(engine, device, capacity, longest_tokens)
    yield from _parallelism(shape, engine, device)
    yield from _devices(engine, device)


def _formats(shape: ModelShape, engine: EngineConfig, device: Device) -> Iterator[Candidate]:
    if not has_fp8(device):
        return
    flags = _FLAGS[engine.kind]
    stored = shape.kv_cache_dtype if engine.kv_cache_dtype == "auto" else engine.kv_cache_dtype
    if canonical(stored) in {"bfloat16", "float16", "float32"}:
        yield Candidate(
            "KV cache in fp8",
            flags["kv"],
            _NEW_QUALITY,
            replace(engine, kv_cache_dtype=flags["kv"].split()[-1]),
            device,
            "kv",
        )
    # TensorRT-LLM reads quantised checkpoints; it makes none while loading.
    loads = engine.kind in {"vLLM", "SGLang"}
    if loads and not shape.quantization and not engine.quantization:
        yield Candidate(
            "weights in fp8",
            "--quantization fp8",
            _NEW_QUALITY,
            replace(engine, quantization="fp8"),
            device,
            "weights",
        )


def has_fp8(device: Device) -> bool:
    """Whether the device computes in fp8."""
    text = device.compute_capability
    if text.startswith("gfx"):
        return text in {"gfx942", "gfx950"}
    known = capability_of(text)
    return known is not None and known >= NATIVE_FP8


def _settings(
    engine: EngineConfig, device: Device, capacity: EngineCapacity, longest_tokens: int | None
) -> Iterator[Candidate]:
    flags = _FLAGS[engine.kind]
    if engine.kv_cache_memory_bytes is None and engine.num_gpu_blocks_override is None:
        # vLLM's default is below this in every version; the others' shares are of something else.
        stated = engine.memory_utilization_milli or 0
        if engine.kind is EngineKind.VLLM and stated < UTILIZATION_MILLI:
            share = UTILIZATION_MILLI / 1000
            yield Candidate(
                f"memory share {share}",
                f"--gpu-memory-utilization {share}",
                "leaves less for other processes on the device",
                replace(engine, memory_utilization_milli=UTILIZATION_MILLI),
                device,
                "utilization",
            )
        # vLLM refuses a budget below one token for each sequence of the batch.
        least = capacity.max_num_seqs if engine.kind is EngineKind.VLLM else 0
        fewer = max(BATCHED_TOKENS, least)
        if capacity.max_num_batched_tokens > fewer:
            yield Candidate(
                f"steps of {fewer:,} tokens",
                f"{flags['batch']} {fewer}",
                "long prompts take more steps",
                replace(engine, max_num_batched_tokens=fewer),
                device,
                "batch",
            )
    if longest_tokens is not None and longest_tokens * SHORTER <= capacity.max_model_len:
        length = -(-longest_tokens // LENGTH_STEP) * LENGTH_STEP
        yield Candidate(
            f"length up to {length:,}",
            f"{flags['length']} {length}",
            "refuses one request in a thousand, if the traffic is as declared",
            replace(engine, max_model_len=length),
            device,
            "length",
        )
    if capacity.max_num_seqs < min(MOST_SEQUENCES, capacity.max_num_batched_tokens):
        most = min(MOST_SEQUENCES, 2 * capacity.max_num_seqs, capacity.max_num_batched_tokens)
        yield Candidate(
            f"batch of {most:,}",
            f"{flags['sequences']} {most}",
            "a larger batch takes longer for each token",
            replace(engine, max_num_seqs=most),
            device,
            "sequences",
        )


def _parallelism(shape: ModelShape, engine: EngineConfig, device: Device) -> Iterator[Candidate]:
    for factor in DEGREES:
        wider = engine.tensor_parallel * factor
        if wider > MOST_TENSOR:
            break
        yield Candidate(
            f"tensor parallel {wider}",
            f"{_FLAGS[engine.kind]['tensor']} {wider}",
            f"an engine takes {engine.pipeline_parallel * wider} devices",
            replace(engine, tensor_parallel=wider),
            device,
            "parallel",
        )
    latent = any(group.kind is LayerKind.MLA for group in shape.layer_groups)
    ranks = engine.tensor_parallel
    if latent and ranks > 1 and engine.kind is EngineKind.VLLM:
        data = engine.data_parallel * ranks
        yield Candidate(
            f"data parallel {data}, tensor 1",
            f"--tensor-parallel-size 1 --data-parallel-size {data} --enable-expert-parallel",
            "each device holds its own sequences, and attention weights whole",
            replace(engine, tensor_parallel=1, data_parallel=data, expert_parallel=True),
            device,
            "parallel",
        )


def _devices(engine: EngineConfig, device: Device) -> Iterator[Candidate]:
    for card in CARDS:
        other = card.device()
        # Engines run on one vendor's devices: another vendor's is another build of the server.
        same = other if isinstance(other, Refusal) else _vendor(other) == _vendor(device)
        if isinstance(other, Refusal) or not same or other.product == device.product:
            continue
        count = engine.devices * engine.data_parallel
        yield Candidate(
            f"{count} x {other.product}",
            f"{count} x {other.product} for {count} x {device.product}",
            "",
            engine,
            other,
            DEVICE,
        )


def _vendor(device: Device) -> str:
    return "amd" if device.compute_capability.startswith("gfx") else "nvidia"
