"""What `kvscale capacity` looks at: an engine's ceiling, by estimate or by the log of a start."""

from dataclasses import dataclass

from kvscale.core.capacity.boot_settings import as_started
from kvscale.core.capacity.calibrated import calibrated_capacity
from kvscale.core.capacity.calibration import calibrate
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.engines.boot_log import BootLog
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.ceilings import LengthCeiling, length_ceilings, round_lengths
from kvscale.core.refusal import Refusal


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
