"""What a pool will hold and need, before anything runs: `kvscale plan`.

Pure: a parsed pool, its workload if there is a manifest of it, and the arithmetic of `core`. The
operator sizes a pool by the same functions; only the source of the device differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvscale.app.resolve import resolve
from kvscale.core.capacity.ceiling import EngineCapacity, Refusal
from kvscale.core.capacity.device import Device
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.capacity.planning import (
    LengthCeiling,
    headroom,
    length_ceilings,
    planning_lengths,
)
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.model.shape import ModelShape
from kvscale.core.snapshot import PodNeeds
from kvscale.core.spec import PoolSpec
from kvscale.core.traffic.floor import Floor, floor
from kvscale.core.traffic.profile import Profile, profile
from kvscale.core.values import Band, Unknown
from kvscale.ports import WorkloadRecord, WorkloadRef

NO_CLUSTER = Unknown("NoNodeAccess", "a plan looks at no cluster")


@dataclass(frozen=True, slots=True)
class Plan:
    """A pool that can be sized.

    Attributes:
        name: of the pool.
        spec: as parsed, with the device that was asked for.
        shape, engine, device: as resolved.
        engines_per_replica: KV pools in one pod.
        capacity: of one engine.
        ceilings: sequences at the lengths of the traffic, or at the maximum length alone.
        headroom: sequences of a replica between its ceilings at the mean and at the planning
            percentile; None without traffic.
        floor: replicas for the declared traffic, or why there is no number.
        warnings: contradictions, and limits that the traffic exceeds; one sentence each.
        assumptions: one sentence each.
    """

    name: str
    spec: PoolSpec
    shape: ModelShape
    engine: EngineConfig
    device: Device
    engines_per_replica: int
    capacity: EngineCapacity
    ceilings: tuple[LengthCeiling, ...]
    headroom: Band | None
    floor: Floor | Unknown
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]

    @property
    def devices_per_replica(self) -> int:
        """Devices that the engines of one replica use."""
        return self.engine.devices * self.engines_per_replica


def plan(
    name: str,
    spec: PoolSpec,
    *,
    workload: WorkloadRecord | None = None,
    config_map: Mapping[str, str] | Unknown | None = None,
    gpu: str | None = None,
) -> Plan | Refusal:
    """The plan of a pool, or the first thing that keeps it from being sized.

    Args:
        name: of the pool.
        spec: as parsed.
        workload: what the pool scales, if a manifest of it is at hand. Without it the engine is
            vLLM at its defaults, with what the spec states of it.
        config_map: data of the ConfigMap that the spec names; None when it names none.
        gpu: product of the devices; wins over what spec and workload say.
    """
    given = _for_planning(spec, gpu, manifest=workload is not None)
    resolved = resolve(given, workload or _blank(given), NO_CLUSTER, config_map)
    shape, engine, device = resolved.shape, resolved.engine, resolved.device
    if isinstance(shape, Unknown):
        return _refused(shape)
    if isinstance(engine, Unknown):
        return _refused(engine)
    if isinstance(device, Unknown):
        return _refused(device)
    capacity = engine_capacity(shape, engine, device)
    if isinstance(capacity, Refusal):
        return capacity
    engines = engine.data_parallel
    requests = profile(spec.traffic, capacity.max_model_len)
    known = requests if isinstance(requests, Profile) else None
    ceilings = length_ceilings(capacity, planning_lengths(known, capacity.max_model_len), engines)
    floored = floor(
        shape,
        engine,
        device,
        capacity,
        traffic=spec.traffic,
        percentile=spec.percentile,
        target_occupancy_percent=spec.scaling.target_occupancy_percent,
        engines_per_replica=engines,
    )
    return Plan(
        name=name,
        spec=given,
        shape=shape,
        engine=engine,
        device=device,
        engines_per_replica=engines,
        capacity=capacity,
        ceilings=ceilings,
        headroom=headroom(ceilings, spec.percentile),
        floor=floored,
        warnings=(
            *resolved.contradictions,
            *(problem.message for problem in (known.problems if known else ())),
            *_limits(spec, floored, engine.devices * engines),
        ),
        assumptions=(
            *resolved.notes,
            *capacity.assumptions,
            *(known.assumptions if known else ()),
        ),
    )


def _for_planning(spec: PoolSpec, gpu: str | None, *, manifest: bool) -> PoolSpec:
    """The spec with what is given beside it."""
    target = spec.target
    if gpu is not None:
        devices = replace(target.devices, product=gpu, memory_bytes=None)
        target = replace(target, devices=devices)
    if not manifest:
        kind = target.engine.kind or EngineKind.VLLM
        target = replace(target, container_name="", engine=replace(target.engine, kind=kind))
    return replace(spec, target=target)


def _blank(spec: PoolSpec) -> WorkloadRecord:
    """A workload of which nothing is known but its name."""
    return WorkloadRecord(
        ref=WorkloadRef(spec.target.ref_kind, "", spec.target.ref_name),
        uid="",
        resource_version="",
        generation=0,
        observed_generation=0,
        replicas=0,
        status_replicas=0,
        ready_replicas=0,
        available_replicas=0,
        updated_replicas=0,
        paused=False,
        selector={},
        containers=(),
        needs=PodNeeds(),
        template_key="",
    )


def _refused(unknown: Unknown) -> Refusal:
    named = unknown.message.partition(":")[0]
    return Refusal(
        unknown.reason,
        named if named.startswith(("spec.", "targets[")) and " " not in named else "spec",
        unknown.message,
    )


def _limits(spec: PoolSpec, floored: Floor | Unknown, devices: int) -> tuple[str, ...]:
    """Where the pool's own limits are below what its traffic asks for."""
    if isinstance(floored, Unknown):
        return ()
    needed = max(floored.at_mean or 0, floored.at_peak or 0)
    at = "peak" if needed == floored.at_peak else "mean"
    lines = []
    if needed > spec.scaling.max_replicas:
        lines.append(
            f"the floor at the {at} rate is {needed} replicas, above scaling.maxReplicas "
            f"{spec.scaling.max_replicas}: raise it, or requests will wait"
        )
    most = spec.scaling.max_devices
    if most is not None and needed * devices > most:
        lines.append(
            f"the floor at the {at} rate takes {needed * devices} devices, above "
            f"scaling.maxDevices {most}: raise it, or requests will wait"
        )
    return tuple(lines)
