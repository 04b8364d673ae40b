"""`status.effective`: what is in effect, the operator's defaults filled in."""

from kvscale.api.rules import ApiModel
from kvscale.api.scaling import BehaviorModel, DirectionModel
from kvscale.api.status_types import Int64, Sentence, Sentences, Word
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.scaling import Actuation, OnUnknown
from kvscale.core.snapshot import PoolSnapshot
from kvscale.core.spec import PlanningMode, PoolSpec
from kvscale.core.traffic.declared import TrafficSource
from kvscale.core.values import Unknown


class EffectiveEngineModel(ApiModel):
    """The engine as resolved from the spec, the server's arguments and the image."""

    kind: Word
    """The engine."""
    version: Word | None = None
    """Its version. Absent: not known, the newest rules apply."""
    tensor_parallel: Int64
    """Devices that split each layer."""
    pipeline_parallel: Int64
    """Stages that split the layers."""
    data_parallel: Int64
    """Engines in one pod."""
    kv_cache_dtype: Word
    """Element type of the KV cache."""


class EffectiveDeviceModel(ApiModel):
    """The device as resolved from the spec, the pod template and the nodes."""

    product: Word
    """Its product."""
    memory_bytes: Int64
    """Its memory in bytes, as the CUDA runtime reports it."""
    resource_name: Word | None = None
    """Extended resource that a pod requests."""
    count: Int64 | None = None
    """Devices of one pod."""
    evidence: Sentence | None = None
    """Where the memory figure is from."""


class EffectiveModel(ApiModel):
    """What is in effect, the operator's defaults filled in."""

    model: Word | None = None
    """Name of the model."""
    engine: EffectiveEngineModel | None = None
    """The engine."""
    device: EffectiveDeviceModel | None = None
    """The device."""
    traffic_source: TrafficSource
    """What sizes the pool."""
    percentile: Int64
    """Percentile of the length that the plan budgets for."""
    planning_mode: PlanningMode
    """What the plan budgets for."""
    overflow_per_million: Int64 | None = None
    """How often an engine may overflow, in millionths. Absent: the mode does not ask."""
    actuation: Actuation
    """Who writes the replicas."""
    min_replicas: Int64
    """Fewest replicas."""
    max_replicas: Int64
    """Most replicas."""
    max_devices: Int64 | None = None
    """Most devices. Absent: no limit."""
    target_occupancy_percent: Int64
    """Occupancy of KV blocks to size for, in percent."""
    max_pending_replicas: Int64
    """Replicas written beyond those that devices exist for."""
    on_unknown: OnUnknown
    """What happens when demand has been unknown for long."""
    behavior: BehaviorModel
    """Pace of both directions."""
    contradictions: Sentences = ()
    """Where an override of the spec disagrees with the server's arguments."""


def effective_of(pool: PoolSnapshot, spec: PoolSpec) -> EffectiveModel:
    """The tunables as the loop reads them, and the engine and device as resolved."""
    scaling = spec.scaling
    engine, device = pool.engine, pool.device
    return EffectiveModel(
        model=None if isinstance(pool.shape, Unknown) else pool.shape.name or None,
        engine=None if isinstance(engine, Unknown) else _engine(engine),
        device=None if isinstance(device, Unknown) else _device(device, pool),
        traffic_source=spec.traffic.source if spec.traffic else TrafficSource.OBSERVED,
        percentile=spec.percentile,
        planning_mode=spec.planning_mode,
        overflow_per_million=spec.overflow_per_million if spec.planning.by_overflow else None,
        actuation=scaling.actuation,
        min_replicas=scaling.min_replicas,
        max_replicas=scaling.max_replicas,
        max_devices=scaling.max_devices,
        target_occupancy_percent=scaling.target_occupancy_percent,
        max_pending_replicas=scaling.max_pending,
        on_unknown=scaling.on_unknown,
        behavior=BehaviorModel(
            scale_up=DirectionModel.from_core(scaling.scale_up),
            scale_down=DirectionModel.from_core(scaling.scale_down),
        ),
        contradictions=pool.contradictions,
    )


def _engine(engine: EngineConfig) -> EffectiveEngineModel:
    return EffectiveEngineModel(
        kind=engine.kind,
        version=engine.version,
        tensor_parallel=engine.tensor_parallel,
        pipeline_parallel=engine.pipeline_parallel,
        data_parallel=engine.data_parallel,
        kv_cache_dtype=engine.kv_cache_dtype,
    )


def _device(device: Device, pool: PoolSnapshot) -> EffectiveDeviceModel:
    return EffectiveDeviceModel(
        product=device.product,
        memory_bytes=device.memory_bytes,
        resource_name=pool.device_resource or None,
        count=pool.devices_per_pod or None,
        evidence=device.evidence or None,
    )
