"""The capacity of an engine by the start of another one of the same build."""

from dataclasses import replace

from kvscale.core.capacity.calibration import FIELD, Calibration
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.vllm.budget import expected_overhead
from kvscale.core.capacity.vllm.settings import resolve
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.vllm.memory import Overhead
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.trace import Step
from kvscale.core.values import GIB, Band


def calibrated_capacity(
    shape: ModelShape, engine: EngineConfig, device: Device, calibration: Calibration
) -> EngineCapacity | Refusal:
    """What one engine holds, where a start of its build is known.

    Args:
        shape: the model.
        engine: as it is started. With `--kv-cache-memory-bytes` nothing is left to calibrate.
        device: one of its devices.
        calibration: of that build.
    """
    if engine.kv_cache_memory_bytes is not None:
        return engine_capacity(shape, engine, device)
    memory = kv_memory(shape, engine, device, calibration)
    if isinstance(memory, Refusal):
        return memory
    if memory.expected <= 0:
        return Refusal(
            "ModelDoesNotFit",
            "--gpu-memory-utilization",
            f"{FIELD}: {-memory.expected / GIB:.2f} GiB per device are missing before there is "
            "any KV; raise --gpu-memory-utilization",
        )
    parts: list[EngineCapacity] = []
    for one in (memory.expected, memory.low, memory.high):
        found = engine_capacity(shape, engine, device, max(1, one))
        if isinstance(found, Refusal):
            if not parts:
                return found
            found = parts[0]
        parts.append(found)
    return _joined(parts, _step(memory, calibration, engine), calibration.assumptions)


def kv_memory(
    shape: ModelShape, engine: EngineConfig, device: Device, calibration: Calibration
) -> Band | Refusal:
    """KV memory per device, as far as the log's rounding and a change of the batch leave it open.

    It may be negative, where nothing is left. A memory fraction that is not stated is the start's.
    """
    settings = resolve(shape, engine, device) if engine.kind is EngineKind.VLLM else None
    if isinstance(settings, Refusal):
        return settings
    utilization = engine.memory_utilization_milli or calibration.utilization_milli
    change = Band.point(0)
    if settings is not None:
        change = _change(shape, engine, device, calibration)
    step = utilization - calibration.utilization_milli
    share, kv = calibration.share, calibration.kv
    ends = sorted((share.low * step // 1000, share.high * step // 1000))
    return Band(
        kv.low + ends[0] - change.high,
        kv.expected + share.expected * step // 1000 - change.expected,
        kv.high + ends[1] - change.low,
    )


def _change(
    shape: ModelShape, engine: EngineConfig, device: Device, calibration: Calibration
) -> Band:
    """What the overhead grows by where the batch, the graphs or the version are others.

    Half of a computed change is left open, and a quarter of what the two bands differ by. Buffers
    of the runner count for what is left open alone where the version is not known to keep them.
    """
    now, then = resolve(shape, engine, device), resolve(shape, calibration.booted, device)
    if isinstance(now, Refusal) or isinstance(then, Refusal):
        return Band.point(0)
    after = expected_overhead(now, engine, device, 0)
    before = expected_overhead(then, calibration.booted, device, 0)
    change = after.total.expected - before.total.expected
    spread = abs(change) // 2 + abs(_width(after) - _width(before)) // 4
    if not (now.rules.certain and then.rules.certain):
        change -= after.buffers - before.buffers
    return Band(change - spread, change, change + spread)


def _width(taken: Overhead) -> int:
    return taken.total.high - taken.total.low


def _joined(
    parts: list[EngineCapacity], step: Step, assumptions: tuple[str, ...]
) -> EngineCapacity:
    expected, low, high = parts

    def band(name: str) -> Band:
        return Band(*(getattr(part, name).expected for part in (low, expected, high)))

    return replace(
        expected,
        kv_memory_bytes=band("kv_memory_bytes"),
        kv_blocks=band("kv_blocks"),
        kv_cache_size_tokens=band("kv_cache_size_tokens"),
        max_concurrency_milli=band("max_concurrency_milli"),
        assumptions=expected.assumptions + assumptions,
        trace=(step, *(_within(one, band("kv_blocks")) for one in expected.trace)),
    )


def _within(step: Step, blocks: Band) -> Step:
    """The step of the expected memory, whose blocks have the band of the calibration."""
    if step.name != "kvBlocks":
        return step
    ends = {"low": blocks.low, "high": blocks.high}
    inputs = tuple((name, ends.get(name, value)) for name, value in step.inputs)
    return Step(step.name, step.value, step.unit, step.formula, inputs, step.source)


def _step(memory: Band, calibration: Calibration, engine: EngineConfig) -> Step:
    logged, total = calibration.utilization_milli, calibration.share.expected
    utilization = engine.memory_utilization_milli or logged
    by_share = calibration.kv.expected + total * (utilization - logged) // 1000
    return Step(
        "calibratedKvMemoryBytes",
        memory.expected,
        "bytes",
        "loggedKvBytes + floor(totalBytes x (utilization - loggedUtilization)) - "
        "overheadChangeBytes; the start took takenBytes besides KV",
        (
            ("loggedKvBytes", calibration.kv.expected),
            ("totalBytes", total),
            ("utilization", utilization / 1000),
            ("loggedUtilization", logged / 1000),
            ("overheadChangeBytes", by_share - memory.expected),
            ("takenBytes", calibration.taken),
            ("low", memory.low),
            ("high", memory.high),
        ),
        "the engine's own log",
    )
