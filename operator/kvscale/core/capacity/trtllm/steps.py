"""The trace of a TensorRT-LLM capacity, and the room of one rank."""

from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.placement import Stage, weights_step
from kvscale.core.capacity.sequence_formula import pool_formula
from kvscale.core.capacity.trtllm.settings import TrtSettings
from kvscale.core.devices.device import Device
from kvscale.core.engines.trtllm.rules import Peak
from kvscale.core.model.shape import LayerGroup
from kvscale.core.trace import Inputs, Step, Trace
from kvscale.core.values import Band

_SOURCE = "tensorrt_llm _torch/pyexecutor/_util.py, main of 2026"


@dataclass(frozen=True, slots=True)
class TrtRoom:
    """One rank of a stage: its weights, its memory, and what a longest sequence costs.

    Attributes:
        stage: its layers.
        weights: bytes of each part of the model.
        memory: bytes for KV; may be negative.
        groups: layers alike, the bytes of one token in all of them, and the tokens that they keep
            (None: every token).
        peak: what is taken beside the weights.
        given: the KV memory in bytes where it is given; None: estimated.
    """

    stage: Stage
    weights: dict[str, int]
    memory: Band
    groups: tuple[tuple[LayerGroup, int, int | None], ...]
    peak: Peak
    given: int | None

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parts of the model."""
        return sum(self.weights.values())

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
    settings: TrtSettings, device: Device, room: TrtRoom, blocks: Band, capacity: EngineCapacity
) -> Trace:
    """From the device's memory to tokens, and to a sequence of the engine's longest."""
    block, longest = settings.block_tokens, capacity.max_model_len
    per_sequence, parts = pool_formula(capacity.pools, block, "longestRequest")
    return (
        weights_step(room.weights),
        Step(
            "cudaTotalBytes", device.memory_bytes, "bytes",
            "total memory of the device, as the CUDA runtime reports it",
            (("product", device.product),), device.evidence,
        ),
        *(() if room.given is not None else (_peak(settings, room),)),
        _memory(settings, room),
        _token(settings, room),
        _blocks(settings, room, blocks),
        Step(
            "kvCacheSizeTokens", blocks.expected * block, "tokens", "kvBlocks x blockTokens",
            (("blockTokens", block), ("engineVersion", settings.rules.label)), _SOURCE,
        ),
        Step(
            "blocksPerSequence", max(1, capacity.blocks_for(longest)), "blocks", per_sequence,
            (("longestRequest", longest), *parts), _SOURCE,
        ),
    )  # fmt: skip


def _peak(settings: TrtSettings, room: TrtRoom) -> Step:
    peak = room.peak
    return Step(
        "peakBesideWeightsBytes",
        peak.total.expected,
        "bytes",
        "contextBytes + maxNumTokens x (4 x hidden + feedForward) x elementBytes; contexts and "
        "buffers, and a step of one rank",
        (
            ("contextBytes", peak.context_bytes),
            ("maxNumTokens", settings.step_tokens),
            ("hidden", settings.shape.hidden_size),
            ("feedForward", peak.feed_forward),
            ("elementBytes", peak.element_bytes),
            ("low", peak.total.low),
            ("high", peak.total.high),
        ),
        "assumed: core/engines/trtllm/rules.py",
    )


def _memory(settings: TrtSettings, room: TrtRoom) -> Step:
    cap, memory = settings.options.max_gpu_total_bytes, room.memory
    formula = "as given; no estimate"
    inputs: Inputs = ()
    left = "cudaTotalBytes - weightBytesPerDevice - peakBesideWeightsBytes"
    if room.given is None:
        formula = f"floor(({left}) x freeGpuMemoryFraction)"
        inputs = (("freeGpuMemoryFraction", settings.fraction_milli / 1000),)
    if cap is not None and cap > 0:
        if room.given is not None:
            formula, inputs = "givenBytes", (("givenBytes", room.given),)
        formula = f"min({formula}, maxGpuTotalBytes)"
        inputs += (("maxGpuTotalBytes", cap),)
    return Step(
        "kvMemoryBytes", memory.expected, "bytes", formula,
        (*inputs, ("low", memory.low), ("high", memory.high)), _SOURCE,
    )  # fmt: skip


def _token(settings: TrtSettings, room: TrtRoom) -> Step:
    kept = [(group.layers, size) for group, size, window in room.groups if window is None]
    inputs: Inputs = ()
    terms = []
    for number, (layers, size) in enumerate(kept, start=1):
        mark = "" if len(kept) == 1 else str(number)
        terms.append(f"layers{mark} x layerBytes{mark}")
        inputs += ((f"layers{mark}", layers), (f"layerBytes{mark}", size // layers))
    return Step(
        "bytesPerToken",
        room.token_bytes(),
        "bytes",
        f"{' + '.join(terms) or '0'}; layers that keep every token",
        (*inputs, ("kvCacheDtype", settings.kv.name)),
        "tensorrt_llm _torch/pyexecutor/resource_manager.py get_cache_size_per_token",
    )


def _blocks(settings: TrtSettings, room: TrtRoom, blocks: Band) -> Step:
    """Blocks of the pool that is counted: each pool holds as many longest sequences."""
    length, most = settings.max_model_len, settings.options.max_tokens
    inputs: Inputs = (("kvMemoryBytes", room.memory.expected), ("maxModelLen", length))
    terms = ["bytesPerToken x maxModelLen"] if room.token_bytes() else []
    windows = [(size, window) for _, size, window in room.groups if window is not None]
    for number, (size, window) in enumerate(windows, start=1):
        mark = "" if len(windows) == 1 else str(number)
        terms.append(f"windowBytes{mark} x window{mark}")
        inputs += ((f"windowBytes{mark}", size), (f"window{mark}", window))
    counted = "maxModelLen"
    if not room.token_bytes():
        counted = "widestWindow"
        inputs += (("widestWindow", max(window for _, window in windows)),)
    memory = "kvMemoryBytes" if room.memory.expected >= 0 else "max(0, kvMemoryBytes)"
    tokens = f"{memory} x {counted} // longestBytes"
    if most is not None:
        tokens = f"min({tokens}, maxTokens)"
        inputs += (("maxTokens", most),)
    return Step(
        "kvBlocks",
        blocks.expected,
        "blocks",
        f"{tokens} // blockTokens where longestBytes = {' + '.join(terms)}; of one longest "
        "sequence, of maxModelLen",
        (
            *inputs,
            ("longestBytes", room.sequence_bytes(length)),
            ("blockTokens", settings.block_tokens),
            ("low", blocks.low),
            ("high", blocks.high),
        ),
        _SOURCE,
    )
