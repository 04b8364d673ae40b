"""Calibration: what one start of an engine says of its other settings.

What an engine takes besides KV is the same at every utilisation and length:

    taken = total x utilisation - KV memory     (of the start that was logged)
    KV    = total x utilisation' - taken        (of other settings of the same build)

Observed: Llama-3.3-70B on 8 x H100 takes 18.66 to 18.69 GiB at utilisations of 0.25 to 0.85
(vllm_hybrid 8fa80a9, May 2026). SGLang's fraction is a share of what was free before the load; the
rest is alike.
"""

from dataclasses import dataclass, replace

from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.devices.device import Device
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.placement import stages, weight_bytes
from kvscale.core.capacity.vllm.settings import Settings, resolve
from kvscale.core.engines.boot_log import BootLog
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.shape import ModelShape
from kvscale.core.values import Band

GIB = 1 << 30
FIELD = "--calibrate"

_WEIGHTS_PERCENT = 20
"""Logged weights further off than this are of another model, format or parallelism."""

_RANKS = (
    ("tensor_parallel_size", "tensor_parallel"), ("tp_size", "tensor_parallel"),
    ("pipeline_parallel_size", "pipeline_parallel"), ("pp_size", "pipeline_parallel"),
)  # fmt: skip
_LENGTHS = ("max_model_len", "max_seq_len", "context_length")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a start tells.

    Attributes:
        booted: the settings of that start.
        share: bytes that the utilisation is a share of.
        utilization_milli: of that start.
        kv: its memory for KV per device, within the rounding of the log.
        assumptions: what was calibrated, and what it holds for.
    """

    booted: EngineConfig
    share: Band
    utilization_milli: int
    kv: Band
    assumptions: tuple[str, ...]

    @property
    def taken(self) -> int:
        """Bytes per device within the engine's share that are not for KV."""
        return self.share.expected * self.utilization_milli // 1000 - self.kv.expected


def calibrate(
    boot: BootLog, shape: ModelShape, engine: EngineConfig, device: Device
) -> Calibration | Refusal:
    """What an engine takes besides KV, from one of its starts.

    Args:
        boot: the start.
        shape: the model.
        engine: settings to be calibrated; those that the log does not state count for the start
            too.
        device: one of the devices, alike in both.

    Returns:
        The calibration, or a Refusal where the start measured nothing, or is of another engine,
        model or parallelism.
    """
    wrong = _mismatch(boot, engine)
    if wrong is not None:
        return wrong
    booted = _booted(boot, engine)
    settings = resolve(shape, booted, device) if booted.kind is EngineKind.VLLM else None
    if isinstance(settings, Refusal):
        return _refusal(f"the settings of that start are refused: {settings.message}")
    utilization = _utilization(boot, booted, settings)
    if utilization is None:
        return _refusal("that start does not state its memory fraction; add the line that does")
    kv = _kv(boot, shape, booted, device)
    if isinstance(kv, Refusal):
        return kv
    wrong = _other_weights(boot, settings, booted)
    if wrong is not None:
        return wrong
    found = Calibration(
        booted, boot.total or Band.point(device.memory_bytes), utilization, kv, ()
    )  # fmt: skip
    return replace(found, assumptions=_assumptions(boot, found))


def _utilization(boot: BootLog, booted: EngineConfig, settings: Settings | None) -> int | None:
    if boot.utilization_milli is not None:
        return boot.utilization_milli
    if settings is not None:
        return settings.memory_utilization_milli
    return booted.memory_utilization_milli


def _assumptions(boot: BootLog, found: Calibration) -> tuple[str, ...]:
    stated = "" if boot.utilization_milli is not None else ", which the log does not state"
    total = "" if boot.total is not None else "; the device's total is the table's"
    what = (
        f"calibrated by a start at a memory fraction of {found.utilization_milli / 1000:g}{stated}:"
        f" {found.taken / GIB:.2f} GiB per device are not for KV{total}"
    )
    scope = (
        "the calibration holds for the same build, model, devices and parallelism, at other memory "
        "fractions and lengths"
    )
    return what, scope


def _refusal(what: str) -> Refusal:
    return Refusal("CalibrationFailed", FIELD, f"{FIELD}: {what}")


def _mismatch(boot: BootLog, engine: EngineConfig) -> Refusal | None:
    if boot.kind is not engine.kind:
        return _refusal(f"the log is of {boot.kind}, the engine is {engine.kind}")
    if boot.kv_fixed:
        return _refusal(
            "the memory for KV was given in that start (--kv-cache-memory-bytes), so nothing was "
            "measured; start once without it"
        )
    for name, field in _RANKS:
        logged, asked = boot.number(name), getattr(engine, field)
        if logged is not None and logged != asked:
            return _refusal(f"that start has {name} {logged}, asked is {asked}; they must be equal")
    return None


def _booted(boot: BootLog, engine: EngineConfig) -> EngineConfig:
    """The settings of the start: what it prints, its defaults where it prints what differs."""
    fresh = boot.complete_arguments
    length = next((boot.number(name) for name in _LENGTHS if boot.number(name)), None)
    eager = boot.arguments.get("enforce_eager")
    return replace(
        engine,
        version=boot.version or engine.version,
        memory_utilization_milli=boot.utilization_milli
        or (None if fresh else engine.memory_utilization_milli),
        max_model_len=length or boot.length or engine.max_model_len,
        max_num_batched_tokens=boot.number("max_num_batched_tokens")
        or (None if fresh else engine.max_num_batched_tokens),
        max_num_seqs=boot.number("max_num_seqs") or (None if fresh else engine.max_num_seqs),
        kv_cache_dtype=boot.arguments.get("kv_cache_dtype", engine.kv_cache_dtype),
        enforce_eager=engine.enforce_eager if eager is None and not fresh else eager == "True",
        kv_cache_memory_bytes=None,
        num_gpu_blocks_override=None,
    )


def _kv(boot: BootLog, shape: ModelShape, booted: EngineConfig, device: Device) -> Band | Refusal:
    """KV memory of the start; the number of blocks makes it sharper where it is known."""
    overridden = boot.arguments.get("num_gpu_blocks_override", "None") != "None"
    if boot.blocks is None or overridden:
        return boot.kv or _refusal("the blocks of that start were set by hand, not measured")
    page = engine_capacity(shape, replace(booted, max_model_len=1), device, device.memory_bytes)
    if isinstance(page, Refusal):
        return boot.kv or page
    low = boot.blocks * page.bytes_per_block
    counted = Band(low, low + page.bytes_per_block // 2, low + page.bytes_per_block - 1)
    if boot.kv is None:
        return counted
    low, high = max(counted.low, boot.kv.low), min(counted.high, boot.kv.high)
    # A log of several ranks may count blocks of another one than the one that it prints GiB of.
    return Band(low, (low + high) // 2, high) if low <= high else boot.kv


def _other_weights(
    boot: BootLog, settings: Settings | None, booted: EngineConfig
) -> Refusal | None:
    if boot.weights is None or settings is None:
        return None
    shape = settings.shape
    computed = max(
        weight_bytes(shape, stage, booted.tensor_parallel, booted.data_parallel)
        for stage in stages(shape.layers, booted.pipeline_parallel)
    )
    logged = boot.weights.expected
    if abs(logged - computed) * 100 > _WEIGHTS_PERCENT * computed:
        return _refusal(
            f"that start loaded weights of {logged / GIB:.2f} GiB per device, this model has "
            f"{computed / GIB:.2f}; give a log of the same model, format and parallelism"
        )
    return None
