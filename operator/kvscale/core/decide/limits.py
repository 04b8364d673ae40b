"""From what is needed to what is written: the limits, in order, each with its reason.

HPA's order (kubernetes v1.37 horizontal.go): bounds of the user outside which the count may not
stand, tolerance, stabilisation, policies, bounds again. Ours follow: what is placeable upwards,
the removal proof downwards. A limit never turns the direction of a change round.
"""

from dataclasses import dataclass, replace

from kvscale.core.decide import reasons
from kvscale.core.decide.assessment import Assessment
from kvscale.core.decide.behavior import (
    scale_down_limit,
    scale_up_limit,
    stabilize,
    within_tolerance,
)
from kvscale.core.decide.blocks import EngineBlocks
from kvscale.core.decide.demand import Load
from kvscale.core.decide.placement import Placement
from kvscale.core.decide.proof import Removal, objection, step
from kvscale.core.decide.stock_out import keepable
from kvscale.core.spec import Freeze
from kvscale.core.trace import Trace
from kvscale.core.values import Unknown


@dataclass(frozen=True, slots=True)
class Limited:
    """A count on its way through the limits.

    Attributes:
        replicas: so far.
        reason, message: of the last limit that changed it; "" when none did.
    """

    replicas: int
    reason: str = ""
    message: str = ""
    steps: Trace = ()

    def to(self, replicas: int, reason: str, message: str) -> "Limited":
        """The count after a limit; unchanged counts keep their reason."""
        if replicas == self.replicas:
            return self
        return replace(self, replicas=replicas, reason=reason, message=message)


