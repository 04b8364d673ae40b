"""A pool on other devices: what fits, how many it needs and what that costs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from kvscale.app.comparison import Comparison, Option, Row, Unfit
from kvscale.app.plan import Plan, plan
from kvscale.app.plan_cost import PlanCost
from kvscale.core.devices.device import Device
from kvscale.core.devices.price import Price
from kvscale.core.devices.table import find_device
from kvscale.core.engines.config import EngineKind
from kvscale.core.planning.cost.candidates import has_fp8
from kvscale.core.planning.floor import Floor
from kvscale.core.refusal import Refusal
from kvscale.core.spec import PoolSpec
from kvscale.core.trace import find
from kvscale.core.values import Unknown
from kvscale.records import WorkloadRecord

DOES_NOT_FIT = "PlanningRequestDoesNotFit"
"""Reason of a floor that no number of replicas gives."""

DOUBT = "MayNotFit"


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
    fitting: list[tuple[Option, Plan]] = []
    doubtful, unfit = [], []
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
        elif (doubt := _doubt(found)) is not None:
            doubtful.append(Unfit(option, doubt, found))
        else:
            fitting.append((option, found))
    rate = _rate(spec) if any(isinstance(one.floor, Floor) for _, one in fitting) else ""
    rows = sorted((_row(option, found, rate) for option, found in fitting), key=_order)
    costs = [row.plan.cost for row in rows]
    floors = [row.plan.floor for row in rows]
    return Comparison(
        name,
        rows=tuple(rows),
        doubtful=tuple(doubtful),
        unfit=tuple(unfit),
        currency=next((cost.price.currency for cost in costs if isinstance(cost, PlanCost)), ""),
        rate=rate,
        unknown=next((one.message for one in floors if isinstance(one, Unknown)), ""),
    )


def _rate(spec: PoolSpec) -> str:
    """The declared rate that costs are at: the mean one, if anything arrives then."""
    traffic = spec.traffic
    if traffic is None:
        return ""
    if traffic.mean_per_minute:
        return "mean"
    return "peak" if traffic.peak_per_minute else ""


def _doubt(found: Plan) -> Refusal | None:
    """Why the least memory that the engine may have does not do; None where it does."""
    floor = found.floor
    if isinstance(floor, Unknown) and floor.reason == DOES_NOT_FIT:
        return Refusal(DOUBT, "targets[0].devices", floor.message)
    usable = found.capacity.usable_blocks.low
    named = {one.name: one for one in found.ceilings}
    for name in (f"p{found.spec.percentile}", _longest(found)):
        one = named.get(name)
        if one is None or one.per_engine.low > 0:
            continue
        longest = "a request of the maximum length" if name == "max" else f"a {name} request"
        return Refusal(
            DOUBT,
            "targets[0].devices",
            f"{longest}, {one.tokens:,} tokens, needs {one.blocks:,} KV blocks, an engine may have "
            f"only {usable:,}: add devices to the engine or lower its maximum length",
        )
    return None


def _longest(found: Plan) -> str:
    """Name of the longest length that an engine must hold.

    vLLM does not start where the maximum does not fit (v0.32.0 v1/core/kv_cache_utils.py,
    check_enough_kv_cache_memory); the others refuse the requests that do not.
    """
    always = found.engine.kind is EngineKind.VLLM or found.requests is None
    return "max" if always else "p99"


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


def _row(option: Option, found: Plan, rate: str) -> Row:
    floor, cost = found.floor, found.cost
    by_rate = {one.name: one for one in cost.rates} if isinstance(cost, PlanCost) else {}
    replicas = at_peak = step = None
    if isinstance(floor, Floor):
        replicas = floor.at_peak if rate == "peak" else floor.at_mean
        at_peak = floor.at_peak
        step = _milliseconds(floor)
    per_hour = per_million = None
    if rate in by_rate:
        per_hour, per_million = by_rate[rate].micros_per_hour, by_rate[rate].micros_per_million
    elif isinstance(cost, PlanCost) and not rate:
        per_hour = cost.replica_micros_per_hour
        per_million = cost.points[0].micros_per_million.expected
    return Row(
        option,
        found,
        rate,
        replicas,
        at_peak,
        (replicas or 1) * found.devices_per_replica,
        step,
        per_hour,
        per_million,
        by_rate["peak"].micros_per_hour if "peak" in by_rate else None,
        _note(found),
    )


def _note(found: Plan) -> str:
    if found.engine.kv_cache_dtype.startswith("fp8") and not has_fp8(found.device):
        return f"{found.device.product} has no fp8 arithmetic: check that the engine starts"
    return ""


def _milliseconds(floor: Floor) -> float | None:
    """Time per output token at the planned batch, prompts beside it."""
    step, share = find(floor.trace, "stepSeconds"), find(floor.trace, "prefillShare")
    if step is None or share is None:
        return None
    return 1000 * float(step.value) / (1 - float(share.value))


def _order(row: Row) -> tuple[bool, int, int, str]:
    """By cost; without a price by devices, after the others."""
    return row.measure is None, row.measure or 0, row.devices, row.option.gpu
