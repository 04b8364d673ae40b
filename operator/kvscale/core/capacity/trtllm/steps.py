"""The trace of a TensorRT-LLM capacity, and the room of one rank."""

from dataclasses import dataclass

from kvscale.core.capacity.placement import Stage
from kvscale.core.capacity.trtllm.settings import TrtSettings
from kvscale.core.devices.device import Device
from kvscale.core.model.shape import LayerGroup
from kvscale.core.trace import Step, Trace
from kvscale.core.values import Band

_SOURCE = "tensorrt_llm _torch/pyexecutor/_util.py, main of 2026"


@dataclass(frozen=True, slots=True)
class TrtRoom:
    """One rank of a stage: its weights, its memory, and what a longest sequence costs."""

    stage: Stage
    weight_bytes: int
    memory: Band
    groups: tuple[tuple[LayerGroup, int, int | None], ...]
    peak: Band

    def token_bytes(self) -> int:
        """Bytes of one token in the layers that keep every token."""
        return sum(size for _, size, window in self.groups if window is None)

    def sequence_bytes(self, length: int) -> int:
        """Bytes of one sequence of that length in all pools."""
        return sum(
            size * (length if window is None else min(length, window))
            for _, size, window in self.groups
        )


def trace(
    settings: TrtSettings, device: Device, room: TrtRoom, blocks: Band, *, exact: bool
) -> Trace:
    """From the device's memory to tokens."""
    block, memory = settings.block_tokens, room.memory
    peak = Step(
        "peakBesideWeightsBytes",
        room.peak.expected,
        "bytes",
        "contexts and buffers + maxNumTokens x (4 x hidden + feedForward / tp) x element",
        (("maxNumTokens", settings.step_tokens), ("low", room.peak.low), ("high", room.peak.high)),
        "assumed: core/engines/trtllm/rules.py",
    )
    estimated = "(cudaTotalBytes - weightBytesPerDevice - peakBesideWeightsBytes) x fraction"
    cap, most = settings.options.max_gpu_total_bytes, settings.options.max_tokens
    longest = room.sequence_bytes(settings.max_model_len)
    return (
        Step(
            "weightBytesPerDevice", room.weight_bytes, "bytes",
            "sum of parameters x bits / 8 / ranks that share them, over the parts of the model",
        ),
        Step(
            "cudaTotalBytes", device.memory_bytes, "bytes",
            "total memory of the device, as the CUDA runtime reports it",
            (("product", device.product),), device.evidence,
        ),
        *(() if exact else (peak,)),
        Step(
            "kvMemoryBytes", memory.expected, "bytes",
            ("as given; no estimate" if exact else estimated)
            + (", at most max_gpu_total_bytes" if cap else ""),
            (
                *((("maxGpuTotalBytes", cap),) if cap else ()),
                ("freeGpuMemoryFraction", settings.fraction_milli / 1000),
                ("low", memory.low), ("high", memory.high),
            ),
            _SOURCE,
        ),
        Step(
            "bytesPerToken", room.token_bytes(), "bytes",
            "sum over the layers that keep every token", (("kvCacheDtype", settings.kv.name),),
            "tensorrt_llm _torch/pyexecutor/resource_manager.py get_cache_size_per_token",
        ),
        Step(
            "kvBlocks", blocks.expected, "blocks",
            "kvMemoryBytes / bytes of one longest sequence x its blocks"
            + ("" if most is None else ", at most max_tokens"),
            (
                ("kvMemoryBytes", memory.expected), ("longestSequenceBytes", longest),
                *(() if most is None else (("maxTokens", most),)),
                ("blockTokens", block), ("low", blocks.low), ("high", blocks.high),
            ),
            _SOURCE,
        ),
        Step(
            "kvCacheSizeTokens", blocks.expected * block, "tokens", "kvBlocks x blockTokens",
            (("engineVersion", settings.rules.label),), _SOURCE,
        ),
    )  # fmt: skip