def highest(found: Assessment) -> int:
    """The user's upper bound in replicas: maxReplicas, and maxDevices in whole replicas."""
    scaling = found.spec.scaling
    top = scaling.max_replicas
    if scaling.max_devices is not None and found.pool.devices_per_pod > 0:
        # A bound below one replica is a typing error more likely than an order to stop serving.
        top = min(top, max(1, scaling.max_devices // found.pool.devices_per_pod))
    return max(top, 1)


def _at_most(found: Assessment, top: int) -> str:
    which = "maxReplicas" if top == found.spec.scaling.max_replicas else "maxDevices"
    return f"spec.scaling.{which} allows {top} at most"


def limit(found: Assessment, placement: Placement, now: float, *, arrivals_frozen: bool) -> Limited:
    """The count to be written, and the limit that made it differ from what is needed."""
    current, top = found.target.replicas, highest(found)
    if current > top:
        goal = Limited(top, reasons.TOO_MANY_REPLICAS, _at_most(found, top))
    else:
        goal = _within_bounds(found, placement, top, now, arrivals_frozen=arrivals_frozen)
    frozen = found.pool.freeze
    if (frozen is Freeze.SCALE_UP and goal.replicas > current) or (
        frozen is Freeze.SCALE_DOWN and goal.replicas < current
    ):
        return goal.to(current, reasons.FROZEN, f"annotation kvscale.io/freeze: {frozen}")
    return goal


def _within_bounds(
    found: Assessment, placement: Placement, top: int, now: float, *, arrivals_frozen: bool
) -> Limited:
    scaling = found.spec.scaling
    low = min(scaling.min_replicas, top)
    base = max(found.target.replicas, low)
    goal = Limited(found.need.wanted)
    goal = _tolerance(goal, found, base)
    goal = _stabilization(goal, found, base, now)
    goal = _policies(goal, found, base, now)
    goal = goal.to(min(goal.replicas, top), reasons.TOO_MANY_REPLICAS, _at_most(found, top))
    told = f"spec.scaling.minReplicas asks for {low} at least"
    goal = goal.to(max(goal.replicas, low), reasons.TOO_FEW_REPLICAS, told)
    if goal.replicas > base:
        goal = _placeable(goal, found, base, placement, now)
    elif goal.replicas < base:
        goal = _proven(goal, found, base, now, arrivals_frozen=arrivals_frozen)
    if goal.replicas == base and placement.placeable is not None:
        told = f"no node came for these pods within 15 minutes: {placement.limit}"
        goal = goal.to(keepable(found, base, low, now), reasons.STOCK_OUT, told)
    return goal


def _tolerance(goal: Limited, found: Assessment, base: int) -> Limited:
    exact = found.need.exact_milli
    if exact is None or goal.replicas == base:
        return goal
    scaling = found.spec.scaling
    rules = scaling.scale_up if goal.replicas > base else scaling.scale_down
    if not within_tolerance(exact, base - found.need.stuck, rules):
        return goal
    return goal.to(
        base,
        reasons.WITHIN_TOLERANCE,
        f"{exact / 1000:.2f} needed is within {rules.tolerance_milli / 10:g} % of the {base} there",
    )


def _stabilization(goal: Limited, found: Assessment, base: int, now: float) -> Limited:
    if isinstance(found.load, Unknown):
        return goal  # no recommendation was made from data
    scaling = found.spec.scaling
    kept = stabilize(goal.replicas, base, found.memory.recommendations, scaling, now)
    if kept > goal.replicas:
        seconds = scaling.scale_down.stabilization_window_seconds
        told = f"{kept} were needed within the last {seconds} s"
        return goal.to(kept, reasons.SCALE_DOWN_STABILIZED, told)
    seconds = scaling.scale_up.stabilization_window_seconds
    told = f"only {kept} were needed throughout the last {seconds} s"
    return goal.to(kept, reasons.SCALE_UP_STABILIZED, told)


def _policies(goal: Limited, found: Assessment, base: int, now: float) -> Limited:
    scaling, events = found.spec.scaling, found.memory.scalings
    if goal.replicas > base:
        most = scale_up_limit(base, events, scaling.scale_up, now)
        told = f"spec.scaling.behavior.scaleUp allows {most} now"
        return goal.to(min(goal.replicas, most), reasons.SCALE_UP_LIMIT, told)
    if goal.replicas < base:
        least = scale_down_limit(base, events, scaling.scale_down, now)
        told = f"spec.scaling.behavior.scaleDown allows {least} now"
        return goal.to(max(goal.replicas, least), reasons.SCALE_DOWN_LIMIT, told)
    return goal


def _placeable(
    goal: Limited, found: Assessment, base: int, placement: Placement, now: float
) -> Limited:
    if placement.placeable is None:
        return goal
    scaling = found.spec.scaling
    backing_off = now < found.memory.backoff_until
    pending = 0 if backing_off else scaling.max_pending
    most = max(base, placement.placeable + pending)
    reason = reasons.STOCK_OUT if backing_off else reasons.NOT_PLACEABLE
    told = f"{placement.placeable} placeable, {pending} more may wait for nodes: {placement.limit}"
    if backing_off:
        left = found.memory.backoff_until - now
        told = (
            f"{placement.placeable} placeable, no more is tried for {left:.0f} s: {placement.limit}"
        )
    return goal.to(min(goal.replicas, most), reason, told)


def _proven(
    goal: Limited, found: Assessment, base: int, now: float, *, arrivals_frozen: bool
) -> Limited:
    """The furthest removal that is proven; none is, and the count stays."""
    load, blocks = found.load, found.blocks
    if isinstance(load, Unknown) or isinstance(blocks, Unknown):
        return goal.to(base, reasons.REMOVAL_NOT_PROVEN, "demand is not known")
    refused: tuple[str, str] | None = None
    for remaining in range(goal.replicas, base):
        removal = _removal(found, load, blocks, remaining, now, frozen=arrivals_frozen)
        why = objection(removal)
        goal = replace(goal, steps=(step(removal, why),))
        if why is None:
            return goal.to(remaining, reasons.SCALE_DOWN_LIMIT, "one proven step at a time")
        refused = why
    told = f"none is taken away: {refused[1]}" if refused else ""
    return goal.to(base, reasons.REMOVAL_NOT_PROVEN, told)


def _removal(
    found: Assessment, load: Load, blocks: EngineBlocks, remaining: int, now: float, *, frozen: bool
) -> Removal:
    return Removal(
        remaining=remaining,
        load=load,
        blocks=blocks,
        engines_per_pod=found.engines_per_pod,
        max_num_seqs=found.max_num_seqs,
        p99_blocks=found.declared.p99_blocks(load, blocks),
        scaling=found.spec.scaling,
        occupancy_percent=found.spec.occupancy_percent,
        supply=found.supply,
        pods=found.pool.pods,
        target=found.target,
        state=found.memory,
        new_sample=found.samples.new,
        arrivals_frozen=frozen,
        now=now,
    )
