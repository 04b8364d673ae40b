"""The floor: replicas that the declared traffic asks for, without any metric.

One engine at the planned batch serves a certain rate (`residency`); the floor is the declared rate
over that of a replica. Written out, with L = rate * residence resident requests:

    n = max(ceil(L * footprint / (usable blocks * target occupancy)),
            ceil(L / max_num_seqs),
            ceil(rate * prefill work / 0.75))            (blocks and slots of a whole replica)

The third term is not about memory: long prompts with short outputs fill a device with arithmetic
while its cache is nearly empty.
"""

import math
from dataclasses import dataclass

from kvscale.core.capacity.ceiling import EngineCapacity
from kvscale.core.capacity.step_time import step_time
from kvscale.core.devices.device import Device
from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.shape import ModelShape
from kvscale.core.planning.overflow_plan import OverflowPlan, Rates, overflow_plan
from kvscale.core.planning.percentile_budget import Budget, rate_steps
from kvscale.core.planning.service import Service, service
from kvscale.core.refusal import Refusal
from kvscale.core.spec import Planning, PlanningMode
from kvscale.core.trace import Trace
from kvscale.core.traffic.declared import Traffic
from kvscale.core.traffic.profile import Profile, profile
from kvscale.core.traffic.residency import (
    FloorBound,
)
from kvscale.core.values import Unknown


@dataclass(frozen=True, slots=True)
class Floor:
    """What the declared traffic asks for.

    Attributes:
        at_mean, at_peak: replicas at the mean and at the peak rate; None where that rate is not
            declared.
        bound: what limits one engine at these lengths.
        footprint_tokens, footprint_blocks: the request at the planning percentile, which the
            plan budgets for in mode Percentile.
        planned_batch_milli: resident sequences of one engine, in thousandths.
        residence_seconds: how long a request holds cache.
        requests_per_minute_milli: what one replica serves, in thousandths.
        profile: the lengths behind it, with their assumptions and problems.
        trace: the arithmetic.
        overflow: the probabilities behind it, in mode OverflowProbability.
    """

    at_mean: int | None
    at_peak: int | None
    bound: FloorBound
    footprint_tokens: int
    footprint_blocks: int
    planned_batch_milli: int
    residence_seconds: float
    requests_per_minute_milli: int
    profile: Profile
    trace: Trace = ()
    overflow: OverflowPlan | None = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed, one sentence each."""
        return self.profile.assumptions

    @property
    def problems(self) -> tuple[Refusal, ...]:
        """Where the declared traffic contradicts itself or the engine."""
        return self.profile.problems


def floor(
    shape: ModelShape,
    engine: EngineConfig,
    device: Device,
    capacity: EngineCapacity,
    *,
    traffic: Traffic | None,
    percentile: int,
    target_occupancy_percent: int,
    engines_per_replica: int,
    mode: PlanningMode = PlanningMode.PERCENTILE,
    overflow_per_million: int = Planning().overflow_per_million,
) -> Floor | Unknown:
    """Replicas for the declared traffic, sized on the low end of the capacity's band.

    Args:
        shape: the model.
        engine: its engine's settings.
        device: one device of the engine.
        capacity: what one engine holds.
        traffic: as declared.
        percentile: the planning percentile of prompt + output.
        target_occupancy_percent: share of the usable blocks that the plan fills.
        engines_per_replica: engines (data-parallel ranks) in one replica.
        mode: whether the planning percentile of each request is budgeted for, at the target
            occupancy, or the probability that an engine's requests exceed its memory.
        overflow_per_million: that probability.

    Returns:
        Unknown with the field that is missing, or with what the device table or the engine lacks:
        TrafficNotDeclared, LengthsNotDeclared, LengthsInvalid, DeviceSpeedUnknown,
        PlanningRequestDoesNotFit. Any rate has a floor: see `residency.residence`.
    """
    requests = profile(traffic, capacity.max_model_len)
    if isinstance(requests, Unknown):
        return requests
    if traffic is None or (traffic.mean_per_minute is None and traffic.peak_per_minute is None):
        return Unknown(
            "TrafficNotDeclared",
            "spec.traffic.requestsPerMinute is not declared: add its mean and peak",
        )
    model = step_time(shape, engine, device)
    if isinstance(model, Refusal):
        return Unknown(model.reason, f"{model.field}: {model.message}")
    served = service(model, requests, capacity.max_num_batched_tokens)
    rates = (traffic.mean_per_minute, traffic.peak_per_minute)
    budget = Budget.of(capacity, requests, percentile, target_occupancy_percent)
    if mode is PlanningMode.OVERFLOW_PROBABILITY:
        plan = overflow_plan(
            served,
            requests,
            capacity,
            rates=rates,
            per_million=overflow_per_million,
            engines_per_replica=engines_per_replica,
        )
        if isinstance(plan, Unknown):
            return plan
        return _by_overflow(plan, budget, served, requests, rates)
    return _by_percentile(budget, served, requests, rates, engines_per_replica)


def _by_percentile(
    budget: Budget,
    served: Service,
    requests: Profile,
    rates: Rates,
    engines_per_replica: int,
) -> Floor | Unknown:
    if budget.footprint_blocks > budget.usable_blocks:
        return Unknown(
            "PlanningRequestDoesNotFit",
            f"a p{budget.percentile} request of {budget.footprint_tokens} tokens needs "
            f"{budget.footprint_blocks} KV blocks, an engine may have only "
            f"{budget.usable_blocks}: add devices to the engine or lower planning.percentile",
        )
    stay = served.at(budget.batch)
    replica_rate = stay.requests_per_second * engines_per_replica
    steps = [*budget.trace(), *requests.residents.trace(), *served.trace(stay)]
    replicas: dict[str, int | None] = {}
    for name, per_minute in zip(("Mean", "Peak"), rates, strict=True):
        if per_minute is None:
            replicas[name] = None
            continue
        # What floating point adds to a whole number is not a replica.
        replicas[name] = math.ceil(round(per_minute / 60 / replica_rate, 9))
        steps += rate_steps(name, per_minute, replicas[name] or 0, stay, engines_per_replica)
    return Floor(
        at_mean=replicas["Mean"],
        at_peak=replicas["Peak"],
        bound="Prefill" if stay.prefill_bound else budget.bound,
        footprint_tokens=budget.footprint_tokens,
        footprint_blocks=budget.footprint_blocks,
        planned_batch_milli=int(budget.batch * 1000),
        residence_seconds=stay.seconds,
        requests_per_minute_milli=int(replica_rate * 60_000),
        profile=requests,
        trace=tuple(steps),
    )


def _by_overflow(
    plan: OverflowPlan, budget: Budget, served: Service, requests: Profile, rates: Rates
) -> Floor:
    at_mean, at_peak = (
        None if rate is None else (0 if count is None else count.replicas)
        for rate, count in zip(rates, (plan.at_mean, plan.at_peak), strict=True)
    )
    return Floor(
        at_mean=at_mean,
        at_peak=at_peak,
        bound=plan.bound,
        footprint_tokens=budget.footprint_tokens,
        footprint_blocks=budget.footprint_blocks,
        planned_batch_milli=int(plan.largest.batch * 1000),
        residence_seconds=plan.largest.seconds,
        requests_per_minute_milli=int(plan.replica_rate * 60_000),
        profile=requests,
        trace=(*requests.residents.trace(), *served.trace(plan.largest), *plan.trace),
        overflow=plan,
    )
