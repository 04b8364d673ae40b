"""A pool on other devices: what fits, how many it needs and what that costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from kvscale.app.plan import Plan, plan
from kvscale.app.plan_cost import PlanCost
from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.cost.candidates import has_fp8
from kvscale.core.capacity.cost.price import Price
from kvscale.core.capacity.devices.device import Device
from kvscale.core.capacity.devices.table import find_device
from kvscale.core.spec import PoolSpec
from kvscale.core.trace import find
from kvscale.core.traffic.floor import Floor
from kvscale.core.values import Unknown
from kvscale.ports import WorkloadRecord


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run the pool.

    Attributes:
        gpu: product of the device table.
        tensor_parallel: of one engine; None: as the pool has it.
        kv_cache_dtype: None: as the pool has it.
    """

    gpu: str
    tensor_parallel: int | None = None
    kv_cache_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """An option that fits.

    Attributes:
        option, plan: what was asked and what came of it.
        rate: that `replicas` are for: "mean", "peak", or "" where no traffic is declared.
        replicas: None where the traffic does not tell them.
        at_peak: replicas at the declared peak rate; None where there is none.
        devices: of all replicas, or of one replica.
        milliseconds_per_token: of one sequence at the planned batch; None where no speed is known.
        micros_per_hour: of these devices; None without a price.
        micros_per_million: per million output tokens at that rate, or at the ceiling; likewise.
        note: what wants a check.
    """

    option: Option
    plan: Plan
    rate: str
    replicas: int | None
    at_peak: int | None
    devices: int
    milliseconds_per_token: float | None
    micros_per_hour: int | None
    micros_per_million: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unfit:
    """An option that does not fit, and why."""

    option: Option
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Comparison:
    """The options, the cheapest first.

    Attributes:
        name: of the pool.
        rows: what fits: with a price by cost per hour, then without one by devices.
        unfit: the rest, in the order in which they were asked for.
        currency: of the costs; "" where there is none.
    """

    name: str
    rows: tuple[Row, ...]
    unfit: tuple[Unfit, ...]
    currency: str


def options(
    gpus: Sequence[str], tensor_parallel: Sequence[int], kv_cache_dtypes: Sequence[str]
) -> tuple[Option, ...]:
    """Every combination; an empty list means "as the pool has it"."""
    return tuple(
        Option(gpu, degree, dtype)
        for gpu, degree, dtype in product(
            gpus, tensor_parallel or (None,), kv_cache_dtypes or (None,)
        )
    )


def compare(
    name: str,
    spec: PoolSpec,
    wanted: Sequence[Option],
    *,
    workload: WorkloadRecord | None = None,
    config_map: Mapping[str, str] | Unknown | None = None,
    given_prices: Mapping[str, Price] | None = None,
) -> Comparison:
    """The pool under each option.

    Args:
        name: of the pool.
        spec: as parsed.
        wanted: the options.
        workload: what the pool scales, if a manifest of it is at hand.
        config_map: data of the ConfigMap that the spec names; None when it names none.
        given_prices: by product; they win over the pool's and the list's.
    """
    rows, unfit = [], []
    for option in wanted:
        found = plan(
            name,
            _changed(spec, option),
            workload=workload,
            config_map=config_map,
            gpu=option.gpu,
            given_prices=given_prices,
            compared=True,
        )
        if isinstance(found, Refusal):
            unfit.append(Unfit(option, found))
        else:
            rows.append(_row(option, found))
    costs = [row.plan.cost for row in rows]
    currency = next((cost.price.currency for cost in costs if isinstance(cost, PlanCost)), "")
    return Comparison(name, tuple(sorted(rows, key=_order)), tuple(unfit), currency)


def _changed(spec: PoolSpec, option: Option) -> PoolSpec:
    engine = spec.target.engine
    if option.tensor_parallel is not None:
        engine = replace(engine, tensor_parallel=option.tensor_parallel)
    if option.kv_cache_dtype is not None:
        engine = replace(engine, kv_cache_dtype=option.kv_cache_dtype)
    own = find_device(spec.target.devices.product or "")
    if not isinstance(own, Device) or own.product != option.gpu:
        # Bytes of KV memory are those of the device that they were stated for.
        engine = replace(engine, kv_cache_memory_bytes=None)
    devices = replace(spec.target.devices, count=None)
    return replace(spec, target=replace(spec.target, engine=engine, devices=devices))


def _row(option: Option, found: Plan) -> Row:
    floor, cost = found.floor, found.cost
    rate, replicas = "", None
    step = None
    if isinstance(floor, Floor):
        rate = "peak" if floor.at_mean is None else "mean"
        replicas = floor.at_peak if floor.at_mean is None else floor.at_mean
        step = _milliseconds(floor)
    per_hour = per_million = None
    if isinstance(cost, PlanCost):
        at_rate = next((one for one in cost.rates if one.name == rate), None)
        if at_rate is None:
            per_hour = cost.replica_micros_per_hour
            per_million = cost.points[0].micros_per_million.expected
        else:
            per_hour, per_million = at_rate.micros_per_hour, at_rate.micros_per_million
    fp8 = found.engine.kv_cache_dtype.startswith("fp8") and not has_fp8(found.device)
    return Row(
        option,
        found,
        rate,
        replicas,
        floor.at_peak if isinstance(floor, Floor) else None,
        (replicas or 1) * found.devices_per_replica,
        step,
        per_hour,
        per_million,
        f"{found.device.product} has no fp8 arithmetic: check that the engine starts"
        if fp8
        else "",
    )


def _milliseconds(floor: Floor) -> float | None:
    """Time per output token at the planned batch, prompts beside it."""
    step, share = find(floor.trace, "stepSeconds"), find(floor.trace, "prefillShare")
    if step is None or share is None:
        return None
    return 1000 * float(step.value) / (1 - float(share.value))


def _order(row: Row) -> tuple[bool, int, int, str]:
    """By cost; without a price by devices, after the others."""
    cost = row.micros_per_hour if row.replicas is not None else row.micros_per_million
    return cost is None, cost or 0, row.devices, row.option.gpu
