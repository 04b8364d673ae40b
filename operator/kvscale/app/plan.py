"""What a pool will hold and need, before anything runs: `kvscale plan`.

Pure: a parsed pool, its workload if there is a manifest of it, and the arithmetic of `core`. The
operator sizes a pool by the same functions; only the source of the device differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kvscale.app.plan_cost import PlanCost, decode_of, moves_of, plan_cost
from kvscale.app.plan_inputs import blank_workload, for_planning
from kvscale.app.prices import prices_of
from kvscale.app.resolve import resolve
from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.engine import engine_capacity
from kvscale.core.devices.device import Device
from kvscale.core.devices.price import Price
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.ceilings import (
    LengthCeiling,
    headroom,
    length_ceilings,
    planning_lengths,
)
from kvscale.core.planning.cost.levers import Levers, all_levers
from kvscale.core.planning.floor import Floor, floor
from kvscale.core.planning.policies import Policies, policies
from kvscale.core.planning.service import Service
from kvscale.core.refusal import Refusal
from kvscale.core.spec import PlanningMode, PoolSpec
from kvscale.core.traffic.lengths import whole
from kvscale.core.traffic.profile import Profile, profile
from kvscale.core.values import Band, Unknown
from kvscale.records import WorkloadRecord

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
        requests: lengths of the traffic; None without.
        policies: the engine under each way of handing out cache, at the planning length.
        floor: replicas for the declared traffic, or why there is no number.
        floors: the same by planning mode: the pool's, and the other one for comparison.
        decode: how fast an engine is, or why that is not known.
        crossover: the smallest batch whose decode step is not bound by memory; None: there is
            none, or no speed is known.
        cost: what it costs, or why that is not known.
        levers: what to change instead of scaling, and what costs more than it brings.
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
    requests: Profile | None
    policies: Policies
    floor: Floor | Unknown
    floors: Mapping[PlanningMode, Floor | Unknown]
    decode: Service | Unknown
    crossover: int | None
    cost: PlanCost | Unknown
    levers: Levers
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
    given_prices: Mapping[str, Price] | None = None,
    compared: bool = False,
) -> Plan | Refusal:
    """The plan of a pool, or the first thing that keeps it from being sized.

    Args:
        name: of the pool.
        spec: as parsed.
        workload: what the pool scales, if a manifest of it is at hand. Without it the engine is
            vLLM at its defaults, with what the spec states of it.
        config_map: data of the ConfigMap that the spec names; None when it names none.
        gpu: product of the devices; wins over what spec and workload say.
        given_prices: by product; they win over the pool's and the list's.
        compared: the plan is one of several: without levers, without what moves the cost and the
            other mode, and the pool's price is that of the product that the spec names alone.
    """
    given = for_planning(spec, gpu, manifest=workload is not None)
    resolved = resolve(given, workload or blank_workload(given), NO_CLUSTER, config_map)
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
    prices = prices_of(spec, None if compared else device, given_prices)
    requests = profile(spec.traffic, capacity.max_model_len)
    known = requests if isinstance(requests, Profile) else None
    ceilings = length_ceilings(capacity, planning_lengths(known, capacity.max_model_len), engines)
    floors = {
        mode: floor(
            shape,
            engine,
            device,
            capacity,
            traffic=spec.traffic,
            percentile=spec.percentile,
            target_occupancy_percent=spec.scaling.target_occupancy_percent,
            engines_per_replica=engines,
            mode=mode,
            overflow_per_million=spec.overflow_per_million,
        )
        for mode in PlanningMode
        if not compared or mode is spec.planning_mode
    }
    floored = floors[spec.planning_mode]
    decode = decode_of(shape, engine, device, capacity, known)
    price = prices.of(device, engine.devices * engines)
    prefix = None if spec.traffic is None else spec.traffic.shared_prefix
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
        requests=known,
        policies=policies(
            capacity,
            capacity.max_model_len if known is None else known.total.tokens(spec.percentile),
            prefix_tokens=0 if prefix is None else prefix.tokens,
            prefixes=1 if prefix is None else prefix.distinct,
        ),
        floor=floored,
        floors=floors,
        decode=decode,
        crossover=_crossover(decode),
        cost=_no_price(device)
        if price is None
        else decode
        if isinstance(decode, Unknown)
        else plan_cost(
            spec,
            capacity,
            decode,
            floored,
            price=price,
            engines=engines,
            moves=()
            if compared
            else moves_of(shape, engine, device, price, known, price_of=prices.of),
        ),
        levers=all_levers(
            shape,
            engine,
            device,
            requests=known,
            percentile=spec.percentile,
            price_of=prices.of,
        )
        if not compared
        else Levers(),
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


def _crossover(decode: Service | Unknown) -> int | None:
    if isinstance(decode, Unknown):
        return None
    return decode.model.crossover_batch(max(1, whole(decode.resident_tokens)))


def _no_price(device: Device) -> Unknown:
    return Unknown(
        "PriceUnknown",
        f"no price of {device.product} is known: state targets[0].cost.perDeviceHour",
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
