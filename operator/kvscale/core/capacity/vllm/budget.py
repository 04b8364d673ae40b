"""The budget: bytes of one device that are left for KV."""

from dataclasses import dataclass

from kvscale.core.capacity.placement import Stage, weight_parts, weights_step
from kvscale.core.capacity.vllm.settings import Settings
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm.graphs import Run
from kvscale.core.engines.vllm.memory import Overhead, overhead
from kvscale.core.trace import Step, Trace
from kvscale.core.values import GIB, Band

_SOURCE = "vllm v0.33.0 v1/worker/gpu_worker.py determine_available_memory"
_FITTED = "core/engines/vllm/memory.py, checked against boot logs"


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes for KV on one rank of a stage, and how they came about.

    Attributes:
        weight_bytes: of the rank.
        kv_memory: may be negative, where the weights do not fit.
        exact: the engine was given the bytes; nothing was estimated.
        trace: the steps.
        assumptions: what the estimate rests on.
    """

    weight_bytes: int
    kv_memory: Band
    exact: bool
    trace: Trace
    assumptions: tuple[str, ...] = ()


def _parts(
    settings: Settings, engine: EngineConfig, stage: Stage, *, derived: bool
) -> dict[str, int]:
    """Bytes of weights on one rank of the stage, by part of the model.

    Args:
        settings: resolved.
        engine: as it was started.
        stage: the pipeline stage.
        derived: those that the engine makes of its weights after loading (MLA's projections),
            instead of those that it loads.
    """
    return weight_parts(
        (group for group in settings.shape.weight_groups if group.derived == derived),
        settings.shape.layers,
        stage,
        engine.tensor_parallel,
        engine.data_parallel,
        whole_experts=engine.expert_parallel,
    )


def _weights(parts: dict[str, int]) -> Step:
    return weights_step(parts, "vllm v0.32.0 model_executor/models")


def requested_bytes(total: int, utilization_milli: int) -> int:
    """The engine's share of a device: the ceiling of total times utilisation, in bytes."""
    return -(-total * utilization_milli // 1000)


def kv_budget(
    settings: Settings,
    engine: EngineConfig,
    device: Device,
    stage: Stage,
    kv_memory_bytes: int | None,
    *,
    explained: bool = True,
) -> Budget:
    """Bytes for KV on one rank of a stage.

    Args:
        settings: resolved.
        engine: as it was started.
        device: one of its devices.
        stage: the pipeline stage.
        kv_memory_bytes: the bytes, where they are known (from `--kv-cache-memory-bytes` or a
            running engine); None: they are estimated.
        explained: False: without the trace.
    """
    parts = _parts(settings, engine, stage, derived=False)
    weight_bytes = sum(parts.values())
    if kv_memory_bytes is not None:
        trace = _given_steps(parts, device, kv_memory_bytes) if explained else ()
        both = weight_bytes + kv_memory_bytes
        more = (
            f"KV memory is as given: with the weights it is {both / GIB:.2f} GiB per device, of "
            f"which {device.product} has {device.memory_bytes / GIB:.2f}"
        )
        return Budget(
            weight_bytes,
            Band.point(kv_memory_bytes),
            exact=True,
            trace=trace,
            assumptions=(more,) if both > device.memory_bytes else (),
        )
    taken = expected_overhead(settings, engine, device, weight_bytes)
    cost = taken.total
    requested = requested_bytes(device.memory_bytes, settings.memory_utilization_milli)
    copies = sum(_parts(settings, engine, stage, derived=True).values())
    rest = requested - weight_bytes - copies
    memory = Band(rest - cost.high, rest - cost.expected, rest - cost.low)
    return Budget(
        weight_bytes,
        memory,
        exact=False,
        trace=(
            _weights(parts),
            _total(device),
            _requested(settings, device, requested),
            *_overhead_steps(settings, taken, cost),
            _left(requested, weight_bytes, copies, cost, memory),
        )
        if explained and memory.high > 0  # where nothing is left, the refusal says it all
        else (),
        assumptions=taken.assumptions,
    )


def _total(device: Device) -> Step:
    return Step(
        "cudaTotalBytes",
        device.memory_bytes,
        "bytes",
        "total memory of the device, as the CUDA runtime reports it",
        (("product", device.product),),
        device.evidence,
    )


def _given_steps(parts: dict[str, int], device: Device, kv_memory_bytes: int) -> Trace:
    given = Step("kvMemoryBytes", kv_memory_bytes, "bytes", "as given; no profiling", (), _SOURCE)
    return _weights(parts), _total(device), given


def _requested(settings: Settings, device: Device, requested: int) -> Step:
    return Step(
        "requestedBytes",
        requested,
        "bytes",
        "ceil(cudaTotalBytes x gpuMemoryUtilization)",
        (
            ("cudaTotalBytes", device.memory_bytes),
            ("gpuMemoryUtilization", settings.memory_utilization_milli / 1000),
        ),
        "vllm v0.33.0 v1/worker/utils.py request_memory",
    )


def _left(requested: int, weight_bytes: int, copies: int, cost: Band, memory: Band) -> Step:
    return Step(
        "kvMemoryBytes",
        memory.expected,
        "bytes",
        "requestedBytes - weightBytesPerDevice - overheadBytes"
        + (" - copiesBytes" if copies else ""),
        (
            ("requestedBytes", requested),
            ("weightBytesPerDevice", weight_bytes),
            *((("copiesBytes", copies),) if copies else ()),
            ("overheadBytes", cost.expected),
            ("low", memory.low),
            ("high", memory.high),
        ),
        _SOURCE,
    )


def expected_overhead(
    settings: Settings, engine: EngineConfig, device: Device, weight_bytes: int
) -> Overhead:
    """What the engine takes besides weights and KV on one device.

    Args:
        settings: resolved.
        engine: as it was started.
        device: one of its devices.
        weight_bytes: on that device.
    """
    run = Run(
        device,
        engine.tensor_parallel,
        settings.max_num_batched_tokens,
        settings.max_num_seqs,
        engine.enforce_eager,
        weight_bytes,
        engine.pipeline_parallel == engine.data_parallel == 1,
        engine.tensor_parallel * engine.data_parallel if engine.expert_parallel else 1,
    )
    return overhead(settings.shape, settings.rules, run)


def _overhead_steps(settings: Settings, taken: Overhead, cost: Band) -> Trace:
    peak = taken.activation
    return (
        Step(
            "activationBytes",
            peak.peak.expected,
            "bytes",
            "max(forwardBytes, samplingBytes, encoderBytes) + heldBytes where forwardBytes = "
            "batchedTokens x (3 x hidden + feedForward) x elementBytes, samplingBytes = sequences "
            "x vocabulary x bytesPerLogit + batchedTokens x hidden x elementBytes; feedForward of "
            "one rank",
            (
                ("forwardBytes", peak.forward),
                ("samplingBytes", peak.sampling),
                ("encoderBytes", peak.encoder),
                ("heldBytes", peak.held),
                ("batchedTokens", settings.max_num_batched_tokens),
                ("sequences", settings.max_num_seqs),
                ("hidden", settings.shape.hidden_size),
                ("feedForward", peak.feed_forward),
                ("elementBytes", peak.element_bytes),
                ("vocabulary", peak.vocabulary),
                ("bytesPerLogit", peak.bytes_per_logit),
                ("low", peak.peak.low),
                ("high", peak.peak.high),
            ),
            _FITTED,
        ),
        Step(
            "overheadBytes",
            cost.expected,
            "bytes",
            "nonTorchBytes + activationBytes + bufferBytes + cudaGraphBytes + repackedBytes; as "
            f"far as vLLM {settings.rules.label} counts them",
            (
                ("nonTorchBytes", taken.non_torch.expected),
                ("activationBytes", peak.peak.expected),
                ("bufferBytes", taken.buffers),
                ("cudaGraphBytes", taken.graphs.expected),
                ("repackedBytes", taken.repacked.expected),
                ("low", cost.low),
                ("high", cost.high),
            ),
            _FITTED,
        ),
    )
