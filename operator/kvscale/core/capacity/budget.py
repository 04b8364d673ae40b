"""The budget: bytes of one device that are left for KV."""

from dataclasses import dataclass

from kvscale.core.capacity.device import Device
from kvscale.core.capacity.placement import Stage, group_bytes
from kvscale.core.capacity.settings import Settings
from kvscale.core.engines.config import EngineConfig
from kvscale.core.engines.vllm_memory import overhead
from kvscale.core.trace import Step, Trace
from kvscale.core.values import Band

_SOURCE = "vllm v0.33.0 v1/worker/gpu_worker.py determine_available_memory"


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


def _weights(settings: Settings, engine: EngineConfig, stage: Stage) -> Step:
    shape = settings.shape
    parts: dict[str, int] = {}
    for group in shape.weight_groups:
        size = group_bytes(group, shape.layers, stage, engine.tensor_parallel, engine.data_parallel)
        if size:
            parts[group.name] = parts.get(group.name, 0) + size
    return Step(
        "weightBytesPerDevice",
        sum(parts.values()),
        "bytes",
        "sum of parameters x bits / 8 / ranks that share them, over the parts of the model",
        tuple(parts.items()),
        "vllm v0.32.0 model_executor/models",
    )


def kv_budget(
    settings: Settings,
    engine: EngineConfig,
    device: Device,
    stage: Stage,
    kv_memory_bytes: int | None,
) -> Budget:
    """Bytes for KV on one rank of a stage.

    Args:
        settings: resolved.
        engine: as it was started.
        device: one of its devices.
        stage: the pipeline stage.
        kv_memory_bytes: the bytes, where they are known (from `--kv-cache-memory-bytes` or a
            running engine); None: they are estimated.
    """
    weights = _weights(settings, engine, stage)
    weight_bytes = int(weights.value)
    total = Step(
        "cudaTotalBytes",
        device.memory_bytes,
        "bytes",
        "total memory of the device, as the CUDA runtime reports it",
        (("product", device.product),),
        device.evidence,
    )
    if kv_memory_bytes is not None:
        given = Step(
            "kvMemoryBytes", kv_memory_bytes, "bytes", "as given; no profiling", (), _SOURCE
        )
        return Budget(
            weight_bytes, Band.point(kv_memory_bytes), exact=True, trace=(weights, total, given)
        )
    milli = settings.memory_utilization_milli
    requested = -(-device.memory_bytes * milli // 1000)
    taken = overhead(
        settings.shape,
        settings.rules,
        engine.tensor_parallel,
        settings.max_num_batched_tokens,
        settings.max_num_seqs,
        enforce_eager=engine.enforce_eager,
    )
    cost = taken.total
    rest = requested - weight_bytes
    memory = Band(rest - cost.high, rest - cost.expected, rest - cost.low)
    trace = (
        weights,
        total,
        Step(
            "requestedBytes",
            requested,
            "bytes",
            "ceil(cudaTotalBytes x utilisation)",
            (("cudaTotalBytes", device.memory_bytes), ("gpuMemoryUtilization", milli / 1000)),
            "vllm v0.33.0 v1/worker/utils.py request_memory",
        ),
        Step(
            "activationBytes",
            taken.activation.expected,
            "bytes",
            "max(batchedTokens x (3 x hidden + feedForward / tp) x element, "
            "sequences x vocabulary x bytesPerLogit)",
            (
                ("forwardBytes", taken.forward),
                ("samplingBytes", taken.sampling),
                ("batchedTokens", settings.max_num_batched_tokens),
                ("sequences", settings.max_num_seqs),
                ("bytesPerLogit", settings.rules.sampler_bytes),
            ),
            "fitted to boot logs: core/engines/vllm_memory.py",
        ),
        Step(
            "overheadBytes",
            cost.expected,
            "bytes",
            "non-torch + activation + CUDA graphs",
            (
                ("nonTorchBytes", taken.non_torch.expected),
                ("activationBytes", taken.activation.expected),
                ("cudaGraphBytes", taken.graphs.expected),
                ("low", cost.low),
                ("high", cost.high),
            ),
            "fitted to boot logs: core/engines/vllm_memory.py",
        ),
        Step(
            "kvMemoryBytes",
            memory.expected,
            "bytes",
            "requestedBytes - weightBytesPerDevice - overheadBytes",
            (
                ("requestedBytes", requested),
                ("weightBytesPerDevice", weight_bytes),
                ("overheadBytes", cost.expected),
                ("low", memory.low),
                ("high", memory.high),
            ),
            _SOURCE,
        ),
    )
    return Budget(weight_bytes, memory, exact=False, trace=trace, assumptions=taken.assumptions)
