"""What a plan costs: output tokens at the ceiling and at the plan, and the pool at its rates."""

from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.step_time import step_time
from kvscale.core.devices.device import Device
from kvscale.core.devices.price import Price, PriceOf
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.cost.moves import Move, cost_moves
from kvscale.core.planning.cost.tokens import (
    CostPoint,
    RateCost,
    ceiling_batch,
    cost_point,
    decoding,
    hourly,
    planning_batch,
    rate_cost,
)
from kvscale.core.planning.floor import Floor
from kvscale.core.planning.service import Service
from kvscale.core.refusal import Refusal
from kvscale.core.spec import PoolSpec
from kvscale.core.trace import Step, Trace
from kvscale.core.traffic.profile import Profile
from kvscale.core.traffic.residency import significant
from kvscale.core.values import Unknown


@dataclass(frozen=True, slots=True)
class PlanCost:
    """Costs in millionths of the price's currency.

    Attributes:
        price: of one device.
        replica_micros_per_hour: of the devices of one replica: what the next one costs.
        points: cost of output tokens at the ceiling and, with traffic, at the plan.
        rates: of the pool at its declared rates.
        moves: what else the tokens would cost at the ceiling.
        trace: the arithmetic.
    """

    price: Price
    replica_micros_per_hour: int
    points: tuple[CostPoint, ...]
    rates: tuple[RateCost, ...]
    moves: tuple[Move, ...]
    trace: Trace


def decode_of(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    capacity: EngineCapacity,
    requests: Profile | None,
) -> Service | Unknown:
    """How fast an engine decodes, or why that is not known."""
    model = step_time(shape, engine, device)
    if isinstance(model, Refusal):
        return Unknown(model.reason, f"{model.field}: {model.message}")
    return decoding(model, capacity, requests)


def plan_cost(
    spec: PoolSpec,
    capacity: EngineCapacity,
    decode: Service,
    floored: Floor | Unknown,
    *,
    price: Price,
    engines: int,
    moves: tuple[Move, ...] = (),
) -> PlanCost:
    """What the plan costs.

    Args:
        spec: of the pool.
        capacity: of one engine.
        decode: how fast it is.
        floored: replicas for the declared traffic.
        price: of one device.
        engines: of one replica.
        moves: see `PlanCost`.
    """
    engine_hour = hourly(price, capacity.devices)
    ceiling = ceiling_batch(capacity, decode.resident_tokens)
    points = [cost_point("ceiling", decode, ceiling, engine_hour)]
    if isinstance(floored, Floor):
        # By overflow probability as well: the point is what a percentile would cost.
        footprint = floored.profile.total.tokens(spec.percentile)
        planned = planning_batch(capacity, footprint, spec.scaling.target_occupancy_percent)
        points.append(cost_point("planning", decode, planned, engine_hour))
    replica_hour = engine_hour * engines
    price_step = Step(
        "pricePerHourOfEngine",
        significant(engine_hour / 1e6),
        f"{price.currency} per hour",
        "devices * pricePerDeviceHour",
        (("devices", capacity.devices), ("pricePerDeviceHour", price.per_device_hour)),
        " ".join(filter(None, (price.source, price.as_of))),
    )
    return PlanCost(
        price=price,
        replica_micros_per_hour=replica_hour,
        points=tuple(points),
        rates=_rates(spec, floored, replica_hour),
        moves=moves,
        trace=(price_step, *(step for point in points for step in point.trace)),
    )


def moves_of(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    price: Price,
    requests: Profile | None,
    *,
    price_of: PriceOf | None = None,
) -> tuple[Move, ...]:
    """What moves the cost; nothing without traffic. See `cost_moves`."""
    if requests is None:
        return ()
    return cost_moves(shape, engine, device, price=price, requests=requests, price_of=price_of)


def _rates(spec: PoolSpec, floored: Floor | Unknown, replica_hour: int) -> tuple[RateCost, ...]:
    if isinstance(floored, Unknown) or spec.traffic is None:
        return ()
    output = floored.profile.residents.output_tokens
    found = []
    for name, per_minute, replicas in (
        ("mean", spec.traffic.mean_per_minute, floored.at_mean),
        ("peak", spec.traffic.peak_per_minute, floored.at_peak),
    ):
        if per_minute is not None and replicas:
            found.append(
                rate_cost(
                    name,
                    replicas=replicas,
                    tokens_per_minute=per_minute * output,
                    replica_tokens_per_minute=floored.requests_per_minute_milli / 1000 * output,
                    replica_micros_per_hour=replica_hour,
                )
            )
    return tuple(found)
