"""Calibration: what one start of an engine says of its other settings.

What an engine takes besides KV is the same at every utilisation and length:

    taken = total x utilisation - KV memory     (of the start that was logged)
    KV    = total x utilisation' - taken        (of other settings of the same build)

Observed: Llama-3.3-70B on 8 x H100 takes 18.66 to 18.69 GiB at utilisations of 0.25 to 0.85
(vllm_hybrid 8fa80a9, May 2026). SGLang's fraction is a share of what was free before the load; the
rest is alike.
"""

from dataclasses import dataclass, replace

from kvscale.core.capacity.boot_match import misfit, mismatch, other_weights
from kvscale.core.capacity.boot_model import same_name
from kvscale.core.capacity.boot_settings import booted_config, loads_otherwise
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.vllm.settings import Settings, resolve
from kvscale.core.devices.device import Device
from kvscale.core.engines.boot_log import BootLog
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.engines.versions import LAST_PATCH, parse_version
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.values import GIB, Band

FIELD = "--calibrate"
UNKNOWN = (
    "that start does not state its memory fraction; add the log's line with its arguments, or "
    "state it: --calibrate-utilization 0.9"
)

_OPEN = (
    "calibrated by a start whose log does not state the memory fraction: the answer is for that "
    "fraction, whatever it was; --calibrate-utilization states it"
)
_SCOPE = (
    "the calibration holds for the same build, model, devices and parallelism, at other memory "
    "fractions and lengths"
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a start tells.

    Attributes:
        booted: the settings of that start.
        share: bytes that the utilisation is a share of.
        utilization_milli: of that start; where it is not known, of the answer.
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
            too, but for its memory fraction. Its own fraction may be left open: then that of the
            start counts.
        device: one of the devices, alike in both.

    Returns:
        The calibration, or a Refusal where the start measured nothing, cannot have been on this
        device, or is of another engine, model, format or parallelism.
    """
    wrong = mismatch(boot, shape, engine)
    if wrong:
        return _refusal(wrong)
    booted = booted_config(boot, shape, engine)
    settings = resolve(shape, booted, device) if booted.kind is EngineKind.VLLM else None
    if isinstance(settings, Refusal):
        return _refusal(f"the settings of that start are refused: {settings.message}")
    utilization = _utilization(boot, settings, engine)
    if utilization is None:
        return _refusal(UNKNOWN)
    kv = _kv(boot, shape, booted, device)
    if isinstance(kv, Refusal):
        return kv
    found = Calibration(
        booted, boot.total or Band.point(device.memory_bytes), utilization, kv, ()
    )  # fmt: skip
    known = boot.utilization_milli is not None or _has_default(boot, settings)
    wrong = _unfit(boot, shape, found, device, utilization if known else 1000)
    if wrong:
        return _refusal(wrong)
    what = _what(boot, found, settings) if known else _OPEN
    return replace(found, assumptions=(what, _SCOPE, *_notes(boot, shape, engine, found)))


def _has_default(boot: BootLog, settings: Settings | None) -> bool:
    """Whether a fraction that is not logged is the default of a version that is known."""
    return boot.complete_arguments and settings is not None and settings.rules.certain


def _utilization(boot: BootLog, settings: Settings | None, engine: EngineConfig) -> int | None:
    """The memory fraction of the start in thousandths; None where nothing tells it.

    Where the answer's own is left open too, both are alike, whatever they are.
    """
    if boot.utilization_milli is not None:
        return boot.utilization_milli
    default = settings.memory_utilization_milli if settings is not None else 1000
    if _has_default(boot, settings) or engine.memory_utilization_milli is None:
        return default
    return None


def _unfit(boot: BootLog, shape: ModelShape, found: Calibration, device: Device, most: int) -> str:
    """Why the start cannot have been of this model on this device; "" if it can."""
    computed = None
    if not loads_otherwise(boot, shape):
        # A block for one token: the weights do not depend on it.
        one = replace(found.booted, max_model_len=1, max_num_seqs=1)
        capacity = engine_capacity(shape, one, device, device.memory_bytes)
        if not isinstance(capacity, Refusal):
            computed = capacity.weight_bytes_per_device
    return other_weights(boot, computed) or misfit(
        boot, device, found.kv, found.share.high * most // 1000, computed
    )


def _what(boot: BootLog, found: Calibration, settings: Settings | None) -> str:
    default = ""
    if boot.utilization_milli is None and settings is not None:
        default = f", the default of vLLM {settings.rules.label}, as the log states none"
    total = "" if boot.total is not None else "; the device's total is the table's"
    return (
        "calibrated by a start at a memory fraction of "
        f"{found.utilization_milli / 1000:g}{default}: "
        f"{found.taken / GIB:.2f} GiB per device are not for KV{total}"
    )


def _notes(boot: BootLog, shape: ModelShape, engine: EngineConfig, found: Calibration) -> list[str]:
    notes: list[str] = []
    if engine.memory_utilization_milli is None and boot.utilization_milli is not None:
        notes.append(
            "no memory fraction is asked for: that of the start counts, "
            f"{found.utilization_milli / 1000:g}"
        )
    version = engine.version or ""
    if _other_release(version, boot.version):
        notes.append(
            f"the log is of version {boot.version[:40]}, asked is {version[:40]}: what "
            "changed between them is an estimate"
        )
    if not same_name(boot, shape):
        notes.append(f"the log names its model {boot.model[:80]}; it is taken for {shape.name}")
    if loads_otherwise(boot, shape):
        notes.append(
            f"that start quantised the model by {boot.arguments['quantization']}: its weights are "
            "not those of the config"
        )
    return notes


def _other_release(asked: str, logged: str) -> bool:
    one, other = parse_version(asked), parse_version(logged)
    if one is None or other is None:
        return bool(asked and logged) and asked != logged
    return one[:2] != other[:2] or (one[2] != other[2] and LAST_PATCH not in {one[2], other[2]})


def _refusal(what: str) -> Refusal:
    return Refusal("CalibrationFailed", FIELD, f"{FIELD}: {what}")


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
